"""Reads all events of a case once, so that some hundred conditions need not each read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.events import CallTimeout, Event, Heartbeat, Phase, Progress, Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import Place, Source, SourceKind
from nccldoctor.model.hosts import host_key
from nccldoctor.model.ranks import Ranks

_E = TypeVar("_E", bound=Event)

Writer = tuple[int, int]
"""Who writes: a rank (and -1), or -1 and the source where no rank is known."""


class SurveyedEvent(Struct, frozen=True):
    """One event with its rank and its (short) host; ``before_timeout`` unless it came after the first timeout."""

    event: Event
    rank: int | None
    host: str | None
    before_timeout: bool


class Survey(Struct, frozen=True):
    """Events by kind, stacks by rank, who left a log, and the last activity before the first timeout.

    ``last_activity`` holds the last phase, progress or heartbeat of each writer; ``last_step`` and ``last_phase`` are
    the last of their kind by anyone.
    """

    facts: Facts
    by_kind: Mapping[str, tuple[SurveyedEvent, ...]]
    stacks: Mapping[int, tuple[Stack, ...]]
    logged: Ranks
    source_kinds: frozenset[SourceKind]
    last_activity: Mapping[Writer, Event]
    last_step: Progress | None
    last_phase: Phase | None
    texts: dict[int, str] = {}

    @classmethod
    def of(cls, facts: Facts) -> Survey:
        """Read all events of a case once."""
        case = facts.case
        pids: dict[int, tuple[int, ...]] = {}
        for rank, pid in case.rank_pid.items():
            pids[pid] = (*pids.get(pid, ()), rank)
        attribution = _Attribution(case, {source.id: source for source in case.sources}, pids)
        timed = [
            (event, float(case.seconds[index]) if index < len(case.seconds) else math.nan)
            for index, event in enumerate(case.events)
        ]
        first = _first_timeout(timed)
        by_kind: dict[str, list[SurveyedEvent]] = {}
        for event, second in timed:
            surveyed = SurveyedEvent(
                event, attribution.rank(event), attribution.host(event), first.is_before(event, second)
            )
            by_kind.setdefault(event.kind, []).append(surveyed)
        stacks: dict[int, list[Stack]] = {}
        for surveyed in by_kind.get(Stack.kind, ()):
            if surveyed.rank is not None:
                stacks.setdefault(surveyed.rank, []).append(cast(Stack, surveyed.event))
        logged = {s.rank for s in case.sources if s.rank is not None and s.kind is SourceKind.LOG}
        logged |= {e.rank for e in case.events if e.rank is not None and not isinstance(e, Stack)}
        return cls(
            facts,
            {kind: tuple(events) for kind, events in by_kind.items()},
            {rank: tuple(of_rank) for rank, of_rank in stacks.items()},
            Ranks(logged),
            frozenset(source.kind for source in case.sources),
            _last_activity(by_kind),
            _last_step(by_kind),
            cast(Phase | None, _last(by_kind, Phase)),
        )

    @property
    def case(self) -> Case:
        """What the input says."""
        return self.facts.case

    def events_of(self, cls: type[_E]) -> tuple[_E, ...]:
        """All events of one class, in input order."""
        return tuple(cast(_E, surveyed.event) for surveyed in self.by_kind.get(cls.kind, ()))

    def surveyed(self, cls: type[Event]) -> tuple[SurveyedEvent, ...]:
        """All events of one class with the rank and host of each."""
        return self.by_kind.get(cls.kind, ())

    def has_stacks_of(self, ranks: Ranks) -> bool:
        """True where a stack of each of these ranks was read, and there are any."""
        return bool(ranks) and all(self.stacks.get(rank) for rank in ranks)

    def has_source(self, kind: SourceKind) -> bool:
        """True where the input holds a source of this kind."""
        return kind in self.source_kinds

    def hosts_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The known hosts of these ranks, sorted. Of a pod that is its node, where known."""
        hosts = (self.case.rank_host[r] for r in ranks if r in self.case.rank_host)
        return tuple(sorted({self.case.pods.place(host) for host in hosts}))

    def machines_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of these ranks that are no pods: what a scheduler can take out of service."""
        return tuple(host for host in self.hosts_of(ranks) if not self.case.pods.is_pod(host))

    def is_single_host(self) -> bool:
        """True where every rank is known to run on one and the same host."""
        known = self.case.rank_host
        return len({host_key(self.case.pods.place(h)) for h in known.values()}) == 1 and set(self.case.world) <= set(
            known
        )

    def searchable_text(self, event: Event) -> str:
        """The line and all fields of an event in lower case, for substring search."""
        text = self.texts.get(id(event))
        if text is None:
            details = (str(value) for value in event.details().values() if value is not None)
            text = self.texts[id(event)] = "\n".join((event.text, *details)).lower()
        return text


class _Attribution(Struct, frozen=True):
    """Finds the rank and the host of an event: its own, those of its process id, or its file's."""

    case: Case
    sources: Mapping[int, Source]
    pids: Mapping[int, tuple[int, ...]]

    def rank(self, event: Event) -> int | None:
        if event.rank is not None:
            return event.rank
        if event.pid is not None:
            host = host_key(event.host) if event.host else None
            hosts = self.case.rank_host
            ranks = [r for r in self.pids.get(event.pid, ()) if host is None or host_key(hosts.get(r, host)) == host]
            if len(ranks) == 1:
                return ranks[0]
        source = self.sources.get(event.place.source)
        return source.rank if source else None

    def host(self, event: Event) -> str | None:
        source = self.sources.get(event.place.source)
        rank = event.rank if event.rank is not None else -1
        name = event.host or self.case.rank_host.get(rank) or (source.host if source else None)
        return host_key(self.case.pods.place(name)) if name else None


