"""Finds what is wrong with files: with the calls of a dump, and with lines.

A dump may be damaged, and its calls may be of no group, out of order, or missing. Lines may be out of order. Ranks may owe capture the
newest look: their files were read before they had answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.events import CaptureNotice, Event, ProcessState, Stack
from nccldoctor.model import Gap, Source
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED, EARLIEST_NS, UNSET, Batch, Calls
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.times import instant

ADDED_MEANWHILE = 2
"""Calls by which the counters of a group may go further than its calls."""


def dump_gaps(batch: Batch, dump_rank: Sequence[int | None], call_group: npt.NDArray[np.int32]) -> Iterator[Gap]:
    """What is missing of each dump, or odd about it; ``call_group`` is below 0 where a call names no group."""
    calls = batch.calls
    ending_early, behind = _dumps_without_newest(batch), _dumps_behind_peers(batch, call_group)
    incomplete, no_number = _dumps_with_holes(batch), has_no_number(calls)
    is_known = np.array([rank is not None for rank in dump_rank] or [False])[calls.dump]
    is_early = (calls.created_ns > 0) & (calls.created_ns < EARLIEST_NS)

    def marked(mask: npt.NDArray[np.bool_]) -> frozenset[int]:
        return frozenset(np.unique(calls.dump[mask]).tolist())

    odd = {
        "calls of which it does not say the process group": marked(
            (call_group < 0) & ~calls.is_p2p & ~no_number & is_known
        ),
        "sequence numbers of one group go back, repeat, skip or are negative, which no release writes": _dumps_out_of_order(
            batch
        ),
        "its times are from before 2014: they are in another unit, or of a wrong clock": marked(is_early),
        "calls without a sequence number": marked(no_number),
    }
    for index, (dump, rank) in enumerate(zip(batch.dumps, dump_rank, strict=True)):
        ranks = Ranks([rank] if rank is not None else [])
        yield from (Gap(dump.path, why, ranks, dump.source, odd=True) for why, dumps in odd.items() if index in dumps)
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

    Example: rank 3 ends at ALLREDUCE #40, and rank 2 of the same group completed #60. One call is enough where a peer went on after it: an
    abort ends the last one alone.
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
    issued = dict(sorted((group, number) for (_, group), number in last.items()))  # the highest of each group stays
    ends = ((dump, n, completed.get(group, n), issued[group]) for (dump, group), n in last.items())
    return frozenset(dump for dump, n, ended, begun in ends if ended > n + ADDED_MEANWHILE or n < ended < begun)


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
    Gloo counts sends and receives (torch 2.13), and records none.
    """
    calls, found = batch.calls, set[int]()
    for dump, rows in calls.by_dump():
        if batch.dumps[dump].hides_transfers:
            continue
        enqueued = {status.pg_id: status.enqueued for status in batch.dumps[dump].status}
        newest = np.maximum(calls.seq[rows], calls.p2p_seq[rows])
        for group in enqueued.keys() & set(calls.pg_id[rows].tolist()):
            if enqueued[group] > int(newest[calls.pg_id[rows] == group].max()) + ADDED_MEANWHILE:
                found.add(dump)
    return frozenset(found)


