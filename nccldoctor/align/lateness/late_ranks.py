"""Finds ranks that are late again and again, over all recorded calls.

A rank is late in a call when its peers had long issued it. Once is an accident; a straggler is late in most parts of what was recorded,
up to the newest call, and costs its group a noticeable share of its time. Example: in each of 20 steps ranks 0, 1 and 3
issue ALLREDUCE together and rank 2 follows after 0.8 s, of 0.86 s that a step takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.lateness.call_times import (
    PARTS,
    POLL,
    CallTimes,
    Measure,
    call_times,
    first_rows,
    parts_from_end,
    rows_to_compare,
    without_clocks,
)
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.identify.case import Case
from nccldoctor.identify.clock_skew import lower_medians
from nccldoctor.model.ranks import Ranks

LEAST = 0.010
"""Seconds of lateness that count at least: ten times what a host wakes up late by."""

OF_HOSTS = 0.050
"""The same where only hosts are seen: in tiny steps the progress bar and the log lines of rank 0 take some tens of milliseconds."""

APART = 3
"""A late rank is behind by so many times what its peers usually are."""

LATE_PARTS = 4
"""Newest parts in a row in which a straggler is late: a checkpoint or a slow start fills one or two."""

FEWEST_PARTS = 3
"""Parts in which it is late where no more were recorded."""

SIGMAS = 4.0
"""Standard deviations by which a straggler is late more often than its peers, if lateness fell on all alike."""

SHARE = 0.1
"""The share of its group's time that a straggler costs at least."""

FEW = 4
"""One in so many members of a group may be late; if more are, lateness is by the design of the job."""

MANY = 4
"""Ranks of a group from which on a host of one rank is unusual."""

CANDIDATES = 64
"""Pairs that are looked at one by one, the dearest first."""

SHOWN = 4
"""Late calls that are kept of each rank, as evidence."""

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class LateRank(Struct, frozen=True):
    """A rank that is late again and again in one group.

    It was late by ``seconds`` (the median) in ``late_calls`` of ``compared`` calls, by ``measure``, which cost ``share`` of the
    time. ``rows`` are its newest late calls in the table of recorded calls. ``may_be_clock``: it is as late in all calls, and no host is
    known that it shares with others, so that its clock would explain it.
    """

    rank: int
    group: int
    measure: Measure
    seconds: float
    late_calls: int
    compared: int
    share: float
    rows: tuple[int, ...]
    may_be_clock: bool = False


class Lateness(Struct, frozen=True):
    """Which ranks are late again and again. ``compared`` calls had several ranks with times; with 0 nothing is known."""

    compared: int = 0
    late: Mapping[int, LateRank] = {}

    @property
    def late_ranks(self) -> Ranks:
        """The ranks that are late again and again."""
        return Ranks(self.late)


def measure_lateness(case: Case, progress: ProgressTable) -> Lateness:
    """Measures lateness over all recorded calls, by every time that recorders kept.

    Durations come first: they need no clock. Then when devices started calls, then when hosts issued them.
    """
    rows = rows_to_compare(case, progress)
    found: list[LateRank] = []
    compared = 0
    for measure in (Measure.DURATION, Measure.STARTED, Measure.ISSUED):
        times = call_times(case, rows, measure)
        if not len(times):
            continue
        compared = max(compared, int(times.call[-1]) + 1)
        own = times if measure is Measure.DURATION else without_clocks(case, times)
        here = _late_pairs(case, own, measure)
        found += here or _alone_behind(case, times, _late_pairs(case, times, measure))
    first: dict[int, LateRank] = {}
    for late in _origins(case, found):
        first.setdefault(late.rank, late)
    return Lateness(compared, first)


def _late_pairs(case: Case, times: CallTimes, measure: Measure) -> list[LateRank]:
    """The ranks of each group that are late up to the newest calls, often and at a noticeable cost."""
    fresh = _is_fresh(times, measure)
    starts = _starts(times)
    apart = np.abs(times.behind)
    usual = lower_medians(apart, np.diff(np.append(starts, len(times))))
    least = {Measure.STARTED: POLL, Measure.ISSUED: OF_HOSTS}.get(measure, LEAST)
    late = fresh & np.asarray(times.behind >= np.maximum(least, APART * usual)[times.call], dtype=bool)
    first = times.row[first_rows(times)]
    group = case.call_group[first]
    cost: Floats = np.bincount(times.pair, weights=np.where(late, times.behind, 0.0)).astype(np.float64)
    share = cost / np.maximum(_span(case, times), LEAST)
    found = _is_late_to_the_end(times, fresh, late) & (share >= SHARE)
    dearest = np.flatnonzero(found)[np.argsort(-cost[found], kind="stable")][:CANDIDATES]
    seconds = {pair: float(np.median(times.behind[late & (times.pair == pair)])) for pair in dearest.tolist()}
    found[:] = False
    found[[pair for pair, typical in seconds.items() if _is_more_often(times, group, pair, typical)]] = True
    out: list[LateRank] = []
    for pair in np.flatnonzero(_few(group, cost, found)).tolist():
        own = np.flatnonzero(late & (times.pair == pair))
        out.append(
            LateRank(
                rank=int(case.call_rank[first[pair]]),
                group=int(group[pair]),
                measure=measure,
                seconds=seconds[pair],
                late_calls=len(own),
                compared=int((times.pair == pair).sum()),
                share=min(float(share[pair]), 1.0),
                rows=tuple(times.row[own][-SHOWN:].tolist()),
            )
        )
    return out


