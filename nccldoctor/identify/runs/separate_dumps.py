"""Sorts dumps by run, so that dumps of another job or an earlier attempt are not compared call by call.

The default groups of one run have the same members, the recorded times overlap, and calls of one sequence number were issued at one
time on all ranks but a straggler. Example: dumps 0-7 recorded ALLREDUCE #18 at 10:00 and dump 8 recorded it yesterday: dump 8 is of
another run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.model import Source
from nccldoctor.model.recorded_calls import Batch, DumpHead, Interner

APART = 300.0
"""Seconds by which all shared calls of two dumps, or their whole recorded times, must differ; no clock is that wrong."""

TWICE = 10.0
"""The same for two dumps named for the same rank: in one run these would be local ranks of two hosts."""

FAR = 256
"""Calls of the default group between two dumps of the same time: in one run no rank gets that far ahead."""

Call = tuple[str, int, str]
"""A call as all members know it: name of the group, number, operation."""


class Recorded(Struct):
    """What the dumps of a run recorded.

    ``dumps`` are their indices and ``size`` is the world size. ``first`` and ``last`` are the times of their calls in epoch
    seconds, ``low`` and ``high`` the sequence numbers of the default group. ``calls`` maps each call to its time; ``named`` does
    so for each rank that a file is named for.
    """

    dumps: list[int]
    size: int | None = None
    first: float = np.inf
    last: float = -np.inf
    low: int = 1 << 62
    high: int = -1
    calls: dict[Call, float] = {}
    named: dict[int, dict[Call, float]] = {}

    def merge(self, other: Recorded) -> None:
        """Add a dump of the same run."""
        self.dumps += other.dumps
        self.size = self.size if self.size is not None else other.size
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        for call, at in other.calls.items():
            self.calls.setdefault(call, at)
        for rank, calls in other.named.items():
            self.named.setdefault(rank, calls)


def dump_runs(batch: Batch, sources: Mapping[int, Source]) -> list[Recorded]:
    """The dumps by run; those without any recorded time are left out.

    Ranks with several dumps, which show how many runs there are, come first; each other dump goes to the run with the nearest times.
    """
    runs: list[Recorded] = []
    every = list(_each(batch, sources))
    named = Counter(rank for one in every for rank in one.named)
    for one in sorted(every, key=lambda one: (-max(map(named.__getitem__, one.named), default=0), -one.last)):
        homes = [run for run in runs if _can_be_of_run(run, one)]
        if not homes:
            runs.append(one)
        else:
            min(homes, key=lambda run: min(_differences(run.calls, one.calls), default=np.inf)).merge(one)
    return runs


def _each(batch: Batch, sources: Mapping[int, Source]) -> Iterator[Recorded]:
    groups = [uid for uid, _ in batch.vocabulary.groups]
    calls, ops = batch.calls, batch.vocabulary.ops
    is_default, compared = _are_default(batch), _compared(batch)
    for dump, rows in calls.by_dump():
        stamps = calls.created_ns[rows]
        if not (stamps > 0).any():
            continue
        head = batch.dumps[dump]
        made = stamps[stamps > 0] / 1e9
        one = Recorded([dump], _size(head), float(made.min()), float(made.max()))
        own = slice(*np.searchsorted(compared, (rows.start, rows.stop)))
        for row in compared[own].tolist():
            code, seq = int(calls.group[row]), int(calls.seq[row])
            one.calls.setdefault((groups[code], seq, ops[calls.op[row]]), calls.created_ns[row] / 1e9)
            if is_default[code]:
                one.low, one.high = min(one.low, seq), max(one.high, seq)
        rank = sources[head.source].rank
        if rank is not None:
            one.named[rank] = one.calls
        yield one


def are_of_one_run(batch: Batch, sources: Mapping[int, Source]) -> bool:
    """True when :func:`dump_runs` finds one run, told from the columns of all dumps at once.

    False where two dumps are named for one rank, which only a look at each dump decides.
    """
    told = _told_by_each(batch)
    heads = [batch.dumps[dump] for dump in told.dumps.tolist()]
    ranks = [rank for head in heads if (rank := sources[head.source].rank) is not None]
    if len({_size(head) for head in heads} - {None}) > 1 or len(set(ranks)) < len(ranks):
        return False
    if len(heads) < 2:
        return True
    near = told.nearest[1:] <= APART
    in_time = (told.first[1:] <= np.maximum.accumulate(told.last)[:-1] + APART) & (
        told.last[1:] >= np.minimum.accumulate(told.first)[:-1] - APART
    )
    low, high = np.minimum.accumulate(told.low)[:-1], np.maximum.accumulate(told.high)[:-1]
    in_step = (told.low[1:] - high <= FAR) & (low - told.high[1:] <= FAR) | (told.high[1:] < 0) | (high < 0)
    return bool(np.where(told.shared[1:] > 1, near, in_time & in_step).all())


class _Told(Struct, frozen=True):
    """What is compared of each dump, those with the newest calls first, as if all before it were one run.

    ``shared`` counts its calls that a dump before it recorded too, and ``nearest`` is the least difference of their times; the
    others as in :class:`Recorded`.
    """

    dumps: npt.NDArray[np.int64]
    first: npt.NDArray[np.float64]
    last: npt.NDArray[np.float64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    shared: npt.NDArray[np.int64]
    nearest: npt.NDArray[np.float64]


def _told_by_each(batch: Batch) -> _Told:
    calls, count = batch.calls, len(batch.dumps)
    stamped = np.flatnonzero(calls.created_ns > 0)
    made = calls.created_ns[stamped] / 1e9
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, calls.dump[stamped], made)
    np.maximum.at(last, calls.dump[stamped], made)
    dumps = np.argsort(-last, kind="stable")[: int(np.isfinite(last).sum())]
    place = np.zeros(count, dtype=np.int64)
    place[dumps] = np.arange(len(dumps))

    rows = _compared(batch)
    rows = rows[np.argsort(place[calls.dump[rows]], kind="stable")]
    counting = rows[np.array([*_are_default(batch), False])[calls.group[rows]]]
    low, high = np.full(count, Recorded([]).low), np.full(count, Recorded([]).high)
    np.minimum.at(low, calls.dump[counting], calls.seq[counting])
    np.maximum.at(high, calls.dump[counting], calls.seq[counting])

    again, before = _recorded_before(batch, rows)
    shared, nearest = np.bincount(calls.dump[again], minlength=count), np.full(count, np.inf)
    apart = np.abs(calls.created_ns[again] / 1e9 - calls.created_ns[before] / 1e9)
    np.minimum.at(nearest, calls.dump[again], apart)
    return _Told(dumps, first[dumps], last[dumps], low[dumps], high[dumps], shared[dumps], nearest[dumps])


def _are_default(batch: Batch) -> list[bool]:
    """For each group of the vocabulary whether it is a default group."""
    return [uid == "0" or desc == "default_pg" for uid, desc in batch.vocabulary.groups]


def _compared(batch: Batch) -> npt.NDArray[np.int64]:
    """The rows that are compared: the 64 newest collectives of each dump, without those whose group has no name.

    A bare list is left out: its numbers count in each process for itself.
    """
    calls = batch.calls
    rows = np.flatnonzero(~calls.is_p2p & (calls.seq >= 0) & (calls.created_ns > 0))
    behind = np.bincount(calls.dump[rows], minlength=len(batch.dumps)).cumsum()[calls.dump[rows]] - np.arange(len(rows))
    is_list = np.array([head.form == "list" for head in batch.dumps] or [False])
    compared: npt.NDArray[np.int64] = rows[(behind <= 64) & (calls.group[rows] >= 0) & ~is_list[calls.dump[rows]]]
    return compared


def _recorded_before(batch: Batch, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows whose call stands in an earlier dump of ``rows`` too, and the first row of that call.

    Of a call that one dump recorded twice only the first row counts.
    """
    calls, ops = batch.calls, batch.vocabulary.ops
    names = Interner(uid for uid, _ in batch.vocabulary.groups)
    name = np.array([names.code(uid) for uid, _ in batch.vocabulary.groups] or [0])
    kind = name[calls.group[rows]] * (len(ops) + 1) + calls.op[rows]
    order = np.lexsort((kind, calls.seq[rows]))
    rows, kind = rows[order], kind[order]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (kind[1:] != kind[:-1]) | (calls.seq[rows[1:]] != calls.seq[rows[:-1]])
    starts = np.flatnonzero(is_first)
    before = np.repeat(rows[starts], np.diff(starts, append=len(rows)))
    repeats = np.zeros(len(rows), dtype=bool)
    repeats[1:] = ~is_first[1:] & (calls.dump[rows[1:]] == calls.dump[rows[:-1]])
    again = ~repeats & (calls.dump[rows] != calls.dump[before])
    return rows[again], before[again]


