"""Reads the progress of each rank from recorder dumps: their entries, and the counters of each group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.p2p import Mask
from nccldoctor.events import Event
from nccldoctor.identify.case import Case
from nccldoctor.model.recorded_calls import STARTED, Calls, GroupStatus

UNORDERED = 1 << 60
"""Position of a call that only a log line names: after everything that was recorded."""


class GroupProgress(Struct, frozen=True):
    """How far one rank has come in one group, in sequence numbers of that group.

    ``enqueued`` is the last call that its host issued, ``completed`` the last one that its device finished (-1: none). ``pending``
    is the first call that did not complete (None: all did) and ``row`` its row in the table of calls (-1: known from a line or a
    counter only). ``position`` is its place in the rank's own order over all groups, ``started`` is true when its kernel is known
    to run. ``oldest`` is the first number that the ring still holds. ``known_by`` is ``dump``, ``status`` (counters of a dump),
    ``log``, or the observer that counted calls; ``event`` is the line it was learned from.

    Rank 3 issued #18 and completed #16: ``enqueued`` is 18, ``completed`` 16, ``pending`` 17.
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


def progress_from_entries(
    case: Case, calls: Calls, collective: Mask, completed: Mask
) -> dict[tuple[int, int], GroupProgress]:
    """The progress that recorder entries show, by (group, rank), in one pass over the table of calls."""
    rows = np.flatnonzero(collective)
    if not len(rows):
        return {}
    ranks = int(case.call_rank.max()) + 1
    pair = case.call_group[rows].astype(np.int64) * ranks + case.call_rank[rows]
    order = np.argsort(pair, kind="stable")
    rows, pair = rows[order], pair[order]
    starts = np.concatenate([[0], np.flatnonzero(pair[1:] != pair[:-1]) + 1])
    seq, finished = calls.seq[rows], completed[rows]
    enqueued = np.maximum.reduceat(seq, starts)
    last_done = np.maximum.reduceat(np.where(finished, seq, -1), starts)
    oldest = np.minimum.reduceat(seq, starts)
    pending = _first_pending(calls, rows[~finished], pair[~finished])
    progress: dict[tuple[int, int], GroupProgress] = {}
    for i, at in enumerate(starts.tolist()):
        group, rank = divmod(int(pair[at]), ranks)
        done = int(last_done[i])
        own = GroupProgress(group, rank, int(enqueued[i]), max(done, -1), oldest=int(oldest[i]))
        row = pending.get(int(pair[at]))
        if row is not None:
            number = int(calls.seq[row])
            own = replace(
                own,
                completed=max(min(done, number - 1) if done >= 0 else number - 1, -1),
                pending=number,
                row=row,
                position=int(calls.entry[row]),
                started=int(calls.state[row]) == STARTED,
            )
        progress[group, rank] = own
    return progress


def _first_pending(calls: Calls, rows: npt.NDArray[np.int64], pair: npt.NDArray[np.int64]) -> dict[int, int]:
    """The unfinished row with the lowest number for each pair of group and rank."""
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
        r for d, r in dumps if r is not None and not d.only_retires and any(s.started > 0 for s in d.status)
    )


def add_counters(case: Case, progress: dict[tuple[int, int], GroupProgress], calls: Calls, p2p: Mask) -> None:
    """Adds what ``pg_status`` counts, for groups whose calls left the ring or were never written (active calls only).

    Not for groups with sends, since newer releases mix both counters there. Not where calls
    are only retired: there the counters count sends too.
    """
    mixed = {int(g) for g in np.unique(case.call_group[p2p]).tolist()} if len(calls) else set()
    for dump, rank in zip(case.dumps, case.dump_rank, strict=True):
        if rank is None or dump.only_retires:
            continue
        for status in dump.status:
            group = case.naming.by_pg_id.get((rank, status.pg_id))
            if group is None or group in mixed or status.enqueued < 0:
                continue
            own = progress.get((group, rank))
            issued, done = status.enqueued, status.completed
            if own is None:
                pending = done + 1 if issued > done else None
                own = GroupProgress(group, rank, issued, done, pending, oldest=issued + 1, known_by="status")
            else:
                own = _with_evicted(own if own.enqueued >= issued else replace(own, enqueued=issued), status)
            progress[group, rank] = own


def _with_evicted(own: GroupProgress, status: GroupStatus) -> GroupProgress:
    """The progress by the counters, where the ring no longer holds the first unfinished call.

    Counters begin with 1. The ring of rank 2 begins with #40 and its counters say that #30 completed: #31 is pending.
    """
    first = max(status.completed, 0) + 1
    if first > status.enqueued or first >= own.oldest or (status.completed < 0 and own.pending != own.oldest):
        return own
    started = status.started >= first
    own = replace(own, completed=status.completed, pending=first, started=started)
    return replace(own, row=-1, position=-1, known_by="status")
