"""Records that one process prints several times, told once, and those it prints in two lines, put together.

A watchdog's timeout returns in ``terminated with exception``, in ``what():`` and in the exception that user code
sees, word for word and to the millisecond. They are one observation, and must not count as several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from nccldoctor.events import (
    CallTimeout,
    CollectiveTimeout,
    DumpSignal,
    Event,
    HeartbeatStuck,
    WorkStatus,
)

_TOLD_ONCE = (CallTimeout, WorkStatus, DumpSignal, HeartbeatStuck)


_LOOKED_AT = 64
"""Records of one call that a further one is compared with: bounds the work where nothing tells them apart."""


_ONE_FAILURE = timedelta(minutes=15)
_ONE_PLACE = 1_000  # lines, where no times tell


def distinct(events: Iterable[Event]) -> list[Event]:
    """The events without repetitions of a record, in their order. What only a repetition tells (the group, the global
    rank) is added to the record that stays.
    """
    out: list[Event] = []
    seen: dict[tuple[Any, ...], list[int]] = {}
    for event in events:
        if not isinstance(event, _TOLD_ONCE):
            out.append(event)
            continue
        known = seen.setdefault(_key(event), [])
        first = next((i for i in known[-_LOOKED_AT:] if _same(out[i], event)), None)
        if first is None:
            known.append(len(out))
            out.append(event)
        else:
            out[first] = _joined(out[first], event)
    return out


def with_groups(events: Iterable[Event]) -> list[Event]:
    """The events, in their order; a timeout that names no group gets that of the next counters that the same rank
    prints about the same call, however many lines of other ranks stand between.
    """
    out = list(events)
    behind: dict[tuple[int, int], WorkStatus] = {}
    for i in range(len(out) - 1, -1, -1):
        event = out[i]
        if event.rank is None:
            continue
        if isinstance(event, WorkStatus) and event.failed is not None and event.group is not None:
            behind[event.rank, event.failed] = event
        elif isinstance(event, CollectiveTimeout) and event.group is None and event.seq is not None:
            status = behind.get((event.rank, event.seq))
            if status is not None and _soon(event, status):
                out[i] = replace(event, group=status.group, group_rank=status.group_rank)
    return out


def _soon(first: Event, later: Event) -> bool:
    a, b = first.time, later.time
    return a is None or b is None or (a.tzinfo is None) != (b.tzinfo is None) or abs(b - a) <= _ONE_FAILURE


def _key(event: Event) -> tuple[Any, ...]:
    if isinstance(event, CallTimeout):
        return ("timeout", event.op, event.seq)  # the exception repeats the watchdog's text
    return (event.kind, event.rank, *event.details().values())


def _agree(a: object, b: object) -> bool:
    return a is None or b is None or a == b


def _same(first: Event, later: Event) -> bool:
    """Whether ``later`` says nothing that contradicts ``first``: copies may be cut, and name less."""
    if not (_agree(first.rank, later.rank) and _agree(first.pid, later.pid)):
        return False
    if (first.rank is None or later.rank is None) and not _agree(first.group_rank, later.group_rank):
        return False
    if first.group is not None and later.group is not None and first.group != later.group:
        return False
    if isinstance(first, CallTimeout):
        mine, its = first.details(), later.details()
        return all(_agree(mine[name], its[name]) for name in mine)
    return _together(first, later)  # the same fields, their key says


def _together(first: Event, later: Event) -> bool:
    """Whether two records belong to one failure: a job that was started again may fail with the same counters."""
    a, b = first.time, later.time
    if a is not None and b is not None and (a.tzinfo is None) == (b.tzinfo is None):
        return abs(a - b) <= _ONE_FAILURE
    return abs((first.place.line or 0) - (later.place.line or 0)) <= _ONE_PLACE


def _joined(first: Event, later: Event) -> Event:
    return replace(
        first,
        rank=first.rank if first.rank is not None else later.rank,
        group_rank=first.group_rank if first.group_rank is not None else later.group_rank,
        group=first.group if first.group is not None else later.group,
        pid=first.pid if first.pid is not None else later.pid,
        host=first.host or later.host,
    )