def _size(head: DumpHead) -> int | None:
    """The world size of the job of a dump."""
    return next((len(c.ranks) for c in head.config if c.desc == "default_pg" and c.ranks), None)


def _can_be_of_run(run: Recorded, one: Recorded) -> bool:
    """True when nothing shows that a dump is of another run."""
    if run.size is not None and one.size is not None and run.size != one.size:
        return False
    for rank, calls in one.named.items():
        if rank in run.named and _is_apart(run.named[rank], calls, TWICE):
            return False
    shared = _differences(run.calls, one.calls)
    if len(shared) > 1:
        return min(shared) <= APART
    if one.first > run.last + APART or one.last < run.first - APART:
        return False
    return one.high < 0 or run.high < 0 or (one.low - run.high <= FAR and run.low - one.high <= FAR)


def _is_apart(own: Mapping[Call, float], theirs: Mapping[Call, float], least: float) -> bool:
    """True when two dumps issued all calls that both recorded more than ``least`` seconds apart."""
    shared = _differences(own, theirs)
    return len(shared) > 1 and min(shared) > least


def _differences(own: Mapping[Call, float], theirs: Mapping[Call, float]) -> list[float]:
    """Seconds between the times of each call that both hold."""
    return [abs(own[call] - at) for call, at in theirs.items() if call in own]


def main_run(runs: Sequence[Recorded]) -> Recorded:
    """The run to diagnose: the newest, or the one with most dumps.

    The latter where several runs overlap in time, or the newest left less than a quarter as many dumps.
    """
    newest = max(runs, key=lambda run: run.last)
    most = max(runs, key=lambda run: len(run.dumps))
    later = newest.first > max(run.last for run in runs if run is not newest)
    return newest if later and 4 * len(newest.dumps) >= len(most.dumps) else most


def without_dumps(batch: Batch, left: Iterable[int]) -> Batch:
    """The batch without some of its dumps."""
    gone = set(left)
    kept = [i for i in range(len(batch.dumps)) if i not in gone]
    number = np.full(len(batch.dumps) + 1, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    calls = batch.calls.take(number[batch.calls.dump] >= 0)
    calls.dump[:] = number[calls.dump]
    return Batch(tuple(batch.dumps[i] for i in kept), calls, batch.vocabulary)
