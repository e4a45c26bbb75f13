"""Fronts from lines of the watchdog, and which group a line is about."""

from __future__ import annotations

import numpy as np

from nccldoctor.align.progress.group_progress import GroupProgress
from nccldoctor.events import CallTimeout, DumpSignal, Event, WorkStatus
from nccldoctor.identify.case import Case

QUEUED = 64
"""Calls of one group that may wait behind each other when the first of them times out."""


def add_watchdog_lines(case: Case, by: dict[tuple[int, int], GroupProgress]) -> None:
    """What the watchdog printed, where no dump says more: a rank that gave up on call *s* had issued *s* and not finished it."""
    for event in case.events:
        if event.rank is None:
            continue
        if isinstance(event, WorkStatus):
            _line(case, by, event, event.failed, event.last_enqueued, event.last_completed)
        elif isinstance(event, CallTimeout):
            _line(case, by, event, event.seq, None, None)
        elif isinstance(event, DumpSignal):
            _line(case, by, event, None, event.last_enqueued, event.last_completed)


def _line(
    case: Case,
    by: dict[tuple[int, int], GroupProgress],
    event: Event,
    failed: int | None,
    enqueued: int | None,
    completed: int | None,
) -> None:
    group = group_of(case, event)
    if group is None or event.rank is None or _garbage(enqueued) or _garbage(completed):
        return
    if failed is enqueued is completed is None:  # the line is cut before its counters: it says nothing of any call
        return
    front = by.get((group, event.rank))
    if front is not None and front.known_by in ("dump", "status"):
        return
    issued = max(v for v in (failed, enqueued, front.enqueued if front else None, -1) if v is not None)
    finished = completed if completed is not None else (failed - 1 if failed is not None else -1)
    if front is not None:
        finished = max(finished, front.completed)
    pending = failed if failed is not None else (front.pending if front else None)
    if pending is not None and finished >= pending and failed is None:
        pending = None
    if pending is None and issued > finished and isinstance(event, WorkStatus | DumpSignal):
        pending = finished + 1
    by[(group, event.rank)] = GroupProgress(
        group,
        event.rank,
        issued,
        finished,
        pending,
        known_by="log",
        event=(front.event if front and front.event else event),
    )


def _garbage(counter: int | None) -> bool:
    """Counters that no job reaches are uninitialised memory, not progress."""
    return counter is not None and not -1 <= counter < 1 << 53


def group_of(case: Case, event: Event) -> int | None:
    """The group a watchdog line speaks of: the one it names, else the one in which that rank recorded such a call.

    Releases before 2.3 name no group. Without dumps their lines can only mean the default group, unless the rank inside
    the group differs from the global one.
    """
    found = case.naming.find(event.group, event.rank)
    if found is not None:
        return found
    if (
        event.group is not None and (event.group.uid is not None or event.group.pg_id is not None)
    ) or event.rank is None:
        return None
    if isinstance(event, CallTimeout) and event.seq is not None:
        mine = (case.call_rank == event.rank) & (case.calls.seq == event.seq) & (case.call_group >= 0)
        rows = np.flatnonzero(mine)
        if event.numel_in is not None and len(rows) > 1:
            rows = rows[case.calls.numel_in[rows] == event.numel_in]
        groups = np.unique(case.call_group[rows])
        if len(groups) == 1:
            return int(groups[0])
        if len(rows):
            return None
    if event.group_rank is not None and event.group_rank != event.rank:
        return None
    default = case.naming.by_local.get((event.rank, "0"))
    elsewhere = default is not None and (_recorded_otherwise(case, default, event) or _of_several(case, event))
    return None if elsewhere else default


def _of_several(case: Case, event: Event) -> bool:
    """Whether a rank gave up on calls of several groups without naming any, and this one is not what most ranks gave up on.

    Calls of one group that time out together have numbers close to each other.
    """
    if not isinstance(event, CallTimeout) or event.seq is None or event.rank is None or event.group is not None:
        return False
    told = case.groupless(event.rank)
    if not told or max(told) - min(told) <= QUEUED:
        return False
    most = max(told.values())
    alike = [seq for seq, ranks in told.items() if ranks == most]
    return max(alike) - min(alike) > QUEUED or abs(event.seq - min(alike)) > QUEUED


def _recorded_otherwise(case: Case, group: int, event: Event) -> bool:
    """Whether dumps of others hold other calls under that number of the group: then the line is about another group."""
    if not isinstance(event, CallTimeout) or event.seq is None or event.numel_in is None:
        return False
    rows = np.flatnonzero((case.call_group == group) & (case.calls.seq == event.seq))
    alike = (case.calls.numel_in[rows] == event.numel_in) & (case.calls.numel_in[rows] >= 0)
    return len(rows) > 1 and not alike.any()
