"""Keeps apart the worlds of one Ray job, which number their ranks alike; one world is diagnosed.

Example: in one log process 101 of ``PolicyModelActor`` is rank 0, and so is process 201 of ``CriticModelActor``. Each kind of actor makes
process groups of its own. Where processes of one kind share a rank, as several engines of vLLM do, nothing tells their worlds apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import combinations

from msgspec import Struct, field
from msgspec.structs import replace

from nccldoctor.events import Event, ExceptionRaised, GpuError, ProcessExit, Writer
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.line_prefix.layouts import actor_of

MOST = 64
"""Kinds of actors, and processes of one rank, that are compared."""


class _Span(Struct):
    """Where the lines of one process stand: first and last line by source, first and last time."""

    lines: dict[int, tuple[int, int]] = {}
    times: list[datetime] = []

    def widen(self, event: Event) -> None:
        """Add a line."""
        line = event.place.line or 0
        first, last = self.lines.get(event.place.source, (line, line))
        self.lines[event.place.source] = min(first, line), max(last, line)
        if event.time is not None:
            time = event.time.replace(tzinfo=None)
            self.times = [min([time, *self.times]), max([time, *self.times])]

    def is_beside(self, other: _Span) -> bool:
        """True when both processes ran at one time; a process that was started again ran later."""
        if self.times and other.times:
            return self.times[0] <= other.times[-1] and other.times[0] <= self.times[-1]
        shared = self.lines.keys() & other.lines.keys()
        return any(self.lines[at][0] <= other.lines[at][1] and other.lines[at][0] <= self.lines[at][1] for at in shared)


class _World(Struct):
    """What lines say of the processes of one kind of actor, by rank.

    ``complaints`` are ranks that gave up, ``first`` is the number of the first such line; ``broke`` where a process failed by itself.
    """

    ranks: dict[int, dict[str, _Span]] = field(default_factory=lambda: defaultdict(dict))
    complaints: set[int] = set()
    broke: bool = False
    first: float = math.inf

    @property
    def pids(self) -> set[int]:
        """The ids of all processes that are a rank of it."""
        actors = (actor_of(label) for of_rank in self.ranks.values() for label in of_rank)
        return {actor[1] for actor in actors if actor is not None}

    @property
    def weight(self) -> tuple[bool, bool, bool, float]:
        """A sort key: first a world in which something broke, then one where ranks gave up and others did not."""
        is_part = 0 < len(self.complaints) <= max(self.ranks, default=-1)
        return self.broke, is_part, bool(self.complaints), -self.first


def one_world(read: Ingested) -> Ingested:
    """What was read, without the processes of other worlds. Those are a Gap, and so are worlds that cannot be told apart."""
    worlds = _worlds(read)
    clashes = [
        pair for pair in combinations(sorted(worlds)[:MOST], 2) if _has_same_rank(worlds[pair[0]], worlds[pair[1]])
    ]
    gaps = [Gap(f"ranks of {name}", why, of_worlds=True) for name, own in worlds.items() if (why := _why_mixed(own))]
    if not clashes:
        return replace(read, gaps=(*read.gaps, *gaps)) if gaps else read
    names = {name for pair in clashes for name in pair}
    main = max(sorted(names), key=lambda name: worlds[name].weight)
    others = sorted(names - {main})
    gaps = [gap for gap in gaps if gap.what == f"ranks of {main}"]
    gaps += [_left_out(name, worlds[name], clashes, worlds) for name in others]
    gone = frozenset(pid for name in others for pid in worlds[name].pids) - worlds[main].pids
    parsed = (
        replace(
            one, events=tuple(e for e in one.events if not (kind in others if (kind := _kind_of(e)) else e.pid in gone))
        )
        for one in read.parsed
    )
    return replace(read, parsed=tuple(parsed), gaps=(*read.gaps, *gaps))


def _worlds(read: Ingested) -> dict[str, _World]:
    """The worlds by the kind of their processes."""
    worlds: dict[str, _World] = defaultdict(_World)
    for number, event in enumerate(event for one in read.parsed for event in one.events):
        kind = _kind_of(event)
        if kind is None or event.actor is None or event.rank is None or event.written_by is not Writer.RANK:
            continue
        world = worlds[kind]
        world.ranks[event.rank].setdefault(event.actor, _Span()).widen(event)
        if event.is_alarm:
            world.complaints.add(event.rank)
            world.first = min(world.first, number)
    if len(worlds) > 1:
        _find_broken(read, worlds)
    return dict(worlds)


def _find_broken(read: Ingested, worlds: Mapping[str, _World]) -> None:
    """Mark the worlds in which a process raised an exception of its own, broke its GPU or was lost."""
    of_pid = {pid: name for name, world in worlds.items() for pid in world.pids}
    for event in (event for one in read.parsed for event in one.events):
        is_own = isinstance(event, ExceptionRaised) and event.origin == "own" and event.is_uncaught
        if is_own or isinstance(event, GpuError | ProcessExit):
            name = _kind_of(event) or of_pid.get(event.pid or -1)
            if name is not None and name in worlds:
                worlds[name].broke = True


def _kind_of(event: Event) -> str | None:
    actor = actor_of(event.actor) if event.actor is not None else None
    return actor[0] if actor is not None else None


def _has_same_rank(one: _World, other: _World) -> bool:
    """True when a process of each is the same rank at one time."""
    return any(
        span.is_beside(theirs)
        for rank in one.ranks.keys() & other.ranks.keys()
        for span in list(one.ranks[rank].values())[:MOST]
        for theirs in list(other.ranks[rank].values())[:MOST]
    )


def _why_mixed(world: _World) -> str:
    """Why ranks of a kind are of several worlds; empty where each has one process at a time."""
    for rank, of_rank in sorted(world.ranks.items()):
        for (one, span), (other, theirs) in combinations(list(of_rank.items())[:MOST], 2):
            if span.is_beside(theirs):
                return (
                    f"{one} and {other} are both rank {rank} at the same time: several worlds share rank numbers, and nothing tells "
                    "them apart"
                )
    return ""


def _left_out(name: str, world: _World, clashes: Sequence[tuple[str, str]], worlds: Mapping[str, _World]) -> Gap:
    beside = next(one if two == name else two for one, two in clashes if name in (one, two))
    shared = min(world.ranks.keys() & worlds[beside].ranks.keys())
    why = (
        f"a different world: rank {shared} is a process of {name} and one of {beside} at the same time; left out, because one world is "
        "diagnosed at a time"
    )
    what = f"processes of {name}, ranks {Ranks(world.ranks)}"
    return Gap(what, why, ranks=Ranks(world.complaints), apart=True, of_worlds=True)
