"""Two fronts for each rank in each group: how far its host enqueued, and how far its device completed.

Recorder entries, ``pg_status`` and the watchdog's lines all feed the same numbers. Sequence numbers are compared inside one
group only; nothing here compares times between ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nccldoctor.case import Case
from nccldoctor.columns import COMPLETED, STARTED, Calls, GroupStatus
from nccldoctor.events import CallTimeout, DumpSignal, Event, WorkStatus
from nccldoctor.gloo import failed, last_rows, left_alone
from nccldoctor.transfers import Mask, Transfer, counted, kinds, transfers

UNORDERED = 1 << 60
"""Position of a call that is known from a line only: after everything that was recorded."""


@dataclass(frozen=True, slots=True)
class Front:
    """How far one rank came in one group; sequence numbers, -1 where nothing was issued, finished or started.

    ``pending`` is the first call that did not complete (None: all did), ``row`` its row in the table of calls (-1: known from
    a line or a counter only), ``position`` its place in the rank's own order over all groups, ``started`` whether its kernel is
    known to run. ``oldest`` is the first number still in the ring: what was before it is not known.
    ``known_by`` is ``dump``, ``status`` (counters of a dump), ``log``, or who counted launches; ``event`` the line it was learned from.
    """

    group: int
    rank: int
    enqueued: int
    completed: int
    pending: int | None = None
    row: int = -1
    position: int = UNORDERED
    started: bool = False
    oldest: int = 0
    known_by: str = "dump"
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Fronts:
    """All fronts of a case. ``timed`` are ranks whose recorder noted when kernels started; ``recorded`` those with entries or counters."""

    by: Mapping[tuple[int, int], Front]
    transfers: Mapping[int, tuple[Transfer, ...]]
    done: Mask
    collective: Mask
    member: Mask
    timed: frozenset[int]
    recorded: frozenset[int]
    last_row: Mapping[int, int]

    def of_rank(self, rank: int) -> list[Front]:
        """The fronts of one rank, by group."""
        return self._by_rank().get(rank, [])

    def _by_rank(self) -> dict[int, list[Front]]:
        out: dict[int, list[Front]] = defaultdict(list)
        for front in self.by.values():
            out[front.rank].append(front)
        return out


def fronts(case: Case) -> Fronts:
    """Read both fronts of every rank in every group."""
    calls = case.calls
    gloo = np.array([d.backend == "gloo" for d in case.dumps], dtype=bool)
    done = (calls.state == COMPLETED) | (calls.retired & gloo[calls.dump]) if len(calls) else np.empty(0, dtype=bool)
    done[failed(case) | left_alone(case, done)] = False
    p2p, member = kinds(case, calls)
    done |= counted(case, calls, p2p)
    valid = (case.call_rank >= 0) & (case.call_group >= 0)
    collective = valid & ~member & ~p2p
    by = _recorded(case, calls, collective, done)
    timed = _timed(case, calls) | _counted(case)
    _add_status(case, by, calls, p2p)
    open_transfers = transfers(case, calls, valid & p2p & ~member & ~done, member)
    _add_lines(case, by)
    _add_launches(case, by)
    recorded = frozenset(
        r
        for r, d in zip(case.dump_rank, case.dumps, strict=True)
        if r is not None and (d.entries or any(s.enqueued > 0 for s in d.status))
    )
    return Fronts(by, open_transfers, done, collective, member, timed, recorded, last_rows(case))


def _recorded(case: Case, calls: Calls, collective: Mask, done: Mask) -> dict[tuple[int, int], Front]:
    """Fronts from recorder entries: one pass over the rows, put together by group and rank."""
    rows = np.flatnonzero(collective)
    if not len(rows):
        return {}
    ranks = int(case.call_rank.max()) + 1
    pair = case.call_group[rows].astype(np.int64) * ranks + case.call_rank[rows]
    order = np.argsort(pair, kind="stable")
    rows, pair = rows[order], pair[order]
    starts = np.concatenate([[0], np.flatnonzero(pair[1:] != pair[:-1]) + 1])
    seq, finished = calls.seq[rows], done[rows]
    enqueued = np.maximum.reduceat(seq, starts)
    completed = np.maximum.reduceat(np.where(finished, seq, -1), starts)
    oldest = np.minimum.reduceat(seq, starts)
    first = _first_open(calls, rows[~finished], pair[~finished])
    out: dict[tuple[int, int], Front] = {}
    for i, at in enumerate(starts.tolist()):
        key = divmod(int(pair[at]), ranks)
        row = first.get(int(pair[at]))
        if row is not None:
            pending: dict[str, Any] = {
                "pending": int(calls.seq[row]),
                "row": row,
                "position": int(calls.entry[row]),
                "started": int(calls.state[row]) == STARTED,
            }
            before = min(int(completed[i]), pending["pending"] - 1) if completed[i] >= 0 else pending["pending"] - 1
        else:
            pending, before = {}, int(completed[i])
        out[key] = Front(*key, enqueued=int(enqueued[i]), completed=max(before, -1), oldest=int(oldest[i]), **pending)
    return out


def _first_open(calls: Calls, rows: npt.NDArray[np.int64], pair: npt.NDArray[np.int64]) -> dict[int, int]:
    """Of these rows, which did not complete, the one with the lowest number for each group and rank."""
    order = np.lexsort((calls.entry[rows], calls.seq[rows], pair))
    pairs, starts = np.unique(pair[order], return_index=True)
    return dict(zip(pairs.tolist(), rows[order][starts].tolist(), strict=True))


def _timed(case: Case, calls: Calls) -> frozenset[int]:
    """Ranks whose recorder noted kernel starts (``TORCH_NCCL_ENABLE_TIMING``): there *scheduled* means *not started*."""
    if not len(calls):
        return frozenset()
    known = (calls.state == STARTED) | (calls.started_ns > 0)
    return frozenset(int(r) for r in np.unique(case.call_rank[known]).tolist() if r >= 0)


def _counted(case: Case) -> frozenset[int]:
    """Ranks whose counters hold a started call: without timing nobody counts them (pytorch, ``WorkNCCL::isStarted``)."""
    dumps = zip(case.dumps, case.dump_rank, strict=True)
    return frozenset(
        r for d, r in dumps if r is not None and d.backend != "gloo" and any(s.started > 0 for s in d.status)
    )


def _add_status(case: Case, by: dict[tuple[int, int], Front], calls: Calls, p2p: Mask) -> None:
    """Counters of ``pg_status`` for groups whose calls have left the ring, or were never written (only active ones were).

    Not for groups with sends: newer releases mix both counters there. Not for gloo, whose counters count sends too.
    """
    mixed = {int(g) for g in np.unique(case.call_group[p2p]).tolist()} if len(calls) else set()
    for dump, rank in zip(case.dumps, case.dump_rank, strict=True):
        if rank is None or dump.backend == "gloo":
            continue
        for status in dump.status:
            group = case.naming.by_pg_id.get((rank, status.pg_id))
            if group is None or group in mixed or status.enqueued < 0:
                continue
            front = by.get((group, rank))
            if front is None:
                pending = status.completed + 1 if status.enqueued > status.completed else None
                by[(group, rank)] = Front(
                    group,
                    rank,
                    status.enqueued,
                    status.completed,
                    pending,
                    oldest=status.enqueued + 1,
                    known_by="status",
                )
            else:
                by[(group, rank)] = _evicted(replace(front, enqueued=max(front.enqueued, status.enqueued)), status)


def _evicted(front: Front, status: GroupStatus) -> Front:
    """The front where the ring no longer holds the first unfinished call: the counters, which begin with 1, say which it is."""
    first = max(status.completed, 0) + 1
    if first > status.enqueued or first >= front.oldest or (status.completed < 0 and front.pending != front.oldest):
        return front
    return replace(
        front,
        completed=status.completed,
        pending=first,
        row=-1,
        position=-1,
        started=status.started >= first,
        known_by="status",
    )


def _add_lines(case: Case, by: dict[tuple[int, int], Front]) -> None:
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
    by: dict[tuple[int, int], Front],
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
    by[(group, event.rank)] = Front(
        group,
        event.rank,
        issued,
        finished,
        pending,
        known_by="log",
        event=(front.event if front and front.event else event),
    )


def _add_launches(case: Case, by: dict[tuple[int, int], Front]) -> None:
    """What NCCL's own observers counted, where nothing else numbers the calls. What not everybody issued cannot end; where all
    issued as much, only a second query shows that it does not.
    """
    for one in case.launches:
        if one.group < 0 or one.moving:
            continue
        least = min(one.last.values())
        behind = bool(one.behind)
        stands = behind or one.steady or bool(one.silent)
        for rank, number in one.last.items():
            ahead = number > least or (stands and not behind)
            by[one.group, rank] = Front(
                one.group,
                rank,
                number,
                one.first - 1 if stands else least,
                one.first if ahead else None,
                known_by=one.observer,
                event=one.said.get(rank),
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
    return None if default is not None and _recorded_otherwise(case, default, event) else default


def _recorded_otherwise(case: Case, group: int, event: Event) -> bool:
    """Whether dumps of others hold other calls under that number of the group: then the line is about another group."""
    if not isinstance(event, CallTimeout) or event.seq is None or event.numel_in is None:
        return False
    rows = np.flatnonzero((case.call_group == group) & (case.calls.seq == event.seq))
    alike = (case.calls.numel_in[rows] == event.numel_in) & (case.calls.numel_in[rows] >= 0)
    return len(rows) > 1 and not alike.any()
