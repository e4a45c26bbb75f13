"""Finds what is wrong with a dump: damage, calls of no group, calls out of order, calls that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nccldoctor.model import Gap
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED, UNSET, Batch, Calls

ADDED_MEANWHILE = 2
"""Calls by which the counters of a group may go further than its calls."""


def dump_gaps(batch: Batch, dump_rank: Sequence[int | None], call_group: npt.NDArray[np.int32]) -> Iterator[Gap]:
    """What is missing of each dump, or odd about it; ``call_group`` is below 0 where a call names no group."""
    calls = batch.calls
    unordered, incomplete = _dumps_out_of_order(batch), _dumps_with_holes(batch)
    ending_early, behind = _dumps_without_newest(batch), _dumps_behind_peers(batch, call_group)
    no_number = has_no_number(calls)
    nameless = set(np.unique(calls.dump[(call_group < 0) & ~calls.is_p2p & ~no_number]).tolist())
    timeless = set(np.unique(calls.dump[(calls.created_ns > 0) & (calls.created_ns < 1_400_000_000 * 10**9)]).tolist())
    unnumbered = set(np.unique(calls.dump[no_number]).tolist())
    for index, (dump, rank) in enumerate(zip(batch.dumps, dump_rank, strict=True)):
        ranks = Ranks([rank] if rank is not None else [])
        if index in nameless and rank is not None:
            yield Gap(dump.path, "calls of which it does not say the process group", ranks, dump.source, odd=True)
        if index in unordered:
            why = "sequence numbers of one group go back or are negative, which no release writes"
            yield Gap(dump.path, why, ranks, dump.source, odd=True)
        if index in timeless:
            why = "its times are from before 2014: they are in another unit, or of a wrong clock"
            yield Gap(dump.path, why, ranks, dump.source, odd=True)
        if index in unnumbered:
            yield Gap(dump.path, "calls without a sequence number", ranks, dump.source, odd=True)
        if dump.problem:
            lost = dump.problem.startswith(("truncated", "refused", "unreadable"))
            yield Gap(dump.path, dump.problem, ranks, dump.source, lost, odd=dump.entries > 0)
            continue
        if index in ending_early:
            why = "its newest calls are missing: its counters go further"
            yield Gap(dump.path, why, ranks, dump.source, lost=True, odd=True)
        elif index in behind:
            why = "its newest calls are missing: its peers completed later ones with it"
            yield Gap(dump.path, why, ranks, dump.source, odd=True)
        if index in incomplete:
            why = "calls are missing between others: their numbers skip"
            yield Gap(dump.path, why, ranks, dump.source, lost=True, odd=True, holes=True)
        if dump.wrapped:
            why = "the ring buffer was full and dropped them"
            yield Gap(f"{dump.path}: older calls", why, ranks, dump.source)


def _dumps_behind_peers(batch: Batch, call_group: npt.NDArray[np.int32]) -> frozenset[int]:
    """The dumps that lack calls which their peers completed with them: they are older, or cut.

    Example: rank 3 ends at ALLREDUCE #40, and rank 2 of the same group completed #60.
    """
    calls, words = batch.calls, batch.vocabulary.ops
    needs_all = np.array([op_type(op) in NEEDS_ALL for op in words] or [False])
    completed: dict[int, int] = {}
    last: dict[tuple[int, int], int] = {}
    for rows in calls.by_dumps():
        counted = np.flatnonzero((call_group[rows] >= 0) & ~calls.is_p2p[rows])
        groups, numbers = call_group[rows][counted], calls.seq[rows][counted]
        ended = (calls.state[rows] == COMPLETED)[counted] & needs_all[calls.op[rows][counted]]
        for group, number in _highest(groups[ended], numbers[ended]):
            completed[group] = max(completed.get(group, number), number)
        width = int(groups.max(initial=0)) + 1
        for key, number in _highest(calls.dump[rows][counted].astype(np.int64) * width + groups, numbers):
            last[divmod(key, width)] = number
    return frozenset(d for (d, group), n in last.items() if completed.get(group, n) > n + ADDED_MEANWHILE)


def _highest(keys: npt.NDArray[Any], numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Each key with the highest number that stands beside it."""
    names, place = np.unique(keys, return_inverse=True)
    highest = np.full(len(names), np.iinfo(np.int64).min)
    np.maximum.at(highest, place, numbers)
    yield from zip(names.tolist(), highest.tolist(), strict=True)


