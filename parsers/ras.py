"""NCCL's RAS report as text (``ncclras -v``): who does not answer, and whose counts differ.

Source: NVIDIA/nccl ``src/ras/client_support.cc``, v2.24.3 to v2.30.7, and the NVIDIA manual. Ranks are those of a
communicator, global only where it has as many ranks as the job. The report lists outliers (at most 10 members and a
quarter of the communicator), so a tie or a majority is not in it; it counts calls that were launched, of five
collectives, never send and recv: equal counts prove nothing, and unequal counts are a hang only if they stay.
Reports with impossible numbers occur (2.27.3) and are kept as notes of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

from nccldoctor.events import Event, RasStatus
from nccldoctor.parsers.base import Line, LineParser, Sample, common, line_parser
from nccldoctor.parsers.ras_blocks import MOST_RANKS, outliers, process
from nccldoctor.ranks import Ranks

_BLOCK = 600


@cache
def _head() -> re.Pattern[str]:
    return re.compile(
        r"^\s*(?:#(?P<group>\d{1,6})-(?P<comm>\d{1,6}) \((?P<hash>[0-9a-fA-F:x]{1,64})\)"
        r" )?(?P<what>INCOMPLETE|DEAD|TIMEOUT|ERROR|MISMATCH)\s*$"
    )


@cache
def _second() -> re.Pattern[str]:
    return re.compile(
        r"^\s*(?:Missing communicator data from|\d{1,9} job process.{0,20} considered dead|Encountered \d{1,9}"
        r" communication timeout)"
    )


@cache
def _row() -> re.Pattern[str]:
    return re.compile(
        r"^\s*(?P<group>\d{1,6})\s+(?P<comms>\d{1,7})\s+(?P<nodes>[\d\-]{1,15})\s+(?P<per>[\d\-]{1,15})\s+"
        r"(?P<size>\d{1,9})\s+(?P<ranks>\d{1,9})\s+"
        r"(?P<status>INIT|RUNNING|FINALIZE|ABORT|NOCOMM|UNKNOWN)\s+"
        r"(?P<errors>(?:OK|MISMATCH|ERROR|INCOMPLETE)(?:,(?:MISMATCH|ERROR|INCOMPLETE)){0,3})\s*$"
    )


@cache
def _total() -> re.Pattern[str]:
    return re.compile(r"^\s*\d{1,7}(?:\s+\d{1,9}){2,5}\s*$")


@cache
def _reported() -> re.Pattern[str]:
    return re.compile(r"^\s*Rank (?P<rank>\d{1,12}) reported (?P<error>.{1,60}?) -- ")


@line_parser
class RasParser(LineParser):
    """One event for each row of the table, each block below *Errors*."""

    literals = (
        ") INCOMPLETE",
        ") MISMATCH",
        ") ERROR",
        "Missing communicator data from",
        "considered dead (unreachable",
        "communication timeout",
        "RUNNING  ",
        "NOCOMM  ",
        "FINALIZE  ",
        "ABORT  ",
        "UNKNOWN  ",
        " INIT  ",
        "(total)",
    )
    samples = (
        Sample(
            "  Nodes    Processes          GPUs  Processes      GPUs\n"
            "  (total)   per node   per process    (total)   (total)\n"
            "      2            4             1          8         8\n",
            ({"kind": "ras", "what": "TOTAL", "nranks": 8, "detail": "8 GPUs in all"},),
            "NVIDIA/nccl docs/examples/08_ras, v2.30.7",
        ),
        Sample(
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
            "    #  in group  per comm  per node  per comm  in group\n"
            "    0         1        16         8       128       128   RUNNING  OK\n",
            (
                {
                    "kind": "ras",
                    "what": "OK",
                    "table": 0,
                    "nranks": 128,
                    "detail": "group 0: 1 communicator(s) of 128 ranks, RUNNING",
                },
            ),
            "NVIDIA/nccl src/ras/client_support.cc, v2.26.2",
        ),
        Sample(
            "#0-0 (5a1c90e4d7723bf1) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 1 -- GPU 0 managed by"
            " process 71004 on node 10.0.0.13\n",
            (
                {
                    "kind": "ras",
                    "what": "INCOMPLETE",
                    "missing": Ranks([1]),
                    "comm_id": "0x5a1c90e4d7723bf1",
                    "processes": ((1, "10.0.0.13", 71004),),
                },
            ),
            "NVIDIA/nccl src/ras/client_support.cc, v2.27.3",
        ),
        Sample(
            "#1-0 (5a1c90e4d7723bf1) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  7"
            " ranks have launched up to operation 812\n  Rank 5 has launched up to operation 811 -- GPU 5 managed by"
            " process 9 on node n1\n",
            (
                {
                    "kind": "ras",
                    "what": "MISMATCH",
                    "missing": Ranks([5]),
                    "counts": ((5, "AllReduce", 811), (-1, "AllReduce", 812)),
                    "processes": ((5, "n1", 9),),
                    "table": 1,
                },
            ),
            "NVIDIA/nccl src/ras/client_support.cc, v2.28.3",
        ),
        Sample(
            "#0-0 (78db) MISMATCH\n  Communicator ranks have different Broadcast operation counts\n  14 ranks have"
            " launched up to operation 64\n  2 ranks have launched up to operation 60\n  Rank 3 -- GPU 3 managed by"
            " process 9 on node n1\n  Rank 7 -- GPU 3 managed by process 8 on node n2\n",
            (
                {
                    "kind": "ras",
                    "missing": Ranks([3, 7]),
                    "counts": ((3, "Broadcast", 60), (7, "Broadcast", 60), (-1, "Broadcast", 64)),
                },
            ),
            "NVIDIA/nccl src/ras/client_support.cc, v2.28.3: members of a larger minority stand below their count",
        ),
        Sample(
            "#0-0 (5a) ERROR\n  Asynchronous errors on 2 ranks\n  Rank 3 reported Unhandled CUDA error -- GPU 3 managed by"
            " process 9 on node n1\n  Rank 4 reported Remote process error -- GPU 0 managed by process 8 on node n2\n",
            (
                {"kind": "ras", "what": "ERROR", "missing": Ranks([3, 4])},
                {
                    "kind": "ras",
                    "what": "ERROR",
                    "group_rank": 3,
                    "host": "n1",
                    "pid": 9,
                    "detail": "reports Unhandled CUDA error",
                },
                {"kind": "ras", "what": "ERROR", "group_rank": 4, "host": "n2", "pid": 8},
            ),
            "NVIDIA/nccl src/ras/client_support.cc, v2.28.3",
        ),
        Sample(
            "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 71004 on node"
            " 10.0.0.13 managing GPU 0\n",
            ({"kind": "ras", "what": "DEAD", "host": "10.0.0.13", "pid": 71004},),
            "NVIDIA/nccl src/ras/client_support.cc, v2.27.3",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """Table rows stand alone; a block ends at the next blank line. Heads of one word are found by the line below
        them.
        """
        body = line.body
        if "(total)" in body:
            yield from _all_gpus(line)
        elif hit := _row().search(body[:300]):
            size = f"{hit['comms']} communicator(s) of {hit['size']} ranks, {hit['status']}"
            yield RasStatus(
                **common(line, rank=None),
                what=hit["errors"],
                detail=f"group {hit['group']}: {size}",
                nranks=int(hit["size"]),
                table=int(hit["group"]),
            )
        elif hit := _head().search(body[:300]):
            if hit["group"]:
                yield from _block(line, hit)
        elif _second().search(body[:300]):
            above = next(line.preceding(1), None)
            head = _head().search(above.body[:300]) if above else None
            if above and head and not head["group"]:
                yield from _block(above, head)


def _all_gpus(line: Line) -> Iterator[RasStatus]:
    """The last column of the job summary, which counts all GPUs; a varying layout ends in a table of totals alone."""
    below = next(line.following(1), None)
    if "(total)" in line.body.rstrip()[-8:] and below is not None and _total().match(below.body[:200]):
        total = int(below.body.split()[-1])
        if 0 < total < MOST_RANKS:
            yield RasStatus(**common(below, rank=None), what="TOTAL", nranks=total, detail=f"{total} GPUs in all")


def _block(line: Line, head: re.Match[str]) -> Iterator[RasStatus]:
    below: list[str] = []
    for other in line.following(_BLOCK):
        text = other.body
        if not text.strip() or _head().search(text[:300]) or text[:1] not in " \t":
            break
        below.append(text)
    if not below:
        return
    if head["what"] in ("DEAD", "INCOMPLETE") and head["group"] is None:
        yield from _processes(line, head["what"], below)
        return
    found = outliers(below)
    told = [
        below[0].strip(),
        *_said(below[1:]),
        *(["the report has impossible rank numbers"] if found.impossible else []),
    ]
    name = f"communicator {head['hash']}: " if head["hash"] else ""
    rows = "\n".join([line.body, *below[:4]])
    yield RasStatus(
        **common(line, rank=None, text=rows[:500]),
        what=head["what"],
        missing=Ranks(found.ranks),
        detail=(name + "; ".join(told))[:300],
        counts=tuple(found.counts + found.many),
        comm_id=spelled(head["hash"]) if head["hash"] and not found.impossible else None,
        processes=tuple(found.processes),
        table=int(head["group"]) if head["group"] else None,
    )
    if head["what"] == "ERROR":
        yield from _reporters(line, below)


def _reporters(line: Line, below: list[str]) -> Iterator[RasStatus]:
    """One event for each rank that reports an error itself."""
    for row in below[:256]:
        who, where = _reported().search(row[:300]), process().search(row[:300])
        if who and where and int(who["rank"]) < MOST_RANKS:
            yield RasStatus(
                **common(line, rank=None, host=where["host"], pid=int(where["pid"]), group_rank=int(who["rank"])),
                what="ERROR",
                detail=f"reports {who['error'].strip()}",
            )


def spelled(number: str) -> str:
    """One spelling for a communicator's hash: RAS prints it with leading zeros, INIT lines with ``0x``."""
    digits = number.lower().removeprefix("0x").lstrip("0")
    return f"0x{digits or '0'}"


def _said(rows: list[str]) -> list[str]:
    """What the first ranks of a block reported, or the state they are in."""
    said = (row.partition(" -- ")[0].strip() for row in rows if " reported " in row or " status " in row)
    return list(islice(said, 4))


def _processes(line: Line, what: str, below: list[str]) -> Iterator[RasStatus]:
    """One event for each process, so that host and process id lead to its rank."""
    found = [hit for hit in map(process().search, below) if hit]
    for hit in found[:256]:
        yield RasStatus(
            **common(line, rank=None, host=hit["host"], pid=int(hit["pid"])), what=what, detail=hit[0].strip()[:300]
        )
    if not found:
        yield RasStatus(**common(line, rank=None), what=what, detail=below[0].strip()[:300])