def _dumps_out_of_order(batch: Batch) -> frozenset[int]:
    """The dumps in which a group's numbers go back, repeat, run ahead of its operations, or are negative.

    A recorder writes entries in the order of their calls. A group counts each operation (``op_id``) and moves its number by at most one
    for it; those of a batch share one. Made anew under its old name it counts on from 0 or 1.
    """
    calls, found = batch.calls, set[int]()
    is_closing = np.array([op.lower().endswith("coalesced") for op in batch.vocabulary.ops] or [False])
    for rows in calls.by_dumps():
        is_p2p, dump = calls.is_p2p[rows], calls.dump[rows]
        numbers = np.where(is_p2p, calls.p2p_seq[rows], calls.seq[rows])
        order, is_same = _next_to_alike(is_p2p, calls.pg_id[rows], calls.group[rows], dump)
        before, after, following = numbers[order][:-1], numbers[order][1:], np.append(numbers[order][2:], UNSET)
        is_same &= (before >= 0) & (after >= 0)
        ops = np.diff(calls.op_id[rows][order])  # 0 where none is recorded
        shares = is_p2p | np.isin(dump, dump[is_closing[calls.op[rows]]])
        odd = (after < before) & ((after > 1) | ((calls.pg_id[rows][order][1:] >= 0) & (following != after + 1)))
        odd |= (ops > 0) & ((after - before > ops) | ((after == before) & ~shares[order][1:]))
        found.update(dump[np.append(order[1:][is_same & odd], np.flatnonzero(numbers < -1))].tolist())
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


TOLERATED = 0.01
"""Seconds that threads of a process may cross each other."""

WHY = "the times of its lines go back: they are not in the order in which they were written"


def line_gaps(events: Iterable[Event], sources: Iterable[Source]) -> Iterator[Gap]:
    """A gap for each text in which one rank's lines of one kind go back in time.

    One logger writes lines of a kind in their order. Lines of several kinds may cross, since a buffered stream arrives late. Only
    times with a fraction of a second count: others are cut.
    """
    before: dict[tuple[int, int, type[Event]], Event] = {}
    unordered: dict[int, set[int]] = {}
    for event in events:
        if event.rank is None or event.time is None or event.place.line is None or not event.time.microsecond:
            continue
        key = (event.place.source, event.rank, type(event))
        if _is_earlier(event, before.get(key)):
            unordered.setdefault(event.place.source, set()).add(event.rank)
        before[key] = event
    for source in sources:
        if source.id in unordered:
            yield Gap(source.path, WHY, Ranks(unordered[source.id]), source.id, odd=True)


def _is_earlier(event: Event, than: Event | None) -> bool:
    before, after = than.time if than is not None else None, event.time
    if before is None or after is None or (before.tzinfo is None) != (after.tzinfo is None):
        return False
    return TOLERATED < (before - after).total_seconds() < 12 * 3600  # beyond, a clock without a date passed midnight


class OwedLook(Struct, frozen=True):
    """The stacks that ``ranks`` owe to a look. ``asker`` asked for it at ``asked``; ranks that run answer until ``due``."""

    asker: int
    asked: datetime
    due: datetime
    ranks: Ranks


def owed_look(events: Sequence[Event], world: Ranks) -> OwedLook | None:
    """The newest look, where some ranks have not answered it; None without one, or after the end of the job.

    A rank answers by its stack, or by a state that says why there is none: a signal stopped it.
    """
    asked = [e for e in events if isinstance(e, CaptureNotice) and e.look is not None and e.time is not None]
    newest = max((e.look or "" for e in asked), default="")
    first = next((e for e in asked if e.look == newest), None)
    if first is None or first.time is None or first.rank is None or any(e.is_end_of_process for e in events):
        return None
    answered = {e.rank for e in events if isinstance(e, Stack) and newest in e.place.path.split("/")}
    answered |= {e.rank for e in events if isinstance(e, ProcessState) and e.state in ("stopped", "gone", "zombie")}
    owing = world - Ranks(rank for rank in answered if rank is not None)
    return (
        OwedLook(first.rank, first.time, first.time + timedelta(seconds=first.within_s or 0), owing) if owing else None
    )


def owed_look_gaps(events: Sequence[Event], world: Iterable[int]) -> Iterator[Gap]:
    """A gap that names the ranks, who asked them, and when all have answered."""
    owed = owed_look(events, Ranks(world))
    if owed is not None:
        why = (
            f"{ranks_phrase(owed.ranks, 4)} had not written stacks yet when the files were read. "
            f"Rank {owed.asker} asked at {instant(owed.asked)}; answers are due by {instant(owed.due)}"
        )
        yield Gap("newest look", why, owed.ranks)