def has_no_number(calls: Calls) -> npt.NDArray[np.bool_]:
    """The collectives whose place in their group is not recorded: such a call shows no progress."""
    found: npt.NDArray[np.bool_] = (calls.seq == UNSET) & ~calls.is_p2p
    return found


def _dumps_without_newest(batch: Batch) -> frozenset[int]:
    """The dumps whose counters go further than their calls in a group of which they hold calls.

    A ring drops the oldest calls, and a call is counted after it is recorded. A job that runs may add some while its dump is written.
    """
    calls, found = batch.calls, set[int]()
    for dump, rows in calls.by_dump():
        enqueued = {status.pg_id: status.enqueued for status in batch.dumps[dump].status}
        newest = np.maximum(calls.seq[rows], calls.p2p_seq[rows])
        for group in enqueued.keys() & set(calls.pg_id[rows].tolist()):
            if enqueued[group] > int(newest[calls.pg_id[rows] == group].max()) + ADDED_MEANWHILE:
                found.add(dump)
    return frozenset(found)


def _dumps_out_of_order(batch: Batch) -> frozenset[int]:
    """The dumps in which a group's sequence number is lower than that of an earlier entry, or negative.

    A recorder writes entries in the order of their calls, and a group counts upwards; made anew under its old name it begins at 0 or 1.
    """
    calls, found = batch.calls, set[int]()
    for rows in calls.by_dumps():
        is_p2p = calls.is_p2p[rows]
        numbers = np.where(is_p2p, calls.p2p_seq[rows], calls.seq[rows])
        order, is_same = _next_to_alike(is_p2p, calls.pg_id[rows], calls.group[rows], calls.dump[rows])
        before, after = numbers[order][:-1], numbers[order][1:]
        goes_back = order[1:][is_same & (after < before) & (after > 1)]
        found.update(calls.dump[rows][np.append(goes_back, np.flatnonzero(numbers < -1))].tolist())
    return frozenset(found)


def _next_to_alike(*columns: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Sort calls by these columns; the mask tells which equal the call before them in all of them."""
    order = np.lexsort(columns)
    return order, np.logical_and.reduce([column[order][1:] == column[order][:-1] for column in columns])


def _dumps_with_holes(batch: Batch) -> frozenset[int]:
    """The dumps that lack calls between others.

    A recorder numbers its entries without a break, and so does each group. A dump of the unfinished calls alone, which holds none that
    ended, leaves out what ended between them: there both numbers have to skip. A group's number skips where a batch of sends took
    one, so that those of its sends and receives count too.
    """
    calls, found = batch.calls, set[int]()
    for rows in calls.by_dumps():
        dump, record = calls.dump[rows], calls.record_id[rows]
        same_dump = dump[1:] == dump[:-1]
        if (record >= 0).all() and ((record[1:] == record[:-1] + 1) | ~same_dump).all():
            continue  # unbroken, as most are
        ended = (calls.state[rows] == COMPLETED) | calls.retired[rows] | (calls.completed_ns[rows] > 0)
        record_skips = np.append(False, same_dump & (record[:-1] >= 0) & (record[1:] > record[:-1] + 1))
        order, is_same = _next_to_alike(calls.pg_id[rows], calls.group[rows], dump)
        numbers = calls.seq[rows][order]
        skips = order[1:][is_same & (numbers[:-1] >= 0) & (numbers[1:] > numbers[:-1] + 1)]
        number_skips = set(dump[skips].tolist())
        unnumbered = number_skips & set(dump[record < 0].tolist())
        with_ended = set(dump[ended].tolist())
        found |= unnumbered | (set(dump[record_skips].tolist()) & (with_ended | number_skips))
    return frozenset(found)
