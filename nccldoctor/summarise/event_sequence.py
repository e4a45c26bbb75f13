"""What happened, in order: the events of the incident with their roles, and the first cause that fits the stall.

An event is *initiating* where it stands before the first complaint, at the culprit or on its host, and is of a kind
that can
make the verdict true. What peers report afterwards is *cascade*, what launchers and watchdogs do to end the job
*tear-down*;
trouble elsewhere or too late is *unrelated*. The story follows the verdict and never changes it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from nccldoctor.align.exits import can_precede_alarm
from nccldoctor.align.facts import Facts
from nccldoctor.events import CommInit, Event, IbError, ProcessExit
from nccldoctor.model import CauseClass, EventRole, Finding, IncidentEvent
from nccldoctor.model.hosts import is_same_host
from nccldoctor.model.ranks import Ranks

MOST = 60
"""Rows of a story; equal events of many ranks are one row."""

_ROLES = (EventRole.INITIATING, EventRole.CASCADE, EventRole.TEAR_DOWN, EventRole.UNRELATED)


def event_sequence(facts: Facts, findings: tuple[Finding, ...]) -> tuple[IncidentEvent, ...]:
    """The events that matter, earliest first, at most :data:`MOST` rows; the first cause is marked."""
    if not findings:
        return ()
    scene = _Scene.of(facts, findings)
    order = _order(facts)
    rows: dict[tuple[EventRole, str, str, str | None], list[int]] = {}
    for at, event in enumerate(facts.case.events):
        role = scene.role(event)
        if role is not None:
            where = event.host if event.host_matters else None
            rows.setdefault((role, event.kind, event.phrase(), where), []).append(at)
    told = [_row(facts, key[0], members, order) for key, members in rows.items()]
    told.sort(key=lambda row: (row.at[0], _ROLES.index(row.event.role), row.at))
    chosen = _marked([row.event for row in told], scene)
    return _bounded(chosen)


@dataclass(frozen=True, slots=True)
class _Row:
    at: tuple[float, int, int]
    event: IncidentEvent


@dataclass(frozen=True, slots=True)
class _Scene:
    """Who the verdict is about, and where: ``ranks`` are the culprits, else who may be one, else who takes part."""

    facts: Facts
    cause: CauseClass
    ranks: Ranks
    hosts: frozenset[str]
    endpoint: str

    @classmethod
    def of(cls, facts: Facts, findings: tuple[Finding, ...]) -> _Scene:
        verdict = findings[0]
        ranks = Ranks(r for f in findings if f.cause is verdict.cause for r in f.ranks) or verdict.suspects
        if not ranks and verdict.stalled is not None:
            ranks = verdict.stalled.entered | verdict.stalled.missing
        hosts = frozenset(h for r in ranks if (h := facts.case.rank_host.get(r)) is not None)
        return cls(facts, verdict.cause, ranks, hosts, shared_endpoint(facts))

    def role(self, event: Event) -> EventRole | None:
        """The role of one event; None for what is no part of any story (progress, settings, stacks)."""
        if event.consequence is not None:
            return event.consequence
        if not event.can_cause:
            return None
        if not can_precede_alarm(self.facts.liveness, event):
            return EventRole.CASCADE if self._here(event) else EventRole.UNRELATED
        if self.cause in event.can_cause and self._here(event):
            return EventRole.INITIATING
        return EventRole.CASCADE if isinstance(event, ProcessExit) else EventRole.UNRELATED

    def _here(self, event: Event) -> bool:
        """Whether it happened at the culprit: its rank, its host, or the endpoint that failed connections share."""
        if event.rank is not None:
            return event.rank in self.ranks or not self.ranks
        if event.is_whole_jobs:
            return True
        if event.host is not None and self.hosts:
            return any(is_same_host(event.host, host) for host in self.hosts)
        return event.has_two_ends or not self.hosts


def shared_endpoint(facts: Facts) -> str:
    """The host, or address, that failed InfiniBand connections have in common; "" where they have none.

    Two hosts that each fail against the same third point at that one, not at themselves.
    """
    address = {e.address: e.host for e in facts.case.of(CommInit) if e.address and e.host}
    pairs = set()
    for event in facts.case.of(IbError):
        if event.what == "completion" and not event.is_flush and event.peer and event.host:
            pairs.add(frozenset((event.host, address.get(event.peer, event.peer))))
    ends = Counter(end for pair in pairs for end in pair)
    best = sorted(ends.items(), key=lambda item: (-item[1], item[0]))[:2]
    alone = best and best[0][1] >= 2 and (len(best) < 2 or best[1][1] < best[0][1])
    return best[0][0] if alone else ""


def _order(facts: Facts) -> list[tuple[float, int, int]]:
    """A place on the job's clock for each event; one without a time follows the last in its file that has one."""
    last: dict[int, float] = {}
    out = []
    for event, second in zip(facts.case.events, np.asarray(facts.case.seconds).tolist(), strict=True):
        source = event.place.source
        if not math.isnan(second):
            last[source] = second
        out.append((last.get(source, math.inf), source, event.place.line or 0))
    return out


def _row(facts: Facts, role: EventRole, members: Iterable[int], order: list[tuple[float, int, int]]) -> _Row:
    events = facts.case.events
    first, *others = sorted(members, key=lambda at: order[at])
    event = events[first]
    alike = [event, *(events[at] for at in others)]
    ranks = Ranks(e.rank for e in alike if e.rank is not None)
    off = next((s.seconds for s in facts.case.skews if s.is_clock_of(event)), 0.0)
    hosts = {e.host or facts.case.rank_host.get(-1 if e.rank is None else e.rank) for e in alike}
    return _Row(
        order[first],
        IncidentEvent(
            role=role,
            kind=event.kind,
            says=event.phrase() + _clock(off),
            where=event.place,
            time=event.time - timedelta(seconds=off) if event.time is not None and off else event.time,
            ranks=ranks,
            host=hosts.pop() if len(hosts) == 1 else None,
            count=len(alike),
        ),
    )


def _clock(off: float) -> str:
    """What a reader must know who looks for the time in the log."""
    return f" (its clock was {abs(off):.1f} s {'ahead' if off > 0 else 'behind'}, set right here)" if off else ""


def _marked(rows: list[IncidentEvent], scene: _Scene) -> list[IncidentEvent]:
    """The first of the initiating events is the first cause; of failed connections the one at the shared end."""
    causes = [row for row in rows if row.role is EventRole.INITIATING]
    if not causes:
        return rows
    at_end = [r for r in causes if scene.endpoint and r.host is not None and is_same_host(r.host, scene.endpoint)]
    first = at_end[0] if at_end and causes[0].kind == "ib-error" else causes[0]
    return [_cause(row) if row is first else row for row in rows]


def _cause(row: IncidentEvent) -> IncidentEvent:
    return IncidentEvent(row.role, row.kind, row.says, row.where, row.time, row.ranks, row.host, row.count, cause=True)


def _bounded(rows: list[IncidentEvent]) -> tuple[IncidentEvent, ...]:
    """At most :data:`MOST` rows: what began it goes in first, what has nothing to do with it last."""
    if len(rows) <= MOST:
        return tuple(rows)
    kept = sorted(range(len(rows)), key=lambda i: (not rows[i].cause, _ROLES.index(rows[i].role), i))[:MOST]
    return tuple(rows[i] for i in sorted(kept))
