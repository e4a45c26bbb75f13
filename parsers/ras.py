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
from nccldoctor.ranks import Ranks

MOST_RANKS = 1 << 20
"""No communicator has more ranks; larger numbers in a report are a known fault of it."""

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
def _rank() -> re.Pattern[str]:
    return re.compile(r"^\s*Rank (?P<rank>\d{1,12})\b(?P<rest>.{0,300})")


@cache
def _rank_list() -> re.Pattern[str]:
    return re.compile(r"The missing ranks?: (?P<list>[\d,\- ]{1,2000})")


@cache
def _launched() -> re.Pattern[str]:
    return re.compile(r"has launched up to operation (?P<n>\d{1,18})|(?P<none>has not launched any operations)")


@cache
def _operation() -> re.Pattern[str]:
    return re.compile(r"Communicator ranks have different (?P<op>\w{1,24}) operation counts")


@cache
def _many() -> re.Pattern[str]:
    return re.compile(r"(?P<k>\d{1,9}) ranks? (?:have|has) launched up to operation (?P<n>\d{1,18})")


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
    )
    samples = (
        Sample(
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
            "    #  in group  per comm  per node  per comm  in group\n"
            "    0         1        16         8       128       128   RUNNING  OK\n",
            ({"kind": "ras", "what": "OK", "detail": "group 0: 1 communicator(s) of 128 ranks, RUNNING"},),
            "NVIDIA/nccl src/ras/client_support.cc, v2.26.2",
        ),
        Sample(
            "#0-0 (5a1c90e4d7723bf1) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 1 -- GPU 0 managed by"
            " process 71004 on node 10.0.0.13\n",
            ({"kind": "ras", "what": "INCOMPLETE", "missing": Ranks([1])},),
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
                },
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
        if hit := _row().search(body[:300]):
            size = f"{hit['comms']} communicator(s) of {hit['size']} ranks, {hit['status']}"
            yield RasStatus(**common(line, rank=None), what=hit["errors"], detail=f"group {hit['group']}: {size}")
        elif hit := _head().search(body[:300]):
            if hit["group"]:
                yield from _block(line, hit)
        elif _second().search(body[:300]):
            above = next(line.preceding(1), None)
            head = _head().search(above.body[:300]) if above else None
            if above and head and not head["group"]:
                yield from _block(above, head)


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
    missing, counts, impossible = _outliers(below)
    name = f"communicator {head['hash']}: " if head["hash"] else ""
    told = [below[0].strip(), *_said(below[1:]), *(["the report has impossible rank numbers"] if impossible else [])]
    detail = name + "; ".join(told)
    yield RasStatus(
        **common(line, rank=None), what=head["what"], missing=Ranks(missing), detail=detail[:300], counts=tuple(counts)
    )


def _said(rows: list[str]) -> list[str]:
    """What the first ranks of a block reported, or the state they are in."""
    said = (row.partition(" -- ")[0].strip() for row in rows if " reported " in row or " status " in row)
    return list(islice(said, 4))


@cache
def _process() -> re.Pattern[str]:
    return re.compile(r"Process (?P<pid>\d{1,10}) on node (?P<host>\S{1,120})(?P<rest>.{0,120})")


def _processes(line: Line, what: str, below: list[str]) -> Iterator[RasStatus]:
    """One event for each process, so that host and process id lead to its rank."""
    found = [hit for hit in map(_process().search, below) if hit]
    for hit in found[:256]:
        yield RasStatus(
            **common(line, rank=None, host=hit["host"], pid=int(hit["pid"])), what=what, detail=hit[0].strip()[:300]
        )
    if not found:
        yield RasStatus(**common(line, rank=None), what=what, detail=below[0].strip()[:300])


def _outliers(below: list[str]) -> tuple[list[int], list[tuple[int, str, int]], bool]:
    """Ranks that the block names, their counts, and whether some of it cannot be. Rank -1 in the counts stands for
    the many.
    """
    ranks: list[int] = []
    counts: list[tuple[int, str, int]] = []
    many: list[tuple[int, str, int]] = []
    impossible, op = False, ""
    for text in below:
        if hit := _operation().search(text):
            op = hit["op"]
        elif hit := _rank_list().search(text):
            ranks.extend(r for r in _listed(hit["list"]) if r < MOST_RANKS)
        elif hit := _rank().search(text):
            rank = int(hit["rank"])
            if rank >= MOST_RANKS:
                impossible = True
                continue
            ranks.append(rank)
            if launched := _launched().search(hit["rest"]):
                counts.append((rank, op, int(launched["n"] or 0)))
        elif hit := _many().search(text):
            many.append((-1, op, int(hit["n"])))
    return ranks, counts + many, impossible


def _listed(text: str) -> list[int]:
    out: list[int] = []
    for part in text.replace(" ", "").split(",")[:4096]:
        low, _, high = part.partition("-")
        if low.isdigit() and len(low) < 8:
            last = int(high) if high.isdigit() and len(high) < 8 else int(low)
            out.extend(range(int(low), min(last, int(low) + 4096) + 1))
    return out
