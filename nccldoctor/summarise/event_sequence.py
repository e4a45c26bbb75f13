"""Orders the events of the incident, gives each its role, and marks the first cause that fits the verdict.

An event is *initiating* where it stands before the first complaint, at the culprit or on its host, and is of a kind that can
make the verdict true. What peers report afterwards is *cascade*, what launchers and watchdogs do to end the job is *tear-down*;
trouble elsewhere or too late is *unrelated*. An Xid on the host of rank 3 at 10:00 is initiating where rank 3 is the culprit
and the first watchdog fires at 10:10; its peers' timeouts are cascade. The sequence follows the verdict and never changes it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.exits import can_precede_alarm, was_forced
from nccldoctor.align.facts import Facts
from nccldoctor.events import CommInit, Event, IbError, ProcessExit
from nccldoctor.identify.event_times import with_year
from nccldoctor.model import CauseClass, EventRole, Finding, IncidentEvent
from nccldoctor.model.hosts import is_same_host
from nccldoctor.model.ranks import Ranks

MOST = 60
"""Rows of a sequence; equal events of many ranks are one row."""

_ROLES = list(EventRole)
"""Of events at the same moment the cause comes first, and what has nothing to do with it last."""


def event_sequence(facts: Facts, findings: tuple[Finding, ...]) -> tuple[IncidentEvent, ...]:
    """The events that matter, earliest first, at most :data:`MOST` rows; the first cause is marked."""
    if not findings:
        return ()
    verdict = findings[0]
    ranks = (
        Ranks(r for f in findings if f.cause is verdict.cause for r in f.ranks) or verdict.suspects or verdict.members
    )
    names = {facts.case.rank_host[r] for r in ranks if r in facts.case.rank_host}
    hosts = frozenset(names | {facts.case.pods.place(name) for name in names})
    culprit = _Culprit(facts, verdict.cause, ranks, hosts)
    cited = {item.where for item in findings[0].evidence if item.supports}
    places = _places(facts)
    groups: dict[tuple[EventRole, str, str, str | None], list[int]] = {}
    for at, event in enumerate(facts.case.events):
        role = culprit.role(event)
        if role is EventRole.UNRELATED and event.place in cited:
            role = EventRole.CASCADE
        if role is not None:
            host = event.host if event.host_matters else None
            groups.setdefault((role, event.kind, event.phrase(), host), []).append(at)
    alike = [(role, sorted(group, key=places.__getitem__)) for (role, *_), group in groups.items()]
    alike.sort(key=lambda row: (places[row[1][0]][0], _ROLES.index(row[0]), places[row[1][0]]))
    rows = [_incident_event(facts, role, [facts.case.events[at] for at in group]) for role, group in alike]
    told = _with_cause(rows, shared_endpoint(facts))
    kept = sorted(range(len(told)), key=lambda at: (not told[at].cause, _ROLES.index(told[at].role), at))[:MOST]
    return tuple(told[at] for at in sorted(kept))


class _Culprit(Struct, frozen=True):
    """The verdict's class and place: ``ranks`` are its culprits, else its suspects, else all members of the call."""

    facts: Facts
    cause: CauseClass
    ranks: Ranks
    hosts: frozenset[str]

    def role(self, event: Event) -> EventRole | None:
        """The role of one event; None for what belongs to no sequence (progress, settings, stacks)."""
        if event.consequence is not None or not event.can_cause:
            return event.consequence
        if isinstance(event, ProcessExit) and was_forced(self.facts.case, event):
            return EventRole.TEAR_DOWN
        if not can_precede_alarm(self.facts.liveness, event):
            return EventRole.CASCADE if self._has_event(event) else EventRole.UNRELATED
        if self.cause in event.can_cause and self._has_event(event):
            return EventRole.INITIATING
        return EventRole.CASCADE if isinstance(event, ProcessExit) else EventRole.UNRELATED

    def _has_event(self, event: Event) -> bool:
        """True where the event happened at its rank or on its host; an end of the whole job happens everywhere."""
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


def _places(facts: Facts) -> list[tuple[float, int, int]]:
    """The time, file and line of each event; one without a time has that of the last one before it."""
    last: dict[int, float] = {}
    out = []
    for event, second in zip(facts.case.events, np.asarray(facts.case.seconds).tolist(), strict=True):
        source = event.place.source
        if not math.isnan(second):
            last[source] = second
        out.append((last.get(source, math.inf), source, event.place.line or 0))
    return out


def _incident_event(facts: Facts, role: EventRole, alike: Sequence[Event]) -> IncidentEvent:
    """One row for events that say the same, the first of them first."""
    event, hosts_of = alike[0], facts.case.rank_host
    off = sum(s.seconds for s in facts.case.skews if s.is_clock_of(event))
    clock = f" (its clock was {abs(off):.1f} s {'ahead' if off > 0 else 'behind'}, set right here)" if off else ""
    hosts = {e.host or hosts_of.get(-1 if e.rank is None else e.rank) for e in alike}
    time = with_year(event.time, facts.liveness.time(event) + off) if event.time is not None else None
    return IncidentEvent(
        role=role,
        kind=event.kind,
        says=event.phrase() + clock,
        where=event.place,
        time=time - timedelta(seconds=off) if time is not None and off else time,
        ranks=Ranks(e.rank for e in alike if e.rank is not None),
        host=hosts.pop() if len(hosts) == 1 else None,
        count=len(alike),
    )


def _with_cause(rows: list[IncidentEvent], endpoint: str) -> list[IncidentEvent]:
    """The rows with the first initiating one marked as the cause; of failed connections the one at the shared end."""
    causes = [row for row in rows if row.role is EventRole.INITIATING]
    if not causes:
        return rows
    at_end = [row for row in causes if endpoint and row.host is not None and is_same_host(row.host, endpoint)]
    first = at_end[0] if at_end and causes[0].kind == "ib-error" else causes[0]
    return [replace(row, cause=row is first) for row in rows]
