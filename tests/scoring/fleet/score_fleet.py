"""Scores what ``history hosts`` promises on the record of a real fleet: ``python tests/scoring/fleet/score_fleet.py TRACE.json``.

The record is a list of ``{"node_id", "event_time", "event_type": "fault_start"}``, times in days. Each fault is taken for the incident of a
job on ``--hosts`` servers, all of the fleet or some drawn at random, that server among them. The history is asked after every ``--every``
incidents, of all incidents before or of the last days of ``--windows``. A server is *found* at the first look that names it.

Nobody knows which servers were really bad. So two things are counted: of the servers named with at least 30 days left, how many
failed again, beside servers with as many faults by then that were not named; and, of fleets in which each fault is moved to a server drawn
at random, in how many a look names anybody. There each name is an innocent.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from nccldoctor.history.recurrence import LEVEL, Trial, recurrences

HEADS = (
    "hosts of a job",
    "a look covers",
    "named",
    "with 6 faults",
    "after incidents: first / half",
    "own faults by then",
    "fail again",
    "others",
    "fleets with an innocent",
)
AFTER = 30.0
"""Days after a look in which a server may fail again."""


@dataclass(frozen=True)
class Fault:
    """A server failed at a time, in days."""

    server: str
    day: float


@dataclass(frozen=True)
class Named:
    """A server at the first look that names it: how many incidents there were, how many of them were its own, and the day."""

    server: str
    incidents: int
    own: int
    day: float


def read_faults(path: Path) -> list[Fault]:
    """The faults of a record, the oldest first."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    starts = (row for row in rows if row["event_type"] == "fault_start")
    return sorted((Fault(row["node_id"], float(row["event_time"])) for row in starts), key=lambda one: one.day)


def trials_of(faults: Sequence[Fault], fleet: Sequence[str], hosts: int, rng: random.Random) -> list[Trial]:
    """The incident of each fault: a job on so many servers, the failed one among them."""
    out = []
    for fault in faults:
        others = fleet if hosts >= len(fleet) else rng.sample(fleet, hosts - 1)
        out.append(Trial(frozenset({fault.server}), frozenset(others) | {fault.server}))
    return out


def looks(
    faults: Sequence[Fault], trials: Sequence[Trial], every: int, window: float
) -> Iterator[tuple[int, set[str]]]:
    """After how many incidents somebody looks, and whom the incidents of the last ``window`` days name then."""
    for number in range(every, len(faults) + 1, every):
        first = next(n for n, fault in enumerate(faults) if fault.day >= faults[number - 1].day - window)
        yield number, {one.name for one in recurrences(trials[first:number]) if one.chance <= LEVEL}


def first_named(faults: Sequence[Fault], trials: Sequence[Trial], every: int, window: float) -> list[Named]:
    """Each server at the first look that names it."""
    found: dict[str, Named] = {}
    for number, servers in looks(faults, trials, every, window):
        own = Counter(fault.server for fault in faults[:number])
        for server in servers - found.keys():
            found[server] = Named(server, number, own[server], faults[number - 1].day)
    return list(found.values())


def failed_again(faults: Sequence[Fault], named: Sequence[Named]) -> tuple[int, int]:
    """Of the named servers with days left, how many failed again within them; and how many there are."""
    seen = [one for one in named if one.day + AFTER <= faults[-1].day]
    return sum(_fails(faults, one.server, one.day) for one in seen), len(seen)


def failed_beside(faults: Sequence[Fault], named: Sequence[Named]) -> tuple[int, int]:
    """The same of servers with any fault before, on the days of those looks, that were never named."""
    names = {one.server for one in named}
    pairs = {
        (f.server, one.day) for one in named if one.day + AFTER <= faults[-1].day for f in faults if f.day <= one.day
    }
    beside = [pair for pair in pairs if pair[0] not in names]
    return sum(_fails(faults, server, day) for server, day in beside), len(beside)


def _fails(faults: Sequence[Fault], server: str, day: float) -> bool:
    return any(fault.server == server and day < fault.day <= day + AFTER for fault in faults)


def shuffled(faults: Sequence[Fault], fleet: Sequence[str], rng: random.Random) -> list[Fault]:
    """The same days, each fault on a server drawn at random."""
    return [Fault(rng.choice(fleet), fault.day) for fault in faults]


def main(words: Sequence[str]) -> int:
    """Print a row for each size of job and each window."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--fleet", type=int, default=400, help="servers of the fleet")
    parser.add_argument("--hosts", type=int, nargs="+", default=[400, 64], help="servers of a job")
    parser.add_argument("--windows", type=float, nargs="+", default=[1e9, 90, 30], help="days that a look covers")
    parser.add_argument("--every", type=int, default=20, help="incidents between two looks")
    parser.add_argument("--shuffles", type=int, default=40)
    options = parser.parse_args(words)
    faults = read_faults(options.trace)
    known = sorted({fault.server for fault in faults})
    fleet = [*known, *(f"without a fault {n}" for n in range(options.fleet - len(known)))]
    counts = Counter(fault.server for fault in faults)
    print(f"{len(faults)} faults of {len(known)} of {len(fleet)} servers in {faults[-1].day - faults[0].day:.0f} days")
    print("servers with at least N faults:", {n: sum(c >= n for c in counts.values()) for n in (2, 4, 6, 8)})
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for hosts in options.hosts:
        trials = trials_of(faults, fleet, hosts, random.Random(1))
        for window in options.windows:
            named = first_named(faults, trials, options.every, window)
            accused = []
            for seed in range(options.shuffles):
                moved = shuffled(faults, fleet, random.Random(1000 + seed))
                of_moved = trials_of(moved, fleet, hosts, random.Random(seed))
                accused.append(len(first_named(moved, of_moved, options.every, window)))
            many = {server for server, count in counts.items() if count >= 6}
            after, own = sorted(one.incidents for one in named), sorted(one.own for one in named)
            cells = (
                hosts,
                "all" if window > 1e6 else f"{window:g} days",
                len(named),
                f"{len(many & {one.server for one in named})} of {len(many)}",
                f"{after[0]} / {median(after):g}" if after else "-",
                f"{median(own):g}" if own else "-",
                "{} of {}".format(*failed_again(faults, named)),
                "{} of {}".format(*failed_beside(faults, named)),
                f"{sum(map(bool, accused))} of {options.shuffles}",
            )
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
