"""Holds what some hundred conditions ask of a job, so that none has to work it out again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.events import CallTimeout, Event, Heartbeat, Phase, Progress, Setting, Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import Place, SourceKind
from nccldoctor.model.hosts import host_key
from nccldoctor.model.ranks import Ranks

_E = TypeVar("_E", bound=Event)

Writer = tuple[int, int]
"""Who writes: a rank (and -1), or -1 and the source where no rank is known."""


class Survey(Struct, frozen=True, dict=True):
    """What remedies ask of a whole job, whatever the finding: once for all of them."""

    facts: Facts
    first_timeout: _FirstTimeout
    logged: Ranks
    source_kinds: frozenset[SourceKind]
    texts: dict[int, str] = {}

    @classmethod
    def of(cls, facts: Facts) -> Survey:
        """The survey of a job."""
        case = facts.case
        logged = {s.rank for s in case.sources if s.rank is not None and s.kind is SourceKind.LOG}
        logged |= {e.rank for e in case.events if e.rank is not None and not isinstance(e, Stack)}
        kinds = frozenset(source.kind for source in case.sources)
        return cls(facts, _first_timeout(facts), Ranks(logged), kinds)

    @property
    def case(self) -> Case:
        """What the input says."""
        return self.facts.case

    def events_of(self, cls: type[_E]) -> tuple[_E, ...]:
        """All events of one class, in input order."""
        return self.case.events.of_kind(cls)

    @cached_property
    def stacks(self) -> Mapping[int, tuple[Stack, ...]]:
        """The stacks of each rank that left one, those of the newest look first."""
        return {rank: own.stacks for rank, own in self.facts.liveness.by_rank.items() if own.stacks}

    def owner_of(self, setting: Setting) -> int | None:
        """The rank that shows a setting, by its file or its process. Identify leaves it open: a script shows what all ranks have."""
        case, host = self.case, host_key(setting.host) if setting.host else None
        file = next((source.rank for source in case.sources if source.id == setting.place.source), None)
        of_pid = [rank for rank, pid in case.rank_pid.items() if pid == setting.pid]
        hosts = {rank: host_key(case.rank_host[rank]) for rank in of_pid if rank in case.rank_host}
        own = [rank for rank in of_pid if host is None or hosts.get(rank, host) == host]
        return setting.rank if setting.rank is not None else own[0] if len(own) == 1 else file

    def host_of(self, event: Event) -> str | None:
        """The host of an event by its short name; of a pod that is its node, where known."""
        return host_key(self.case.pods.place(event.host)) if event.host else None

    def is_before_timeout(self, event: Event) -> bool:
        """True unless the event is known to come after the first timeout."""
        return self.first_timeout.is_before(event, self.facts.liveness.time(event))

    @cached_property
    def last_activity(self) -> Mapping[Writer, Event]:
        """The last phase, step or heartbeat of each writer before the first timeout, by rank, then by file."""
        last: dict[Writer, Event] = {}
        events: list[Event] = [*self.events_of(Phase), *self.events_of(Progress), *self.events_of(Heartbeat)]
        for event in events:
            writer = (event.rank, -1) if event.rank is not None else (-1, event.place.source)
            if self.is_before_timeout(event) and (writer not in last or _position(event) >= _position(last[writer])):
                last[writer] = event
        return dict(sorted(last.items()))

    @property
    def last_step(self) -> Progress | None:
        """The last step before the first timeout; a bar of files or shards counts none."""
        steps = (e for e in reversed(self.events_of(Progress)) if e.is_step and self.is_before_timeout(e))
        return next(steps, None)

    @property
    def last_phase(self) -> Phase | None:
        """The last phase before the first timeout, by any rank."""
        return next(filter(self.is_before_timeout, reversed(self.events_of(Phase))), None)

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


def _first_timeout(facts: Facts) -> _FirstTimeout:
    timeouts = facts.case.events.of_kind(CallTimeout)
    seconds = (second for event in timeouts if not math.isnan(second := facts.liveness.time(event)))
    return _FirstTimeout(min(seconds, default=math.nan), timeouts[0].place if timeouts else None)


def _position(event: Event) -> tuple[int, int]:
    return event.place.source, event.place.line or 0
