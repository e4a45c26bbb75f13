"""Measures how far the clocks of hosts are apart, by collectives that ended together and lines about one moment.

A recorder notes when a thread of its process saw a call completed, on the clock of its host. An all-reduce ends on all members within
milliseconds, and is seen within a tenth of a second (the watchdog's poll, pytorch ``ProcessGroupNCCL.cpp`` 2.4 to 2.9); a difference
that stays the same over many calls is one of clocks. Calls with a root end at different times and show nothing.

Example: over 40 all-reduces, ranks 8-15 of host B completed 3.2 s after ranks 0-7, each time: the clock of B is 3.2 s ahead. The same
is told by the steps that ranks report one by one, and by their lines about one dump signal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.events import CollectiveTimeout, DumpSignal, Event, Events, GroupRef, Progress
from nccldoctor.events.base import Writer
from nccldoctor.identify.case import Case, Skew
from nccldoctor.identify.event_times import NEAR, QUARTER
from nccldoctor.model import Gap
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.words.times import duration

SHARED = 4
"""Fewest calls over which a difference must be steady."""

NOTICED = 0.5
"""Seconds from which a difference is reported: from here on, lines of two hosts would be put in the wrong order."""

UNEVEN = 2.0
"""Seconds by which lines of two ranks about one moment may differ, whatever their clocks: one prints later, or asks a store each second."""

_STEADY = 0.15  # seconds by which single calls may differ, or a quarter of the whole
_ROWS = 2_000_000  # rows looked at; more give no better estimate
_TOGETHER = (
    *("all_reduce", "allreduce", "all_gather", "_all_gather", "reduce_scatter", "_reduce_scatter"),
    *("all_to_all", "barrier"),
)


class Clocks(Struct, frozen=True):
    """The clocks that differ from most, and the ranks whose clocks were compared at all."""

    skews: tuple[Skew, ...] = ()
    compared: Ranks = Ranks()


def find_skews(
    batch: Batch, call_rank: npt.NDArray[np.int32], call_group: npt.NDArray[np.int32], rank_host: Mapping[int, str]
) -> Clocks:
    """The clocks that differ from most by :data:`NOTICED` seconds or more, by host, else by equal difference."""
    offsets = _offsets_of_ranks(batch, call_rank, call_group, batch.calls.completed_ns)
    if not (batch.calls.completed_ns > 0).any():
        # the call ended, so a rank that seems later than its limit has a different clock
        limit = int(batch.calls.timeout_ms.max(initial=0)) / 1e3
        told = _offsets_of_ranks(batch, call_rank, call_group, batch.calls.created_ns)
        offsets = {rank: own for rank, own in told.items() if 0 < limit < abs(own[0])}
    return _clocks(offsets, rank_host, NOTICED)


def _clocks(offsets: Mapping[int, tuple[float, int]], rank_host: Mapping[int, str], least: float) -> Clocks:
    by: dict[str | int, list[int]] = {}
    for rank, (offset, _) in sorted(offsets.items()):
        by.setdefault(rank_host.get(rank, round(offset * 2)), []).append(rank)
    out = []
    for place, ranks in by.items():
        offset = float(np.median([offsets[r][0] for r in ranks]))
        if abs(offset) >= least:
            host = place if isinstance(place, str) else None
            out.append(Skew(Ranks(ranks), host, round(offset, 3), min(offsets[r][1] for r in ranks)))
    return Clocks(tuple(sorted(out, key=lambda skew: (min(skew.ranks), skew.host or ""))), Ranks(offsets))


def find_line_skews(
    events: Events, seconds: npt.NDArray[np.float64], rank_host: Mapping[int, str], *, is_measured: bool
) -> Clocks:
    """The clocks that differ by the steps that ranks report and by their lines about a dump signal.

    ``seconds`` are the times of the events. Where the clocks of calls are ``is_measured``, a difference is one of lines alone, as is one of
    time zones.
    """
    if len(set(rank_host.values())) < 2:
        return Clocks()
    steps: dict[tuple[str, int], dict[int, float]] = {}
    for place, event in zip(events.places_of(Progress), events.of_kind(Progress), strict=True):
        if (
            event.rank is not None
            and event.rank in rank_host
            and event.step is not None
            and not np.isnan(seconds[place])
        ):
            steps.setdefault((event.label or "", event.step), {}).setdefault(event.rank, float(seconds[place]))
    signal: dict[int, float] = {}
    for place, told in zip(events.places_of(DumpSignal), events.of_kind(DumpSignal), strict=True):
        if told.rank is not None and told.rank in rank_host and not np.isnan(seconds[place]):
            signal[told.rank] = float(seconds[place])  # of several runs the newest
    ended: dict[tuple[GroupRef | None, str | None, int | None], dict[int, float]] = {}
    for place, over in zip(events.places_of(CollectiveTimeout), events.of_kind(CollectiveTimeout), strict=True):
        if over.rank is not None and over.rank in rank_host and not np.isnan(seconds[place]):
            ended.setdefault((over.group, over.op, over.seq), {})[over.rank] = float(seconds[place])
    by_steps = {r: own for r, own in _offsets_of_moments(steps.values()).items() if own[1] >= SHARED}
    clocks = {
        "steps that they reported": _clocks(by_steps, rank_host, UNEVEN),
        "dump signal": _clocks(_offsets_of_moments([signal]), rank_host, 2 * UNEVEN),
        "timeout of one call": _clocks(
            _offsets_of_moments(ended.values()), rank_host, QUARTER - NEAR
        ),  # others enter it late
    }
    moments, found = next((pair for pair in clocks.items() if pair[1].skews), ("", Clocks()))
    skews = (
        replace(skew, moments=moments, of_lines=is_measured or abs(skew.seconds) > QUARTER - NEAR)
        for skew in found.skews
    )
    return Clocks(tuple(skews), clocks["dump signal"].compared | clocks["steps that they reported"].compared)


def _offsets_of_moments(moments: Iterable[Mapping[int, float]]) -> dict[int, tuple[float, int]]:
    """The steady offset of each rank from the lower median of each moment, and the number of moments."""
    late: dict[int, list[float]] = {}
    for times in moments:
        if len(times) > 1:
            usual = sorted(times.values())[(len(times) - 1) // 2]
            for rank, at in times.items():
                late.setdefault(rank, []).append(at - usual)
    middle = {rank: float(np.median(own)) for rank, own in late.items()}
    return {
        rank: (middle[rank], len(own))
        for rank, own in late.items()
        if float(np.median(np.abs(np.array(own) - middle[rank]))) <= max(_STEADY, abs(middle[rank]) / 10)
    }


def skew_gaps(skews: tuple[Skew, ...]) -> list[Gap]:
    """A gap for each corrected clock: its times are not as printed."""
    return [
        Gap(
            f"clock of {skew.host}" if skew.host else f"clock of ranks {skew.ranks}",
            f"{abs(skew.seconds):.1f} s {'ahead of' if skew.seconds > 0 else 'behind'} most others', "
            f"measured on {skew.calls} {skew.moments}; we corrected its times",
            skew.ranks,
        )
        for skew in skews
    ]


def clock_offsets(events: Sequence[Event], skews: tuple[Skew, ...]) -> npt.NDArray[np.float64]:
    """Seconds by which the clock of each event is ahead, to be subtracted from its time."""
    return np.array([sum(s.seconds for s in skews if s.is_clock_of(e)) for e in events], dtype=np.float64)


def correct_times(batch: Batch, call_rank: npt.NDArray[np.int32], skews: tuple[Skew, ...]) -> Batch:
    """The calls with their times on the common clock."""
    skews = tuple(skew for skew in skews if not skew.of_lines)
    if not skews:
        return batch
    off = np.zeros(len(call_rank), dtype=np.int64)
    for skew in skews:
        off[np.isin(call_rank, list(skew.ranks))] = round(skew.seconds * 1e9)
    calls = batch.calls
    times = {name: getattr(calls, name) for name in ("created_ns", "started_ns", "completed_ns")}
    return batch.with_calls(replace(calls, **{n: np.where(t > 0, t - off, t) for n, t in times.items()}))


def _offsets_of_ranks(
    batch: Batch, call_rank: npt.NDArray[np.int32], call_group: npt.NDArray[np.int32], stamps: npt.NDArray[np.int64]
) -> dict[int, tuple[float, int]]:
    """The steady offset of each rank from the median of its peers, in seconds, and its number of calls."""
    calls = batch.calls
    if not len(calls):
        return {}
    together = np.array([op.startswith(_TOGETHER) for op in batch.vocabulary.ops] or [False])
    use = (stamps > 0) & (call_rank >= 0) & (call_group >= 0) & ~calls.is_p2p & (calls.seq >= 0)
    use &= together[np.clip(calls.op, 0, len(together) - 1)]
    rows = np.flatnonzero(use)
    if len(rows) > _ROWS:
        rows = rows[calls.seq[rows] % (1 + len(rows) // _ROWS) == 0]
    if not len(rows):
        return {}
    seen = stamps[rows]
    clock = (seen - seen.min()).astype(np.float64) / 1e9
    place = np.unique(calls.seq[rows], return_inverse=True)[1].ravel()
    call = np.unique(call_group[rows] * np.int64(len(rows)) + place, return_inverse=True)[1].ravel()
    members = np.bincount(call)
    order = np.argsort(call)
    late = clock - lower_medians(clock[order], members)[call]
    late, rank = late[members[call] > 1], call_rank[rows][members[call] > 1]
    return _steady(rank, late)


def lower_medians(values: npt.NDArray[np.float64], sizes: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """The lower median of each run of values; ``sizes`` are their lengths. Runs of one length are sorted as the rows of a table."""
    starts = np.cumsum(sizes) - sizes
    out = np.empty(len(sizes))
    for size in np.unique(sizes).tolist():
        runs = np.flatnonzero(sizes == size)
        table = values[starts[runs][:, None] + np.arange(size)]
        table.sort(axis=1)
        out[runs] = table[:, (size - 1) // 2]
    return out


def _steady(rank: npt.NDArray[np.int32], late: npt.NDArray[np.float64]) -> dict[int, tuple[float, int]]:
    """Offset and number of calls of the ranks whose difference stays the same from call to call."""
    if not len(rank):
        return {}
    order = np.argsort(rank, kind="stable")
    names, sizes = np.unique(rank, return_counts=True)
    offsets = _medians(late[order], sizes)
    spreads = _medians(np.abs(late[order] - np.repeat(offsets, sizes)), sizes)
    is_steady = (sizes >= SHARED) & (spreads <= np.maximum(_STEADY, np.abs(offsets) / 4))
    found = zip(names[is_steady].tolist(), offsets[is_steady].tolist(), sizes[is_steady].tolist(), strict=True)
    return {name: (offset, calls) for name, offset, calls in found}


def _medians(values: npt.NDArray[np.float64], sizes: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """The median of each run of values, the mean of two in the middle."""
    return (lower_medians(values, sizes) - lower_medians(-values, sizes)) / 2


_BEFORE = 900.0
"""Seconds before the call that ran out in which a host reports what stopped it."""


def without_foreign_times(case: Case) -> Case:
    """The case with the lines of hosts that are about its time, as far as their clocks tell.

    Example: ranks give up at 03:10 on a call of 03:00, and ``dmesg -T`` of a host has an Xid at 11:04, in local time. Eight hours earlier
    it fits, so it counts, without its time and with a doubt. What no zone brings near the trouble is of another hour or day, and is left
    out.
    """
    zoned = [e.time is not None and e.time.tzinfo is not None for e in case.events]
    of_host: dict[int, list[int]] = defaultdict(list)
    own: list[int] = []
    for i, event in enumerate(case.events):
        if not math.isnan(case.seconds[i]):
            is_host = event.written_by is Writer.KERNEL
            (of_host[event.place.source] if is_host else own).append(i)
    if not own or not of_host:
        return case
    trouble = _trouble(case, own)
    begun, last = min(trouble[0] + _BEFORE, float(case.seconds[own].min())), float(case.seconds[own].max())
    first = min(trouble[0], begun)
    seconds, gone, gaps = case.seconds.copy(), set[int](), []
    for source, lines in of_host.items():
        times = case.seconds[lines]
        beside = float(np.maximum(first - times, times - last).min())
        if beside <= 1800 or (all(zoned[i] for i in lines) and all(zoned[i] for i in own)):
            continue
        path = case.events[lines[0]].place.path
        away = float(np.maximum(begun - times, times - last).min())
        far = f"its lines are {duration(away * 1e3)} {'before' if times[0] < first else 'after'} those of the job"
        zones = (*range(-14, 15), -5.5, 5.5)  # hours by which two mostly differ
        if any(trouble[0] <= at + 3600 * hours <= trouble[1] for at in times for hours in zones):
            seconds[lines] = np.nan
            why = f"{far}; it may be written by the clock of another zone, so its times don't count"
            gaps.append(Gap(path, why, source=source, odd=True))
        else:
            gone |= set(lines)
            gaps.append(Gap(f"{path}: a different run", f"{far}; left out", source=source, apart=True))
    keep = [i for i in range(len(case.events)) if i not in gone]
    events = Events(case.events[i] for i in keep) if gone else case.events
    return replace(case, events=events, seconds=seconds[keep], gaps=(*case.gaps, *gaps)) if gaps else case


def _trouble(case: Case, own: Sequence[int]) -> tuple[float, float]:
    """The time from the first call that ran out to the first complaint, else that of all lines."""
    bad = [i for i in own if case.events[i].is_complaint]
    if not bad:
        return float(case.seconds[own].min()) - _BEFORE, float(case.seconds[own].max())
    ran = [
        float(case.seconds[i]) - (e.ran_ms or 0) / 1e3
        for i in bad
        if isinstance(e := case.events[i], CollectiveTimeout)
    ]
    alarm = float(case.seconds[bad].min())
    return min([alarm, *ran]) - _BEFORE, alarm + NEAR