def _alone_behind(case: Case, times: CallTimes, found: list[LateRank]) -> list[LateRank]:
    """Late ranks by uncorrected clocks, where a clock of its own is less likely than lateness.

    That holds of a single rank of a large group whose host is not known, while the clocks of all others agree.
    """
    out: list[LateRank] = []
    for late in found:
        is_other = (case.call_group[times.row] == late.group) & (case.call_rank[times.row] != late.rank)
        calls = np.bincount(times.pair[is_other])
        apart = np.bincount(times.pair[is_other], np.abs(times.behind[is_other]))[calls > 0] / calls[calls > 0]
        if len(apart) + 1 >= MANY and apart.max() * APART < late.seconds and late.rank not in case.rank_host:
            out.append(replace(late, may_be_clock=True))
    return out


def _is_more_often(times: CallTimes, group: npt.NDArray[np.int32], pair: int, typical: float) -> bool:
    """True when a rank is behind by half its typical lateness more often than its group is."""
    as_late = times.behind >= typical / 2
    mates = group[times.pair] == group[pair]
    usual = float(as_late[mates].mean())
    calls = int((times.pair == pair).sum())
    own = int((as_late & (times.pair == pair)).sum())
    return own >= calls * usual + SIGMAS * math.sqrt(calls * usual * (1 - usual))


def _is_fresh(times: CallTimes, measure: Measure) -> Mask:
    """Marks the calls to which a rank cannot be late only because it was late to the one before.

    Hosts issue calls without waiting for them. A rank that was late to the first of four calls is as late to the rest, which costs
    nobody anything: a call counts where the others had waited for the last rank in the call before.
    """
    starts = _starts(times)
    fresh = np.ones(len(starts), dtype=bool)
    if measure is Measure.ISSUED:
        middle = (times.at - times.behind)[starts]
        last = np.maximum.reduceat(times.at, starts)
        fresh[1:] = (times.order[starts][1:] == 0) | (middle[1:] >= last[:-1] - LEAST)
    return np.asarray(fresh[times.call], dtype=bool)


def _starts(times: CallTimes) -> npt.NDArray[np.int64]:
    """The first row of each call."""
    return np.asarray(np.searchsorted(times.call, np.arange(int(times.call[-1]) + 1)), dtype=np.int64)


def _is_late_to_the_end(times: CallTimes, fresh: Mask, late: Mask) -> Mask:
    """Marks the pairs that are late in each of the newest :data:`LATE_PARTS` parts of their fresh calls.

    Where fewer parts were recorded, those count, from :data:`FEWEST_PARTS` on.
    """
    pairs = int(times.pair.max()) + 1
    pair = times.pair[fresh]
    counts = np.bincount(pair * PARTS + parts_from_end(pair), weights=late[fresh], minlength=pairs * PARTS)
    total = np.bincount(pair, minlength=pairs)
    late_parts = (counts.reshape(-1, PARTS)[:, :LATE_PARTS] > 0).sum(axis=1)
    return np.asarray((total >= FEWEST_PARTS) & (late_parts == np.minimum(total, LATE_PARTS)), dtype=bool)


def _span(case: Case, times: CallTimes) -> Floats:
    """Seconds between the first and the last issue of each pair, by its own clock."""
    created = case.calls.created_ns[times.row]
    known = created > 0
    pairs = int(times.pair.max()) + 1
    first = np.full(pairs, np.iinfo(np.int64).max)
    last = np.zeros(pairs, dtype=np.int64)
    np.minimum.at(first, times.pair[known], created[known])
    np.maximum.at(last, times.pair[known], created[known])
    return np.asarray(np.where(last > first, (last - first) / 1e9, np.inf))


def _few(group: npt.NDArray[np.int32], cost: Floats, found: Mask) -> Mask:
    """Drops pairs that cost little beside others of their group, and all where many of a group remain."""
    if not found.any():
        return found
    most = np.zeros(int(group.max()) + 1)
    np.maximum.at(most, group[found], cost[found])
    found = found & (cost * APART >= most[group])
    late = np.bincount(group, weights=found)
    return np.asarray(found & (late <= np.maximum(1, np.bincount(group) // FEW))[group], dtype=bool)


def _origins(case: Case, found: list[LateRank]) -> list[LateRank]:
    """Drops ranks that another rank made late, and those that are late by the design of the job.

    Rank 5 of a tensor group 4-7 is late, so that ranks 4, 6 and 7 are late in their data groups; in the tensor group they wait for rank 5.
    """
    if not found:
        return found
    late_in = {(late.group, late.rank) for late in found}
    transfers = np.unique(case.call_group[np.flatnonzero(case.calls.is_p2p & (case.call_group >= 0))]).tolist()
    members = {g.index: g.members for g in case.groups}
    staged = {late.group for late in found if any(len(members[t] & members[late.group]) > 1 for t in transfers)}
    out: list[LateRank] = []
    for late in found:
        mates = Ranks(other.rank for other in found if other.group == late.group)
        waited = any(
            late.rank in members[other.group] and (other.group, late.rank) not in late_in
            for other in found
            if other.rank != late.rank and other.seconds * APART >= late.seconds
        )
        is_part = any(len(m) > 1 and late.rank in m and m <= mates for m in members.values())
        if not waited and not is_part and late.group not in staged:
            out.append(late)
    return out
