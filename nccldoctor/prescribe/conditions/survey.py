"""The case surveyed once, so that some hundred conditions need not each read all events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from nccldoctor.events import CallTimeout, Event, Heartbeat, Phase, Progress, Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import Place, Source, SourceKind
from nccldoctor.model.ranks import Ranks

_E = TypeVar("_E", bound=Event)

Speaker = tuple[int, int]
"""Who writes: a rank (and -1), or -1 and the source where no rank is known."""


def short(host: str) -> str:
    """The first label of a host name, lower case: logs name one machine with and without its domain."""
    return host.lower() if host.replace(".", "").isdigit() else host.split(".", 1)[0].lower()


@dataclass(frozen=True, slots=True)
class Seen:
    """One event with the rank and the (short) host it speaks of; ``early`` unless it came after the first timeout."""

    event: Event
    rank: int | None
    host: str | None
    early: bool


@dataclass(frozen=True, slots=True)
class Sightings:
    """Events by kind, stacks by rank, what each writer said last before the first timeout, and which inputs there are.

    ``last_words`` holds phases, progress and heartbeats; ``last_step`` and ``last_phase`` are the last of their kind by
    anyone.
    """

    case: Case
    by_kind: Mapping[str, tuple[Seen, ...]]
    stacks: Mapping[int, tuple[Stack, ...]]
    logged: Ranks
    last_words: Mapping[Speaker, Event]
    last_step: Progress | None
    last_phase: Phase | None
    texts: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    def of(self, cls: type[_E]) -> tuple[_E, ...]:
        """All events of one class, in input order."""
        return tuple(cast(_E, seen.event) for seen in self.by_kind.get(cls.kind, ()))

    def seen(self, cls: type[Event]) -> tuple[Seen, ...]:
        """The same with what is known of each."""
        return self.by_kind.get(cls.kind, ())

    def has(self, kind: SourceKind) -> bool:
        """Whether the input holds a source of this kind."""
        return any(source.kind is kind for source in self.case.sources)

    def hosts_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts these ranks ran on, sorted, as far as known."""
        return tuple(sorted({self.case.rank_host[r] for r in ranks if r in self.case.rank_host}))

    def one_host(self) -> bool:
        """Whether the job is known to run on a single host."""
        known = self.case.rank_host
        return len({short(h) for h in known.values()}) == 1 and set(self.case.world) <= set(known)

    def text(self, event: Event) -> str:
        """Everything an event says, in lower case, for substring search."""
        held = self.texts.get(id(event))
        if held is None:
            details = (str(value) for value in event.details().values() if value is not None)
            held = self.texts[id(event)] = "\n".join((event.text, *details)).lower()
        return held


@dataclass(frozen=True, slots=True)
class _Owners:
    """Finds the rank and the host of an event: its own, those of its process id, or its file's."""

    case: Case
    sources: Mapping[int, Source]
    pids: Mapping[int, tuple[int, ...]]

    def rank(self, event: Event) -> int | None:
        if event.rank is not None:
            return event.rank
        if event.pid is not None:
            host = short(event.host) if event.host else None
            hosts = self.case.rank_host
            ranks = [r for r in self.pids.get(event.pid, ()) if host is None or short(hosts.get(r, host)) == host]
            if len(ranks) == 1:
                return ranks[0]
        source = self.sources.get(event.place.source)
        return source.rank if source else None

    def host(self, event: Event) -> str | None:
        source = self.sources.get(event.place.source)
        rank = event.rank if event.rank is not None else -1
        name = event.host or self.case.rank_host.get(rank) or (source.host if source else None)
        return short(name) if name else None


@dataclass(frozen=True, slots=True)
class _FirstTimeout:
    """When, or where, the first timeout was printed."""

    second: float
    place: Place | None

    def after(self, event: Event, second: float) -> bool:
        """Whether an event did not come after it. Without clocks the order in a common file decides; where that is
        unknown too, it counts as before: a cause must not be lost for want of a time stamp.
        """
        if not math.isnan(second) and not math.isnan(self.second):
            return second <= self.second
        first, place = self.place, event.place
        if first is not None and first.source == place.source and first.line is not None and place.line is not None:
            return place.line < first.line
        return True


def survey(case: Case) -> Sightings:
    """Read all events of a case once."""
    pids: dict[int, tuple[int, ...]] = {}
    for rank, pid in case.rank_pid.items():
        pids[pid] = (*pids.get(pid, ()), rank)
    owners = _Owners(case, {source.id: source for source in case.sources}, pids)
    first = _first_timeout(case)
    by_kind: dict[str, list[Seen]] = {}
    for event, second in _timed(case):
        seen = Seen(event, owners.rank(event), owners.host(event), first.after(event, second))
        by_kind.setdefault(event.kind, []).append(seen)
    stacks: dict[int, list[Stack]] = {}
    for seen in by_kind.get(Stack.kind, ()):
        if seen.rank is not None:
            stacks.setdefault(seen.rank, []).append(cast(Stack, seen.event))
    logged = {s.rank for s in case.sources if s.rank is not None and s.kind is SourceKind.LOG}
    logged |= {e.rank for e in case.events if e.rank is not None and not isinstance(e, Stack)}
    words = _last_words(by_kind)
    return Sightings(
        case,
        {kind: tuple(found) for kind, found in by_kind.items()},
        {rank: tuple(found) for rank, found in stacks.items()},
        Ranks(logged),
        words,
        cast(Progress | None, _last(by_kind, Progress)),
        cast(Phase | None, _last(by_kind, Phase)),
    )


def _timed(case: Case) -> Iterator[tuple[Event, float]]:
    for index, event in enumerate(case.events):
        yield event, float(case.seconds[index]) if index < len(case.seconds) else math.nan


def _first_timeout(case: Case) -> _FirstTimeout:
    found = [(e, s) for e, s in _timed(case) if isinstance(e, CallTimeout)]
    second = min((s for _, s in found if not math.isnan(s)), default=math.nan)
    return _FirstTimeout(second, found[0][0].place if found else None)


def _last_words(by_kind: Mapping[str, list[Seen]]) -> dict[Speaker, Event]:
    """The last phase, step or heartbeat of each writer before the first timeout, by rank, then by file."""
    words: dict[Speaker, Event] = {}
    for cls in (Phase, Progress, Heartbeat):
        for seen in by_kind.get(cls.kind, ()):
            speaker = (seen.rank, -1) if seen.rank is not None else (-1, seen.event.place.source)
            if seen.early and (speaker not in words or _position(seen.event) >= _position(words[speaker])):
                words[speaker] = seen.event
    return dict(sorted(words.items()))


def _position(event: Event) -> tuple[int, int]:
    return event.place.source, event.place.line or 0


def _last(by_kind: Mapping[str, list[Seen]], cls: type[Event]) -> Event | None:
    return next((seen.event for seen in reversed(by_kind.get(cls.kind, [])) if seen.early), None)
