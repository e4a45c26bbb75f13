"""Sorts dumps by run, so that dumps of another job or an earlier attempt are not compared call by call.

The default groups of one run have the same members, the recorded times overlap, and calls of one sequence number were issued at one
time on all ranks but a straggler. Example: dumps 0-7 recorded ALLREDUCE #18 at 10:00 and dump 8 recorded it yesterday: dump 8 is of
another run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap, Source
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED, EARLIEST_NS, Batch, Calls
from nccldoctor.words.lists import first_of

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

    def absorb(self, other: Recorded) -> None:
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
        if len(homes) > 1:
            homes.sort(key=lambda run: min(_differences(run.calls, one.calls), default=np.inf))
        if homes:
            homes[0].absorb(one)
        else:
            runs.append(one)
    return runs


def _each(batch: Batch, sources: Mapping[int, Source]) -> Iterator[Recorded]:
    groups = [uid for uid, _ in batch.vocabulary.groups]
    calls, ops = batch.calls, batch.vocabulary.ops
    is_default = [uid == "0" or desc == "default_pg" for uid, desc in batch.vocabulary.groups]
    compared = _compared(batch)
    for dump, rows in calls.by_dump():
        stamps = calls.created_ns[rows]
        made = stamps[stamps > EARLIEST_NS] / 1e9
        if not len(made):
            continue
        head = batch.dumps[dump]
        size = next((len(c.ranks) for c in head.config if c.desc == "default_pg" and c.ranks), None)
        one = Recorded([dump], size, float(made.min()), float(made.max()))
        own = slice(*np.searchsorted(compared, (rows.start, rows.stop)))
        shown = compared[own]
        columns = (calls.group[shown], calls.seq[shown], calls.op[shown], calls.created_ns[shown] / 1e9)
        for code, seq, op, at in zip(*(column.tolist() for column in columns), strict=True):
            one.calls.setdefault((groups[code], seq, ops[op]), at)
            if is_default[code]:
                one.low, one.high = min(one.low, seq), max(one.high, seq)
        rank = sources[head.source].rank
        if rank is not None:
            one.named[rank] = one.calls
        yield one


def _compared(batch: Batch) -> npt.NDArray[np.int64]:
    """The rows that are compared: the 64 newest collectives of each dump, without those whose group has no name.

    A bare list is left out: its numbers count in each process for itself.
    """
    calls = batch.calls
    rows = np.flatnonzero(~calls.is_p2p & (calls.seq >= 0) & (calls.created_ns > EARLIEST_NS))
    behind = np.bincount(calls.dump[rows], minlength=len(batch.dumps)).cumsum()[calls.dump[rows]] - np.arange(len(rows))
    is_list = np.array([head.form == "list" for head in batch.dumps] or [False])
    compared: npt.NDArray[np.int64] = rows[(behind <= 64) & (calls.group[rows] >= 0) & ~is_list[calls.dump[rows]]]
    return compared


def _can_be_of_run(run: Recorded, one: Recorded) -> bool:
    """True when nothing shows that a dump is of another run."""
    if run.size is not None and one.size is not None and run.size != one.size:
        return False
    for rank, calls in one.named.items():
        again = _differences(run.named.get(rank, {}), calls)
        if len(again) > 1 and min(again) > TWICE:
            return False
    shared = _differences(run.calls, one.calls)
    if len(shared) > 1:
        return min(shared) <= APART
    if one.first > run.last + APART or one.last < run.first - APART:
        return False
    return one.high < 0 or run.high < 0 or (one.low - run.high <= FAR and run.low - one.high <= FAR)


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


def without_copied_dumps(read: Ingested) -> Ingested:
    """Each dump once; the one of a bundle is kept, because its manifest names the rank.

    A bundle beside the files it was made of holds each dump again: ``logs/bundle.tar.zst`` and ``logs/capture/``.
    """
    sources = {one.source.id: one.source for one in read.parsed}
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for number, dump in enumerate(read.batch.dumps):
        if dump.entries:
            name = dump.path.rpartition("/")[2]
            alike[name, sources[dump.source].size, dump.entries, dump.version].append(number)
    doubtful = [numbers for numbers in alike.values() if len(numbers) > 1]
    if not doubtful:
        return read
    rows = dict(read.batch.calls.by_dump())
    originals = dict(pair for numbers in doubtful for pair in _copies(numbers, read, rows, sources))
    paths = [dump.path for dump in read.batch.dumps]
    gaps = [
        Gap(f"{paths[i]}: a copy", f"its calls are those of {paths[kept]}", Ranks()) for i, kept in originals.items()
    ]
    return Ingested(read.parsed, without_dumps(read.batch, originals), (*read.gaps, *gaps))


def without_other_moments(read: Ingested) -> Ingested:
    """One dump of each process: the later one, unless a call of the earlier one never ended.

    Example: rank 3 waited in #92 at a look, lost its peer, and called #93 in its clean-up. The earlier dump shows the stall, since another
    rank never made #92: the recorder of gloo lets go of a call that failed as of one that ended.
    """
    calls, dumps = read.batch.calls, read.batch.dumps
    ranks = {one.source.id: one.source.rank for one in read.parsed}
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for number, dump in enumerate(dumps):
        if dump.entries:
            alike[dump.path.rpartition("/")[2], ranks[dump.source], dump.version].append(number)
    doubtful = [numbers for numbers in alike.values() if len(numbers) > 1]
    if not doubtful:
        return read
    rows, made = dict(calls.by_dump()), calls.created_ns
    ordered = (pairwise(sorted(numbers, key=lambda i: int(made[rows[i]].max()))) for numbers in doubtful)
    moments = {
        earlier: later
        for earlier, later in chain.from_iterable(ordered)
        if dumps[earlier].config == dumps[later].config
        and np.intersect1d(made[rows[earlier]], made[rows[later]]).max(initial=0) > EARLIEST_NS
    }
    is_open = ~calls.retired & (calls.state != COMPLETED) & (calls.completed_ns <= 0) & ~calls.is_p2p & (calls.seq >= 0)
    reached: dict[int, int] = {}
    for number, own in rows.items():
        for group in np.unique(calls.group[own]).tolist() if number not in moments else ():
            newest = int(calls.seq[own][calls.group[own] == group].max())
            reached[group] = min(newest, reached.get(group, newest))
    left = set()
    for earlier, later in moments.items():
        open_rows = np.flatnonzero(is_open[rows[earlier]]) + rows[earlier].start
        never = any(calls.seq[row] > reached.get(int(calls.group[row]), calls.seq[row]) for row in open_rows)
        still = np.isin(made[open_rows], made[rows[later]][is_open[rows[later]]]).any()
        left.add(later if never or still else earlier)
    went_on = any(a in left and calls.seq[rows[a]].max() < calls.seq[rows[b]].max() for a, b in moments.items())
    what = first_of(sorted(dumps[i].path for i in left)) if left else ""
    gap = Gap(f"{what}: other moments", "we used the other dump of each process", went_on=bool(went_on))
    return Ingested(read.parsed, without_dumps(read.batch, left), (*read.gaps, *([gap] if left else [])))


def _copies(
    numbers: list[int], read: Ingested, rows: Mapping[int, slice], sources: Mapping[int, Source]
) -> Iterator[tuple[int, int]]:
    """Each copy among dumps that look alike, with the dump that is kept instead."""
    dumps, calls = read.batch.dumps, read.batch.calls
    kept: list[int] = []
    for number in sorted(numbers, key=lambda i: (sources[dumps[i].source].collected is None, i)):
        same = (k for k in kept if _are_same(calls, rows[number], rows[k]))
        original = next(same, None)
        if original is None:
            kept.append(number)
        else:
            yield number, original


def _are_same(calls: Calls, one: slice, other: slice) -> bool:
    """True where two dumps hold the same calls, made at the same nanosecond and in the same state."""
    return bool(calls.created_ns[one].any()) and all(
        np.array_equal(column[one], column[other])
        for column in (calls.created_ns, calls.completed_ns, calls.state, calls.group, calls.op, calls.seq)
    )
