"""Reads the progress of each rank from lines of its watchdog, and tells which group such a line is about."""

from __future__ import annotations

import numpy as np

from nccldoctor.align.progress.group_progress import GroupProgress
from nccldoctor.events import CallTimeout, DumpSignal, Event, WorkStatus
from nccldoctor.identify.case import Case

QUEUED = 64
"""Calls of one group that may wait behind each other when the first of them times out."""


def add_watchdog_lines(case: Case, progress: dict[tuple[int, int], GroupProgress]) -> None:
    """Adds what the watchdog printed, where no dump says more.

    A rank that gave up on ALLREDUCE #18 had enqueued #18 and not completed it.
    """
    for event in case.events:
        if isinstance(event, WorkStatus):
            _add_line(case, progress, event, event.failed, event.last_enqueued, event.last_completed)
        elif isinstance(event, CallTimeout):
            _add_line(case, progress, event, event.seq, None, None)
        elif isinstance(event, DumpSignal):
            _add_line(case, progress, event, None, event.last_enqueued, event.last_completed)


def _add_line(
    case: Case,
    progress: dict[tuple[int, int], GroupProgress],
    event: Event,
    failed: int | None,
    enqueued: int | None,
    completed: int | None,
) -> None:
    if event.rank is None:
        return
    group = group_of(case, event)
    if group is None or _is_garbage(enqueued) or _is_garbage(completed):
        return
    if failed is enqueued is completed is None:  # the line is cut before its counters: it says nothing of any call
        return
    known = progress.get((group, event.rank))
    if known is not None and known.known_by in ("dump", "status"):
        return
    issued = max(v for v in (failed, enqueued, known.enqueued if known else None, -1) if v is not None)
    finished = completed if completed is not None else (failed - 1 if failed is not None else -1)
    if known is not None:
        finished = max(finished, known.completed)
    pending = failed if failed is not None else (known.pending if known else None)
    if pending is not None and finished >= pending and failed is None:
        pending = None
    if pending is None and issued > finished and isinstance(event, WorkStatus | DumpSignal):
        pending = finished + 1
    first = known.event if known and known.event else event
    progress[group, event.rank] = GroupProgress(
        group, event.rank, issued, finished, pending, known_by="log", event=first
    )


def _is_garbage(counter: int | None) -> bool:
    """True for counters that no job reaches: they are uninitialised memory, not progress."""
    return counter is not None and not -1 <= counter < 1 << 53


def group_of(case: Case, event: Event) -> int | None:
    """The index of the group that a watchdog line is about; None where it is unknown.

    That is the group it names, else the one in which its rank recorded such a call. Releases before 2.3 name no group: without
    dumps their lines can only mean the default group, unless the rank inside the group differs from the global one.
    """
    group, ref = case.naming.find(event.group, event.rank), event.group
    if group is not None:
        return group
    if event.rank is None or (ref is not None and (ref.uid is not None or ref.pg_id is not None)):
        return None
    if isinstance(event, CallTimeout) and event.seq is not None:
        rows = np.flatnonzero((case.call_rank == event.rank) & (case.calls.seq == event.seq) & (case.call_group >= 0))
        if event.numel_in is not None and len(rows) > 1:
            rows = rows[case.calls.numel_in[rows] == event.numel_in]
        groups = np.unique(case.call_group[rows])
        if len(rows):
            return int(groups[0]) if len(groups) == 1 else None
    if event.group_rank is not None and event.group_rank != event.rank:
        return None
    default = case.naming.by_local.get((event.rank, "0"))
    if default is None or _was_recorded_otherwise(case, default, event) or _is_of_rarer_group(case, event):
        return None
    return default


def _is_of_rarer_group(case: Case, event: Event) -> bool:
    """True when the rank gave up on several unnamed groups, and most ranks gave up on another one.

    Calls of one group that time out together have numbers close to each other. Rank 3 gave up on #18 and on #5012: at least one
    of them is not of the default group.
    """
    if not isinstance(event, CallTimeout) or event.seq is None or event.rank is None or event.group is not None:
        return False
    ranks_by_seq = case.groupless(event.rank)
    if not ranks_by_seq or max(ranks_by_seq) - min(ranks_by_seq) <= QUEUED:
        return False
    most = max(ranks_by_seq.values())
    commonest = [seq for seq, ranks in ranks_by_seq.items() if ranks == most]
    return max(commonest) - min(commonest) > QUEUED or abs(event.seq - min(commonest)) > QUEUED


def _was_recorded_otherwise(case: Case, group: int, event: Event) -> bool:
    """True when dumps hold calls of other sizes under that number of the group: the line is about another group."""
    if not isinstance(event, CallTimeout) or event.seq is None or event.numel_in is None:
        return False
    rows = np.flatnonzero((case.call_group == group) & (case.calls.seq == event.seq))
    alike = (case.calls.numel_in[rows] == event.numel_in) & (case.calls.numel_in[rows] >= 0)
    return len(rows) > 1 and not alike.any()