class _FirstTimeout(Struct, frozen=True):
    """The time (seconds, nan where unknown) and the place of the first timeout line."""

    second: float
    place: Place | None

    def is_before(self, event: Event, second: float) -> bool:
        """True unless the event is known to come after the timeout.

        Without clocks the order in a common file decides. Where that is unknown too, the event counts as earlier: a
        cause must not be lost for want of a time stamp.
        """
        if not math.isnan(second) and not math.isnan(self.second):
            return second <= self.second
        first, place = self.place, event.place
        if first is not None and first.source == place.source and first.line is not None and place.line is not None:
            return place.line < first.line
        return True


def _first_timeout(timed: Iterable[tuple[Event, float]]) -> _FirstTimeout:
    timeouts = [(event, second) for event, second in timed if isinstance(event, CallTimeout)]
    second = min((s for _, s in timeouts if not math.isnan(s)), default=math.nan)
    return _FirstTimeout(second, timeouts[0][0].place if timeouts else None)


def _last_activity(by_kind: Mapping[str, list[SurveyedEvent]]) -> dict[Writer, Event]:
    """The last phase, step or heartbeat of each writer before the first timeout, by rank, then by file."""
    last: dict[Writer, Event] = {}
    for cls in (Phase, Progress, Heartbeat):
        for surveyed in by_kind.get(cls.kind, ()):
            event = surveyed.event
            writer = (surveyed.rank, -1) if surveyed.rank is not None else (-1, event.place.source)
            if surveyed.before_timeout and (writer not in last or _position(event) >= _position(last[writer])):
                last[writer] = event
    return dict(sorted(last.items()))


def _position(event: Event) -> tuple[int, int]:
    return event.place.source, event.place.line or 0


def _last_step(by_kind: Mapping[str, list[SurveyedEvent]]) -> Progress | None:
    """The last step before the first timeout; a bar of files or shards counts none."""
    seen = (s.event for s in reversed(by_kind.get(Progress.kind, [])) if s.before_timeout)
    return next((event for event in seen if isinstance(event, Progress) and event.is_step), None)


def _last(by_kind: Mapping[str, list[SurveyedEvent]], cls: type[Event]) -> Event | None:
    return next((s.event for s in reversed(by_kind.get(cls.kind, [])) if s.before_timeout), None)
