"""Lays the times of recorded calls side by side: how far behind its peers each rank was in each call.

One row for each (call, rank): ranks 0-7 in ALLREDUCE #18 are eight rows of one call. Everything is flat, sorted and vectorised:
16,384 ranks take seconds.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.identify.case import Case
from nccldoctor.identify.clock_skew import lower_medians

MOST_ROWS = 2_000_000
"""Recorded calls that are compared; of a larger job the newest calls of each group."""

FEWEST_CALLS = 32
"""Newest calls of each group that are always compared."""

POLL = 0.25
"""Seconds below which a difference of what a watchdog noticed may be its own rhythm: it looks for completed calls every 100 ms
(``kWatchdogThreadSleepMillis``, pytorch ``ProcessGroupNCCL.cpp``)."""

PARTS = 8
"""Parts of equal length into which the calls of a rank are divided."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Measure(StrEnum):
    """A time that shows lateness: when hosts issued calls, when devices started them, or how long these took.

    The last rank to arrive waits for nobody: its call is the shortest. Durations need no common clock.
    """

    ISSUED = "issued"
    STARTED = "started"
    DURATION = "duration"


class CallTimes(Struct, frozen=True):
    """Times of calls that several ranks recorded: arrays of one length, one item for each (call, rank).

    ``pair`` numbers the (group, rank) pairs and ``call`` the calls, both ascending with the group; ``order`` is the place of the
    call among those of its group, and ``row`` the recorded call. ``at`` is when the rank arrived, in seconds (for durations: their
    negative); ``behind`` is ``at`` less the median of the call's members.
    """

    row: Ints
    call: Ints
    pair: Ints
    order: Ints
    at: Floats
    behind: Floats

    def __len__(self) -> int:
        return len(self.row)


