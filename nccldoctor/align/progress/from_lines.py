"""Reads the progress of each rank from lines of its watchdog, and tells which group such a line is about."""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from nccldoctor.align.progress.from_dumps import GroupProgress
from nccldoctor.align.progress.unnamed_lines import QUEUED, line_key, stride_of
from nccldoctor.events import CallTimeout, DumpSignal, Event, WorkStatus
from nccldoctor.identify.case import Case
from nccldoctor.identify.group_members import GATHERS
from nccldoctor.identify.groups import DEFAULT
from nccldoctor.model.ranks import Ranks


def add_watchdog_lines(case: Case, progress: dict[tuple[int, int], GroupProgress]) -> None:
    """Adds what the watchdog printed, where no dump says more. Giving up on ALLREDUCE #18, a rank enqueued it, not completed."""
    for event in case.events.of_kind(WorkStatus, CallTimeout, DumpSignal):
        key = line_key(event)
        counts = (None, None) if isinstance(event, CallTimeout) else (event.last_enqueued, event.last_completed)
        _add_line(case, progress, event, key[1] if key is not None else None, *counts)
    fold = case.fold
    group = group_of(case, fold.line) if fold is not None and fold.is_of_all else None
    if fold is not None and group is not None and (twin := progress.get((group, fold.line.rank or 0))) is not None:
        for rank in fold.ranks:
            progress.setdefault((group, rank), replace(twin, rank=rank))


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
    queued_behind = known.pending if known is not None and isinstance(known.event, CallTimeout) else None
    is_timeout = isinstance(event, CallTimeout)
    if is_timeout and failed is not None and queued_behind is not None and 0 < failed - queued_behind <= QUEUED:
        failed = queued_behind  # some watchdogs give up on what queues behind the first call as well
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

    That is the group it names, else that which :mod:`unnamed_lines` found. A rank that is told to dump prints the counters of its
    default group.
    """
    group = case.naming.find(event.group, event.rank)
    if group is not None or event.group is not None:
        return group
    if isinstance(event, DumpSignal) and event.rank is not None and event.group_rank in (None, event.rank):
        return case.naming.by_local.get((event.rank, DEFAULT))
    key = line_key(event)
    return case.naming.by_line.get(key) if key is not None else None


def with_counted_members(case: Case) -> Case:
    """Gives groups that only lines name all members that a gather counts, where those heard show the stride.

    A group that has all ranks of the job is known, too.
    Ranks 4 and 6 are ranks 0 and 1 of dp, whose gather makes 4,000 elements of 1,000: its members are 4, 6, 8 and 10.
    """
    seats: dict[int, set[tuple[int, int]]] = defaultdict(set)
    sizes: dict[int, set[int]] = defaultdict(set)
    for event in case.of(CallTimeout):
        group = group_of(case, event)
        if group is None or case.groups[group].learned != "log" or event.rank is None or event.group_rank is None:
            continue
        seats[group].add((event.rank, event.group_rank))
        small, big = sorted((event.numel_in or 0, event.numel_out or 0))
        if event.op in GATHERS and small and big % small == 0:
            sizes[group].add(big // small)
    groups = list(case.groups)
    for group, taken in seats.items():
        (rank, seat), stride, size = min(taken), stride_of(frozenset(taken)), max(sizes[group], default=0)
        first = rank - seat * stride
        members = Ranks(range(first, first + size * stride, stride) if stride and size <= len(case.world) else ())
        is_counted = len(sizes[group]) == 1 and groups[group].members <= members <= case.world
        if is_counted or case.world_size == len(groups[group].members):
            known = members if is_counted else groups[group].members
            groups[group] = replace(groups[group], members=known, learned="seats")
    return replace(case, naming=replace(case.naming, all=tuple(groups)))
