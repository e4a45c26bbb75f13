"""Counts a record that one process prints several times once, and joins records that it prints on two lines.

A watchdog's timeout returns in ``terminated with exception``, in ``what():`` and in the exception that user code
sees, word for word and to the millisecond. They are one observation, and must not count as several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from nccldoctor.events import CallTimeout, CollectiveTimeout, DumpSignal, Event, GroupRef, HeartbeatStuck, WorkStatus

_COUNTED_ONCE = (CallTimeout, WorkStatus, DumpSignal, HeartbeatStuck)

_OF_WRITER = ("rank", "group_rank", "group", "pid", "host", "pod")
_LOOKED_AT = 64
"""Records of one call that a further one is compared with: bounds the work where nothing tells them apart."""

_ONE_FAILURE = timedelta(minutes=15)


def without_repetitions(events: Iterable[Event]) -> list[Event]:
    """The events without repetitions of a record, in their order.

    The group and the global rank that only a repetition names are added to the record that stays.
    """
    out: list[Event] = []
    seen: dict[tuple[Any, ...], list[int]] = {}
    for event in events:
        if not isinstance(event, _COUNTED_ONCE):
            out.append(event)
            continue
        known = seen.setdefault(_record_key(event), [])
        first = next((i for i in known[-_LOOKED_AT:] if _is_repetition(out[i], event)), None)
        if first is None:
            known.append(len(out))
            out.append(event)
        else:
            unknown = (name for name in _OF_WRITER if getattr(out[first], name) is None)
            out[first] = replace(out[first], **{name: getattr(event, name) for name in unknown})
    return out


def with_groups(events: Iterable[Event]) -> list[Event]:
    """The events, in their order; a timeout without a group takes the group of the counters that follow it.

    These are the next counters of the same rank about the same call, however many lines of other ranks stand between.
    Example: rank 3 gives up on #18 and prints no group; its next line says ``[PG 1 (dp) Rank 3] … at work: 18``: the
    timeout is of group 1. Two watchdogs of one rank may give up on one number at once: the first counters belong to the
    first timeout.
    """
    out = _without_wrong_groups(events)
    waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, event in enumerate(out):
        if event.rank is None:
            continue
        if isinstance(event, CollectiveTimeout) and event.seq is not None:
            waiting[event.rank, event.seq].append(i)
        elif isinstance(event, WorkStatus) and event.failed is not None and event.group is not None:
            queue = waiting[event.rank, event.failed]
            near = (j for j in queue if _is_compatible(out[j].group, event.group) and _is_soon_after(out[j], event))
            first = next(near, None)
            if first is not None:
                queue.remove(first)
                if out[first].group is None:
                    out[first] = replace(out[first], group=event.group, group_rank=event.group_rank)
    return out


def _without_wrong_groups(events: Iterable[Event]) -> list[Event]:
    """The events; a timeout loses its group where its rank gave that number to another call before."""
    out = list(events)
    first: dict[tuple[int, int, GroupRef], tuple[str | None, int | None]] = {}
    for i, event in enumerate(out):
        if not isinstance(event, CollectiveTimeout):
            continue
        if event.rank is not None and event.seq is not None and event.group is not None:
            key = (event.rank, event.seq, event.group)
            op, numel = first.setdefault(key, (event.op, event.numel_in))
            if not (_is_compatible(op, event.op) and _is_compatible(numel, event.numel_in)):
                out[i] = replace(event, group=None)
    return out


def _is_soon_after(first: Event, later: Event) -> bool:
    a, b = first.time, later.time
    return a is None or b is None or (a.tzinfo is None) != (b.tzinfo is None) or abs(b - a) <= _ONE_FAILURE


def _record_key(event: Event) -> tuple[Any, ...]:
    if isinstance(event, CallTimeout):
        return ("timeout", event.op, event.seq)  # the exception repeats the watchdog's text
    return (event.kind, event.rank, *event.details().values())


def _is_compatible(a: object, b: object) -> bool:
    return a is None or b is None or a == b


def _is_repetition(first: Event, later: Event) -> bool:
    """True when ``later`` contradicts nothing in ``first``: copies may be cut, and name less."""
    if not (_is_compatible(first.rank, later.rank) and _is_compatible(first.pid, later.pid)):
        return False
    if (first.rank is None or later.rank is None) and not _is_compatible(first.group_rank, later.group_rank):
        return False
    if first.group is not None and later.group is not None and first.group != later.group:
        return False
    if isinstance(first, CallTimeout):
        details, others = first.details(), later.details()
        return all(_is_compatible(details[name], others[name]) for name in details)
    # a job that was started again may fail with the same counters
    a, b = first.time, later.time
    if a is not None and b is not None and (a.tzinfo is None) == (b.tzinfo is None):
        return abs(a - b) <= _ONE_FAILURE
    return abs((first.place.line or 0) - (later.place.line or 0)) <= 1_000
