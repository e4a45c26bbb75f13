"""Tells the lines of merged logs whose ``[Rank 1]`` counts inside a part of the job.

Watchdogs before PyTorch 2.3 print the rank inside a group and no group. In a log of many ranks such a number is the global rank only where
the group is the whole job. Example: ``[Rank 0]``, ``[Rank 2]`` and ``[Rank 3]`` of 4 gave up on #16669 and ``[Rank 1]`` on #33337: the
numbers are of two groups. The first has 4 members, the second perhaps 2, so that its rank 1 may be rank 3 of the job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from nccldoctor.events import CallTimeout, Event, Events, WorkStatus

FAR = 64
"""Numbers of one group do not lie further apart while its ranks wait for each other."""


class LocalLines(Struct, frozen=True):
    """The numbers of calls whose group may be a part of the job. No call of the whole job names ``ranks``."""

    numbers: frozenset[int] = frozenset()
    ranks: frozenset[int] = frozenset()

    def is_local(self, event: Event) -> bool:
        """True when the rank that the line prints may count inside a part of the job."""
        number = _number(event)
        return number in self.numbers if number is not None else event.group_rank in self.ranks


def find_local_lines(events: Events, merged: Collection[int], known: Iterable[int]) -> LocalLines:
    """The local lines among those without rank and group in the ``merged`` sources; ``known`` are ranks told otherwise."""
    named: dict[int, set[int]] = {}
    for event in events.of_kind(CallTimeout, WorkStatus):
        number = _number(event)
        is_bare = event.rank is None and event.group is None and event.group_rank is not None
        if number is not None and is_bare and event.place.source in merged and event.group_rank is not None:
            named.setdefault(number, set()).add(event.group_rank)
    clusters: list[list[int]] = []
    for number in sorted(named):
        if not clusters or number - clusters[-1][-1] > FAR:
            clusters.append([])
        clusters[-1].append(number)
    ranks_of = [frozenset(rank for number in cluster for rank in named[number]) for cluster in clusters]
    above = max((*known, *(rank for ranks in ranks_of for rank in ranks)), default=-1) + 1
    is_part = [2 * max(2, max(ranks) + 1) <= above for ranks in ranks_of]
    whole_job = max((len(ranks) for ranks, part in zip(ranks_of, is_part, strict=True) if not part), default=0)
    if len(clusters) < 2 or whole_job < 2:  # of two ranks with numbers far apart, either may be of the whole job
        return LocalLines()
    whole = frozenset[int]().union(*(r for r, part in zip(ranks_of, is_part, strict=True) if not part))
    local = frozenset[int]().union(*(r for r, part in zip(ranks_of, is_part, strict=True) if part))
    numbers = (n for cluster, part in zip(clusters, is_part, strict=True) if part for n in cluster)
    return LocalLines(frozenset(numbers), local - whole)


def _number(event: Event) -> int | None:
    """The number of the call that a line is about."""
    if isinstance(event, CallTimeout):
        return event.seq
    return event.failed if isinstance(event, WorkStatus) else None
