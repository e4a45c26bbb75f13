"""The blocks below *Errors* and *Warnings* of a RAS report: the members that it lists, with their counts and processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise

from msgspec import Struct

from nccldoctor.events import RasStatus
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

MOST_RANKS = 1 << 20
"""No communicator has more ranks; larger numbers in a report are a known fault of it."""

_BLOCK = 600
"""Lines of a block that are read."""

BLOCK_HEAD = lazy(
    r"^\s*(?:#(?P<group>\d{1,6})-\d{1,6} \((?P<hash>[0-9a-fA-F:x]{1,64})\)"
    r" )?(?P<what>INCOMPLETE|DEAD|TIMEOUT|ERROR|MISMATCH)\s*$"
)
"""The first line of a block."""

_REPORTED = lazy(r"^\s*Rank (?P<rank>\d{1,12}) reported (?P<error>.{1,60}?) -- ")
_RANK = lazy(r"^\s*Rank (?P<rank>\d{1,12})\b(?P<rest>.{0,300})")
_RANK_LIST = lazy(r"The missing ranks?: (?P<list>[\d,\- ]{1,2000})")
_LAUNCHED = lazy(r"has launched up to operation (?P<n>\d{1,18})|(?P<none>has not launched any operations)")
_OPERATION = lazy(r"Communicator ranks have different (?P<op>\w{1,24}) operation counts")
_MANY = lazy(r"(?P<k>\d{1,9}) ranks? (?:have|has) (?:launched up to operation (?P<n>\d{1,18})|not launched any)")
PROCESS = lazy(r"[Pp]rocess (?P<pid>\d{1,10}) on node (?P<host>\S{1,120})(?P<rest>.{0,120})")
"""A process and its node."""


class Outliers(Struct):
    """Ranks that a block names, their counts, where they run, and whether some of it cannot be. Rank -1 stands for the many."""

    ranks: list[int] = []
    counts: list[tuple[int, str, int]] = []
    many: list[tuple[int, str, int]] = []
    processes: list[tuple[int, str, int]] = []
    impossible: bool = False


def outliers(below: list[str]) -> Outliers:
    """The members that the lines of a block name. Members listed below a count have that count."""
    out, op = Outliers(), ""
    above: tuple[int, str, int] | None = None  # the count below which members may be listed
    for text in below:
        if hit := _OPERATION.search(text):
            op = hit["op"]
        elif hit := _RANK_LIST.search(text):
            out.ranks.extend(r for r in _ranks_in(hit["list"]) if r < MOST_RANKS)
        elif hit := _RANK.search(text):
            rank = int(hit["rank"])
            if rank >= MOST_RANKS:
                out.impossible = True
                continue
            out.ranks.append(rank)
            if at := PROCESS.search(text):
                out.processes.append((rank, at["host"], int(at["pid"])))
            if launched := _LAUNCHED.search(hit["rest"]):
                out.counts.append((rank, op, int(launched["n"] or 0)))
            elif above is not None and "status" not in hit["rest"]:
                out.counts.append((rank, op, above[2]))
                if above in out.many:
                    out.many.remove(above)
        elif hit := _MANY.search(text):
            above = (-1, op, int(hit["n"] or 0))
            out.many.append(above)
    return out


def _ranks_in(text: str) -> list[int]:
    out: list[int] = []
    for part in text.replace(" ", "").split(",")[:4096]:
        low, _, high = part.partition("-")
        if low.isdigit() and len(low) < 8:
            last = int(high) if high.isdigit() and len(high) < 8 else int(low)
            out.extend(range(int(low), min(last, int(low) + 4096) + 1))
    return out


@for_rows
def ras_block(line: Line, first: re.Match[str]) -> Iterator[RasStatus]:
    """The events of the block that begins on this line."""
    below: list[str] = []
    for text, after in pairwise([*(other.body for other in line.following(_BLOCK)), ""]):
        if not text.strip() and _OPERATION.search(after[:300]):
            continue  # an empty line stands between the operations of one block
        if not text.strip() or BLOCK_HEAD.search(text[:300]) or text[:1] not in " \t":
            break
        below.append(text)
    if not below:
        return
    if first["what"] in ("DEAD", "INCOMPLETE") and first["group"] is None:
        yield from _processes(line, first["what"], below)
        return
    found = outliers(below)
    told = (" reported ", " status ", " launched ", "operation counts", "he missing rank")
    details = [
        below[0].strip(),
        *list(islice((row.partition(" -- ")[0].strip() for row in below[1:] if any(word in row for word in told)), 4)),
        *(["the report has impossible rank numbers"] if found.impossible else []),
    ]
    name = f"communicator {first['hash']}: " if first["hash"] else ""
    rows = "\n".join([line.body, *below[:4]])
    yield RasStatus(
        **common(line, rank=None, text=rows[:500]),
        what=first["what"],
        missing=Ranks(found.ranks),
        detail=(name + "; ".join(details))[:300],
        counts=tuple(found.counts + found.many),
        comm_id=comm_id_of(first["hash"]) if first["hash"] and not found.impossible else None,
        processes=tuple(found.processes),
        table=int(first["group"]) if first["group"] else None,
    )
    if first["what"] == "ERROR":
        yield from _reported_errors(line, below)


def _reported_errors(line: Line, below: list[str]) -> Iterator[RasStatus]:
    """One event for each rank that reports an error itself."""
    for row in below[:256]:
        who, where = _REPORTED.search(row[:300]), PROCESS.search(row[:300])
        if who and where and int(who["rank"]) < MOST_RANKS:
            yield RasStatus(
                **common(line, rank=None, host=where["host"], pid=int(where["pid"]), group_rank=int(who["rank"])),
                what="ERROR",
                detail=f"reports {who['error'].strip()}",
            )


@for_rows
def comm_id_of(number: str) -> str:
    """One spelling for a communicator's hash: RAS prints it with leading zeros, INIT lines with ``0x``."""
    digits = number.lower().removeprefix("0x").lstrip("0")
    return f"0x{digits or '0'}"


