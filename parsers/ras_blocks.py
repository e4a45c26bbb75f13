"""The blocks below *Errors* and *Warnings* of a RAS report: the members that it lists, with their counts and processes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

MOST_RANKS = 1 << 20
"""No communicator has more ranks; larger numbers in a report are a known fault of it."""


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
    return re.compile(
        r"(?P<k>\d{1,9}) ranks? (?:have|has) (?:launched up to operation (?P<n>\d{1,18})|not launched any)"
    )


@cache
def process() -> re.Pattern[str]:
    """A process and its node."""
    return re.compile(r"[Pp]rocess (?P<pid>\d{1,10}) on node (?P<host>\S{1,120})(?P<rest>.{0,120})")


@dataclass(slots=True)
class Outliers:
    """Ranks that a block names, their counts, where they run, and whether some of it cannot be. Rank -1 stands for the many."""

    ranks: list[int] = field(default_factory=list)
    counts: list[tuple[int, str, int]] = field(default_factory=list)
    many: list[tuple[int, str, int]] = field(default_factory=list)
    processes: list[tuple[int, str, int]] = field(default_factory=list)
    impossible: bool = False


def outliers(below: list[str]) -> Outliers:
    """What the lines of a block tell. Members listed below a count have that count."""
    out, op = Outliers(), ""
    above: tuple[int, str, int] | None = None  # the count below which members may be listed
    for text in below:
        if hit := _operation().search(text):
            op = hit["op"]
        elif hit := _rank_list().search(text):
            out.ranks.extend(r for r in _listed(hit["list"]) if r < MOST_RANKS)
        elif hit := _rank().search(text):
            rank = int(hit["rank"])
            if rank >= MOST_RANKS:
                out.impossible = True
                continue
            out.ranks.append(rank)
            if at := process().search(text):
                out.processes.append((rank, at["host"], int(at["pid"])))
            if launched := _launched().search(hit["rest"]):
                out.counts.append((rank, op, int(launched["n"] or 0)))
            elif above is not None and "status" not in hit["rest"]:
                out.counts.append((rank, op, above[2]))
                if above in out.many:
                    out.many.remove(above)
        elif hit := _many().search(text):
            above = (-1, op, int(hit["n"] or 0))
            out.many.append(above)
    return out


def _listed(text: str) -> list[int]:
    out: list[int] = []
    for part in text.replace(" ", "").split(",")[:4096]:
        low, _, high = part.partition("-")
        if low.isdigit() and len(low) < 8:
            last = int(high) if high.isdigit() and len(high) < 8 else int(low)
            out.extend(range(int(low), min(last, int(low) + 4096) + 1))
    return out
