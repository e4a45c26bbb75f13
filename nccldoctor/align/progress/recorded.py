"""Fronts from recorder dumps: their entries, and the counters of each group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nccldoctor.align.p2p import Mask
from nccldoctor.align.progress.group_progress import GroupProgress
from nccldoctor.identify.case import Case
from nccldoctor.model.recorded_calls import STARTED, Calls, GroupStatus


def progress_from_entries(
    case: Case, calls: Calls, collective: Mask, done: Mask
) -> dict[tuple[int, int], GroupProgress]:
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
    out: dict[tuple[int, int], GroupProgress] = {}
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
        out[key] = GroupProgress(
            *key, enqueued=int(enqueued[i]), completed=max(before, -1), oldest=int(oldest[i]), **pending
        )
    return out


def _first_open(calls: Calls, rows: npt.NDArray[np.int64], pair: npt.NDArray[np.int64]) -> dict[int, int]:
    """Of these rows, which did not complete, the one with the lowest number for each group and rank."""
    order = np.lexsort((calls.entry[rows], calls.seq[rows], pair))
    pairs, starts = np.unique(pair[order], return_index=True)
    return dict(zip(pairs.tolist(), rows[order][starts].tolist(), strict=True))


def ranks_with_timing(case: Case, calls: Calls) -> frozenset[int]:
    """Ranks whose recorder noted kernel starts (``TORCH_NCCL_ENABLE_TIMING``): there *scheduled* means *not started*."""
    if not len(calls):
        return frozenset()
    known = (calls.state == STARTED) | (calls.started_ns > 0)
    return frozenset(int(r) for r in np.unique(case.call_rank[known]).tolist() if r >= 0)


def ranks_counting_starts(case: Case) -> frozenset[int]:
    """Ranks whose counters hold a started call: without timing nobody counts them (pytorch, ``WorkNCCL::isStarted``)."""
    dumps = zip(case.dumps, case.dump_rank, strict=True)
    return frozenset(
        r for d, r in dumps if r is not None and d.backend != "gloo" and any(s.started > 0 for s in d.status)
    )


def add_counters(case: Case, by: dict[tuple[int, int], GroupProgress], calls: Calls, p2p: Mask) -> None:
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
                by[(group, rank)] = GroupProgress(
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


def _evicted(front: GroupProgress, status: GroupStatus) -> GroupProgress:
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