def rows_to_compare(case: Case, progress: ProgressTable) -> Ints:
    """The recorded collectives of several ranks, sorted by group, sequence number and rank; the newest where there are many."""
    calls = case.calls
    rows = np.flatnonzero(progress.collective & (calls.seq >= 0) & (case.call_rank >= 0))
    if len(rows) > MOST_ROWS:
        group = case.call_group[rows]
        newest = np.full(len(case.groups), -1, dtype=np.int64)
        np.maximum.at(newest, group, calls.seq[rows])
        ranks = len(np.unique(case.call_rank[rows]))
        rows = rows[calls.seq[rows] > newest[group] - max(FEWEST_CALLS, MOST_ROWS // ranks)]
    order = np.lexsort((case.call_rank[rows], calls.seq[rows], case.call_group[rows]))
    return rows[order]


def call_times(case: Case, rows: Ints, measure: Measure) -> CallTimes:
    """How far behind its peers each rank was, by one measure. Rows without that time, and calls of one rank, are left out."""
    calls = case.calls
    columns: dict[Measure, npt.NDArray[np.int64] | npt.NDArray[np.float32]] = {
        Measure.ISSUED: calls.created_ns,
        Measure.STARTED: calls.started_ns,
        Measure.DURATION: calls.duration_ms,
    }
    column = columns[measure][rows]
    rows, column = rows[column > 0], column[column > 0]
    is_new = np.ones(len(rows), dtype=bool)
    group, seq = case.call_group[rows], calls.seq[rows]
    is_new[1:] = (group[1:] != group[:-1]) | (seq[1:] != seq[:-1])
    keep = _comparable(calls.op[rows], is_new)
    rows, column, is_new = rows[keep], column[keep], is_new[keep]
    at = -column.astype(np.float64) / 1e3 if measure is Measure.DURATION else (column - column.min(initial=0)) / 1e9
    call = np.cumsum(is_new) - 1
    behind = at - lower_medians(at, np.bincount(call))[call]
    group = case.call_group[rows]
    rank = case.call_rank[rows].astype(np.int64)
    _, pair = np.unique(group.astype(np.int64) * (int(rank.max(initial=0)) + 1) + rank, return_inverse=True)
    return CallTimes(rows, call, pair.ravel(), _order(group, is_new), at, behind)


def _comparable(op: npt.NDArray[np.int32], is_new: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Marks the calls that two ranks or more recorded, all of them as the same operation."""
    if not len(op):
        return np.zeros(0, dtype=bool)
    starts = np.flatnonzero(is_new)
    same = np.minimum.reduceat(op, starts) == np.maximum.reduceat(op, starts)
    members = np.diff(np.append(starts, len(op)))
    return np.repeat(same & (members > 1), members)


def _order(group: npt.NDArray[np.int32], is_new: npt.NDArray[np.bool_]) -> Ints:
    """The place of each row's call among the calls of its group: 0, 1, 2."""
    call = np.cumsum(is_new) - 1
    first = np.ones(len(group), dtype=bool)
    first[1:] = group[1:] != group[:-1]
    starts = np.flatnonzero(first)
    return np.asarray(call - np.repeat(call[starts], np.diff(np.append(starts, len(group)))), dtype=np.int64)


def without_clocks(case: Case, times: CallTimes) -> CallTimes:
    """The same times with the clock of each host set right.

    A rank is not late in every call: where it is earliest, in two parts of its calls, it is taken to be on time. So a
    difference that is always there is one of clocks, unless the ranks share a host, or calls that they completed together
    show that it is not. One part is not enough: ranks may be late in the first calls, and one is early then.
    """
    if not len(times):
        return times
    # a clock for each host of a group, or for each rank whose host is not known
    first = first_rows(times)
    clocks: dict[tuple[int, str], int] = {}
    places = zip(case.call_group[times.row[first]].tolist(), case.call_rank[times.row[first]].tolist(), strict=True)
    clock = np.array(
        [clocks.setdefault((group, case.rank_host.get(rank, f"={rank}")), len(clocks)) for group, rank in places]
    )
    earliest = np.full((int(times.pair.max()) + 1, PARTS), np.inf)
    np.minimum.at(earliest, (times.pair, parts_from_end(times.pair)), times.behind)
    earliest.sort(axis=1)
    early = np.asarray(np.where(np.isfinite(earliest[:, 1]), earliest[:, 1], earliest[:, 0]))
    shift = _medians_by_key(clock, early)[clock]
    known = _completed_apart(case, times, clock)[clock]
    shift = np.where(np.isnan(known), shift, np.clip(shift, known - POLL, known + POLL))
    at = times.at - shift[times.pair]
    return replace(times, at=at, behind=at - lower_medians(at, np.bincount(times.call))[times.call])


def _by_key(key: Ints) -> Ints:
    """The rows by key, in their order where keys are equal; numbers of two bytes are sorted many times faster."""
    return np.argsort(key.astype(np.uint16) if key.max(initial=0) < 1 << 16 else key, kind="stable")


def parts_from_end(pair: Ints) -> Ints:
    """The part of its pair's calls to which each row belongs, in their order; 0 is the newest part."""
    total = np.bincount(pair)
    rows = _by_key(pair)
    place = np.empty(len(pair), dtype=np.int64)
    place[rows] = np.arange(len(pair)) - np.repeat(np.cumsum(total) - total, total)
    parts = np.minimum(total, PARTS)
    return np.asarray((total[pair] - 1 - place) * parts[pair] // total[pair], dtype=np.int64)


def first_rows(times: CallTimes) -> Ints:
    """The place of the first row of each (group, rank) pair."""
    first = np.zeros(int(times.pair.max(initial=-1)) + 1, dtype=np.int64)
    first[times.pair[::-1]] = np.arange(len(times.pair))[::-1]  # the last assignment to a place stays
    return first


def _medians_by_key(key: Ints, value: Floats) -> Floats:
    """The median of the values of each key, the lower of two in the middle."""
    return lower_medians(value[_by_key(key)], np.bincount(key))


def _completed_apart(case: Case, times: CallTimes, clock: Ints) -> Floats:
    """Seconds by which each clock is ahead of most in calls that completed together; NaN where too few did."""
    done = case.calls.completed_ns[times.row]
    apart = np.full(int(clock.max()) + 1, np.nan)
    use = np.flatnonzero(done > 0)
    if not len(use):
        return apart
    at = (done[use] - done[use].min()) / 1e9
    members = np.bincount(times.call[use])
    members = members[members > 0]
    call = np.repeat(np.arange(len(members)), members)
    ahead = at - lower_medians(at, members)[call]
    several = members[call] > 1
    place = clock[times.pair[use[several]]]
    seen = np.flatnonzero(np.bincount(place))
    if len(seen):
        apart[seen] = _medians_by_key(np.searchsorted(seen, place), ahead[several])
    return apart
