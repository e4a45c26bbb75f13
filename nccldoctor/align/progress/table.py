"""Builds the table of how far each rank enqueued and completed the calls of each process group.

Recorder entries, ``pg_status``, watchdog lines and the counts of NCCL's own observers all feed the same numbers. Sequence numbers
are compared inside one group only; nothing here compares times between ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from nccldoctor.align.progress.from_dumps import (
    GroupProgress,
    Mask,
    Transfer,
    abandoned_calls,
    add_counters,
    completed_by_counters,
    failed_calls,
    last_rows,
    open_transfers,
    p2p_masks,
    progress_from_entries,
    ranks_with_timing,
)
from nccldoctor.align.progress.from_lines import add_watchdog_lines
from nccldoctor.identify.case import Case
from nccldoctor.model.recorded_calls import COMPLETED, UNKNOWN_STATE


class ProgressTable(Struct, frozen=True):
    """The progress of every rank in every process group.

    ``by_group_rank`` maps (group index, rank) to progress; a group that nobody recorded or logged has no key. ``transfers`` holds
    the unfinished sends and receives of each rank. ``completed``, ``collective`` and ``batch_member`` are boolean masks of shape
    ``(number of recorded calls,)`` parallel to ``case.calls``. ``timed_ranks`` have a recorder that noted when kernels started,
    ``recorded_ranks`` have entries or counters in their dump. What the dump of ``damaged_ranks`` lacks proves nothing: it is cut, or
    holds unknown values, or calls of which it does not say the group. ``last_row`` is the row of each rank's newest call.
    """

    by_group_rank: Mapping[tuple[int, int], GroupProgress]
    transfers: Mapping[int, tuple[Transfer, ...]]
    completed: Mask
    collective: Mask
    batch_member: Mask
    timed_ranks: frozenset[int]
    recorded_ranks: frozenset[int]
    damaged_ranks: frozenset[int]
    last_row: Mapping[int, int]


def build_progress_table(case: Case) -> ProgressTable:
    """Read the progress of every rank in every group; dumps come first, then lines, then NCCL's own counts."""
    calls = case.calls
    retires = np.array([d.only_retires for d in case.dumps], dtype=bool)
    done = (calls.state == COMPLETED) | (calls.retired & retires[calls.dump]) if len(calls) else np.empty(0, dtype=bool)
    done[failed_calls(case) | abandoned_calls(case, done)] = False
    p2p, member = p2p_masks(case, calls)
    done |= completed_by_counters(case, calls, p2p)
    valid = (case.call_rank >= 0) & (case.call_group >= 0) & (calls.state != UNKNOWN_STATE)
    collective = valid & ~member & ~p2p
    progress = progress_from_entries(case, calls, collective, done)
    add_counters(case, progress, calls, p2p)
    add_watchdog_lines(case, progress)
    _add_nccl_counters(case, progress)
    dumps = [(r, d) for r, d in zip(case.dump_rank, case.dumps, strict=True) if r is not None]
    # a recorder without an entry is off, or its rank made no call: where nobody's first call ended, the peers' recorders are on
    begins = bool(progress) and all(one.completed <= 0 for one in progress.values())
    idle = frozenset(r for r, d in dumps if begins and d.is_empty)
    # a collective without the name of its group may be the call that a group misses
    nameless = (case.call_rank >= 0) & (case.call_group < 0) & ~p2p
    return ProgressTable(
        by_group_rank=progress,
        transfers=open_transfers(case, calls, valid & p2p & ~member & ~done, member),
        completed=done,
        collective=collective,
        batch_member=member,
        timed_ranks=ranks_with_timing(case, calls),
        recorded_ranks=frozenset(r for r, d in dumps if d.entries or any(s.enqueued > 0 for s in d.status)) | idle,
        damaged_ranks=(frozenset(r for r, d in dumps if d.problem) - idle)
        | {*np.unique(case.call_rank[nameless]).tolist()},
        last_row=last_rows(case),
    )


def _add_nccl_counters(case: Case, progress: dict[tuple[int, int], GroupProgress]) -> None:
    """Adds what NCCL's own observers counted, where nothing else numbers the calls.

    A call that some member did not issue cannot complete. Where all members issued as many, only a second query with the same
    counts, or a member that does not answer, shows that the call does not complete.
    """
    for counters in case.nccl_counters:
        if counters.group < 0 or counters.is_moving:
            continue
        least = min(counters.last.values())
        uneven = bool(counters.lagging)
        is_stuck = uneven or counters.is_steady or bool(counters.silent)
        for rank, number in counters.last.items():
            progress[counters.group, rank] = GroupProgress(
                counters.group,
                rank,
                number,
                counters.first - 1 if is_stuck else least,
                counters.first if number > least or (is_stuck and not uneven) else None,
                known_by=counters.observer,
                event=counters.lines.get(rank),
            )
