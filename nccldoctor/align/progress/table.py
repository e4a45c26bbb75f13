"""Two fronts for each rank in each group: how far its host enqueued, and how far its device completed.

Recorder entries, ``pg_status`` and the watchdog's lines all feed the same numbers. Sequence numbers are compared inside one
group only; nothing here compares times between ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nccldoctor.align.gloo import abandoned_calls, failed_calls, last_rows
from nccldoctor.align.p2p import Mask, Transfer, completed_by_counters, open_transfers, p2p_masks
from nccldoctor.align.progress.group_progress import GroupProgress
from nccldoctor.align.progress.printed import add_watchdog_lines
from nccldoctor.align.progress.recorded import (
    add_counters,
    progress_from_entries,
    ranks_counting_starts,
    ranks_with_timing,
)
from nccldoctor.identify.case import Case
from nccldoctor.model.recorded_calls import COMPLETED


@dataclass(frozen=True, slots=True)
class ProgressTable:
    """The progress of every rank in every process group.

    ``by_group_rank`` maps (group index, rank) to progress; a group that nobody recorded or logged has no key. ``transfers`` holds
    the unfinished sends and receives of each rank. ``completed``, ``collective`` and ``batch_member`` are boolean masks of shape
    ``(number of recorded calls,)`` parallel to ``case.calls``. ``timed_ranks`` have a recorder that noted when kernels started,
    ``recorded_ranks`` have entries or counters in their dump, and ``last_row`` is the row of each rank's newest call.
    """

    by_group_rank: Mapping[tuple[int, int], GroupProgress]
    transfers: Mapping[int, tuple[Transfer, ...]]
    completed: Mask
    collective: Mask
    batch_member: Mask
    timed_ranks: frozenset[int]
    recorded_ranks: frozenset[int]
    last_row: Mapping[int, int]

    def of_rank(self, rank: int) -> list[GroupProgress]:
        """The fronts of one rank, by group."""
        return self._by_rank().get(rank, [])

    def _by_rank(self) -> dict[int, list[GroupProgress]]:
        out: dict[int, list[GroupProgress]] = defaultdict(list)
        for front in self.by_group_rank.values():
            out[front.rank].append(front)
        return out


def build_progress_table(case: Case) -> ProgressTable:
    """Read both fronts of every rank in every group."""
    calls = case.calls
    gloo = np.array([d.backend == "gloo" for d in case.dumps], dtype=bool)
    done = (calls.state == COMPLETED) | (calls.retired & gloo[calls.dump]) if len(calls) else np.empty(0, dtype=bool)
    done[failed_calls(case) | abandoned_calls(case, done)] = False
    p2p, member = p2p_masks(case, calls)
    done |= completed_by_counters(case, calls, p2p)
    valid = (case.call_rank >= 0) & (case.call_group >= 0)
    collective = valid & ~member & ~p2p
    by = progress_from_entries(case, calls, collective, done)
    started = ranks_with_timing(case, calls) | ranks_counting_starts(case)
    add_counters(case, by, calls, p2p)
    transfers = open_transfers(case, calls, valid & p2p & ~member & ~done, member)
    add_watchdog_lines(case, by)
    _add_launches(case, by)
    told = frozenset(
        r
        for r, d in zip(case.dump_rank, case.dumps, strict=True)
        if r is not None and (d.entries or any(s.enqueued > 0 for s in d.status))
    )
    return ProgressTable(by, transfers, done, collective, member, started, told, last_rows(case))


def _add_launches(case: Case, by: dict[tuple[int, int], GroupProgress]) -> None:
    """What NCCL's own observers counted, where nothing else numbers the calls. What not everybody issued cannot end; where all
    issued as much, only a second query shows that it does not.
    """
    for one in case.nccl_counters:
        if one.group < 0 or one.is_moving:
            continue
        least = min(one.last.values())
        behind = bool(one.lagging)
        stands = behind or one.is_steady or bool(one.silent)
        for rank, number in one.last.items():
            ahead = number > least or (stands and not behind)
            by[one.group, rank] = GroupProgress(
                one.group,
                rank,
                number,
                one.first - 1 if stands else least,
                one.first if ahead else None,
                known_by=one.observer,
                event=one.lines.get(rank),
            )