def _processes(line: Line, what: str, below: list[str]) -> Iterator[RasStatus]:
    """One event for each process, so that host and process id lead to its rank."""
    found = [hit for hit in map(PROCESS.search, below) if hit]
    for hit in found[:256]:
        fields = common(line, rank=None, host=hit["host"], pid=int(hit["pid"]))
        yield RasStatus(**fields, what=what, detail=hit[0].strip()[:300])
    if not found:
        yield RasStatus(**common(line, rank=None), what=what, detail=below[0].strip()[:300])


MOST_GPUS = 1 << 17
"""GPUs that a job is believed to have; a job's size costs time everywhere, and strangers write the summary."""

_TOTAL = lazy(r"^\s*\d{1,7}(?:\s+\d{1,9}){2,5}\s*$")


@for_rows
def gpus_in_all(line: Line, hit: re.Match[str]) -> Iterator[RasStatus]:
    """The last column of the job summary: all GPUs. A varying layout ends in a table of totals alone."""
    below = next(line.following(1), None)
    if "(total)" in line.body.rstrip()[-8:] and below is not None and _TOTAL.match(below.body[:200]):
        total = int(below.body.split()[-1])
        if 0 < total <= MOST_GPUS:
            yield RasStatus(**common(below, rank=None), what="TOTAL", nranks=total, detail=f"{total} GPUs in all")


@for_rows
def block_above(line: Line, hit: re.Match[str]) -> Iterator[RasStatus]:
    """The events of a block whose head is the word on the line above."""
    above = next(line.preceding(1), None)
    first = BLOCK_HEAD.search(above.body[:300]) if above else None
    if above and first and not first["group"]:
        yield from ras_block(above, first)
