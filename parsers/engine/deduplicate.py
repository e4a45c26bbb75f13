"""Records that one process prints several times, told once, and those it prints in two lines, put together.

A watchdog's timeout returns in ``terminated with exception``, in ``what():`` and in the exception that user code
sees, word for word and to the millisecond. They are one observation, and must not count as several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from nccldoctor.events import CallTimeout, CollectiveTimeout, DumpSignal, Event, GroupRef, HeartbeatStuck, WorkStatus

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

    Two watchdogs of one rank may give up on one number at once: the first counters belong to the first timeout.
    """
    out = _apart(events)
    waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, event in enumerate(out):
        if event.rank is None:
            continue
        if isinstance(event, CollectiveTimeout) and event.seq is not None:
            waiting[event.rank, event.seq].append(i)
        elif isinstance(event, WorkStatus) and event.failed is not None and event.group is not None:
            queue = waiting[event.rank, event.failed]
            mine = next((j for j in queue if _of(event, out[j])), None)
            if mine is not None:
                queue.remove(mine)
                if out[mine].group is None:
                    out[mine] = replace(out[mine], group=event.group, group_rank=event.group_rank)
    return out


def _apart(events: Iterable[Event]) -> list[Event]:
    """The events; a timeout loses its group where an earlier one of that rank gave the same number of it to another call."""
    out = list(events)
    first: dict[tuple[int, int, GroupRef], tuple[str | None, int | None]] = {}
    for i, event in enumerate(out):
        if not isinstance(event, CollectiveTimeout):
            continue
        if event.rank is not None and event.seq is not None and event.group is not None:
            key = (event.rank, event.seq, event.group)
            op, numel = first.setdefault(key, (event.op, event.numel_in))
            if not (_agree(op, event.op) and _agree(numel, event.numel_in)):
                out[i] = replace(event, group=None)
    return out


def _of(status: WorkStatus, timeout: Event) -> bool:
    return _agree(timeout.group, status.group) and _soon(timeout, status)


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
