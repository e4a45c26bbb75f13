"""Finds the members of groups whose members are only known as callers, and how many ranks the job has.

Example: dumps show tp groups with callers 0-3, 4-7 and 8,9,11; rank 10 left nothing. Sister groups have four members of stride 1, so
that rank 10 belongs to the third.

A dump of PyTorch 2.2 holds no members, and its group numbers count in each process for itself. Parallel layouts are grids: tensor ranks
next to each other, then data, then pipeline (Megatron-LM, ``parallel_state.py``). So the axes of that grid are looked for. Example: 8
ranks, group 1 gathers over 2 members and group 2 over 4. Either group 1 is (0,1) and group 2 is (0,2,4,6), or group 2 is (0-3) and group
1 is (0,4); the grid whose partners recorded the same calls wins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, permutations
from math import prod

import numpy as np
from msgspec import Struct

from nccldoctor.events import (
    CollectiveTimeout,
    CommInit,
    DumpSignal,
    Event,
    Events,
    FrAnalysis,
    InspectorRecord,
    NcclError,
    Note,
    RasStatus,
    Setting,
    StoreError,
    WorkStatus,
)
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED, Batch
from nccldoctor.parsers.event_details import barrier_counts, call_sizes, expected_clients, group_size
from nccldoctor.parsers.ras.blocks import MOST_GPUS


def fill_silent_members(present: Mapping[tuple[str, str], Ranks], silent: Ranks) -> dict[tuple[str, str], Ranks]:
    """The members of groups by (name, description), with the silent ranks put where sister groups have a hole.

    Groups of one description (all tensor-parallel groups) have one size and share no rank: a group that is too small takes the
    silent ranks that fit the stride of the complete ones.
    """
    members = dict(present)
    families: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in present:
        families[key[1]].append(key)
    for desc, keys in families.items():
        if not silent or desc in ("", "undefined"):
            continue
        size = max(len(present[k]) for k in keys)
        complete = [present[k] for k in keys if len(present[k]) == size]
        for key in keys:
            if len(present[key]) < size:
                members[key] = present[key] | (_fitting_ranks(present[key], silent, size, complete) or Ranks())
    return members


def callers_by_group(batch: Batch, dump_rank: Sequence[int | None]) -> dict[tuple[str, str], Ranks]:
    """The ranks that recorded calls in each described group but the default one, by (name, description)."""
    callers: dict[tuple[str, str], set[int]] = defaultdict(set)
    for dump, rows in batch.calls.by_dump():
        rank = dump_rank[dump]
        if rank is None or batch.dumps[dump].form == "list":
            continue
        for code in np.unique(batch.calls.group[rows]).tolist():
            name = batch.vocabulary.groups[code] if code >= 0 else ("", "")
            if name[1] not in ("", "undefined", "default_pg"):
                callers[name].add(rank)
    return {name: Ranks(ranks) for name, ranks in callers.items()}


def world_size_from_groups(present: Mapping[tuple[str, str], Ranks]) -> int | None:
    """The world size that makes all families of groups complete, where the last ranks left nothing.

    None where no member is missing, or no size fits. Callers 0-3, 4-7 and 8,9 of three tp groups make 12 ranks.
    """
    seen = Ranks(r for ranks in present.values() for r in ranks)
    above = max(seen, default=-1) + 1
    for size in range(above + 1, above + max(map(len, present.values()), default=0) + 1):
        families: dict[str, list[Ranks]] = defaultdict(list)
        for (_, desc), ranks in fill_silent_members(present, Ranks(range(size)) - seen).items():
            families[desc].append(ranks)
        is_even = all(len({len(ranks) for ranks in groups}) == 1 for groups in families.values())
        if is_even and any(frozenset(range(size)) <= frozenset().union(*groups) for groups in families.values()):
            return size
    return None


def _fitting_ranks(known: Ranks, silent: Ranks, size: int, complete: Sequence[Ranks]) -> Ranks | None:
    """The silent ranks that give ``known`` the strides of the complete groups; None where none or several sets do."""
    strides = {tuple(b - a for a, b in pairwise(g)) for g in complete}
    anchor = next(iter(known))
    fitting: set[Ranks] = set()
    for stride in strides:
        for at in range(size):
            start = anchor - sum(stride[:at])
            group = Ranks(start + sum(stride[:i]) for i in range(size))
            if (
                frozenset(known) <= group
                and frozenset(group - known) <= silent
                and (_is_aligned(group) or not all(map(_is_aligned, complete)))
            ):
                fitting.add(group - known)
    return fitting.pop() if len(fitting) == 1 else None


def _is_aligned(group: Ranks) -> bool:
    """True when a group begins where a grid's groups begin, so that others can fill its gaps."""
    first, second = list(group)[:2]
    return first % ((second - first) * len(group)) < second - first


def infer_groups(
    batch: Batch, lists: Sequence[int], dump_rank: Sequence[int | None], world: Ranks
) -> Mapping[tuple[int, int], Ranks]:
    """The members of each (rank, group number) but the default group, in the likeliest grid.

    Sizes come from gathers (output over input) and from the peers of sends and receives. Axes are tried in every order; the one
    under which partners recorded the same calls wins, and ties go to the order of creation. Where no grid fits, a group holds
    its own rank alone, so that no rank is blamed on a guess.
    """
    numbers = sorted(
        {int(n) for d in lists for n in np.unique(batch.calls.pg_id[batch.calls.dump == d]).tolist() if n > 0}
    )
    ranks = [r for d in lists if (r := dump_rank[d]) is not None]
    alone = {(r, n): Ranks([r]) for r in world | ranks for n in numbers}
    total = len(world)
    sizes = {n: size for n in numbers if (size := _group_size(batch, lists, n))}
    open_ = [n for n in numbers if n not in sizes]
    if len(open_) == 1 and sizes and total % prod(sizes.values()) == 0:
        sizes[open_[0]] = total // prod(sizes.values())
    if len(numbers) == 1 and not sizes and _has_all_waiting(batch, lists, numbers[0], total):
        sizes = {numbers[0]: total}
    if set(sizes) != set(numbers) or prod(sizes.values()) != total or list(world) != list(range(total)):
        return alone
    tails = _tails(batch, lists, dump_rank, numbers)
    best, best_score = None, Fraction(-(10**9))
    for order in permutations(numbers):
        grid = _axes(order, sizes, total)
        score = _agreement(grid, tails)
        if score > best_score:
            best, best_score = grid, score
    return best if best is not None else alone


def _group_size(batch: Batch, lists: Sequence[int], number: int) -> int | None:
    """The size of a numbered group: output over input of its gathers, or one more than its highest peer."""
    calls, words = batch.calls, batch.vocabulary
    own = (calls.pg_id == number) & np.isin(calls.dump, np.array(lists))
    for row in np.flatnonzero(own)[:4000].tolist():
        name = words.ops[calls.op[row]]
        small, big = sorted((int(calls.numel_in[row]), int(calls.numel_out[row])))
        if ("all_gather" in name or "reduce_scatter" in name) and small > 0 and big % small == 0 and big > small:
            return big // small
    peers = [words.ops[c] for c in np.unique(calls.op[own]).tolist() if words.ops[c].startswith(("send", "recv"))]
    if peers:
        return max(int(n) for p in peers for n in p.replace("->", " ").replace("<-", " ").split() if n.isdigit()) + 1
    return None


def _has_all_waiting(batch: Batch, lists: Sequence[int], number: int, total: int) -> bool:
    """True when the first unfinished call of every rank is in groups of that number.

    Several groups would not all be stuck at once, so that it is one group of the whole job.
    """
    calls = batch.calls
    for dump in lists:
        pending = np.flatnonzero((calls.dump == dump) & (calls.state != COMPLETED))
        if not len(pending) or int(calls.pg_id[pending[0]]) != number:
            return False
    return len(lists) == total


def _axes(order: Sequence[int], sizes: Mapping[int, int], total: int) -> dict[tuple[int, int], Ranks]:
    """The members of each (rank, number) under one order of axes; the first number varies fastest."""
    grid: dict[tuple[int, int], Ranks] = {}
    stride = 1
    for number in order:
        size = sizes[number]
        for rank in range(total):
            base = rank - (rank // stride % size) * stride
            grid[(rank, number)] = Ranks(base + i * stride for i in range(size))
        stride *= size
    return grid


def _tails(
    batch: Batch, lists: Sequence[int], dump_rank: Sequence[int | None], numbers: Sequence[int]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Last number, last completed number and rank inside a p2p group (-1: none) of each (rank, group number)."""
    tails: dict[tuple[int, int], tuple[int, ...]] = {}
    calls = batch.calls
    for dump in lists:
        rank = dump_rank[dump]
        for number in numbers if rank is not None else ():
            rows = np.flatnonzero((calls.dump == dump) & (calls.pg_id == number))
            done = rows[calls.state[rows] == 2]
            last = int(calls.seq[rows].max()) if len(rows) else -1
            finished = int(calls.seq[done].max()) if len(done) else -1
            place = -1
            for code in np.unique(calls.op[rows]).tolist():
                word = batch.vocabulary.ops[code].split()
                if len(word) == 2 and word[0] in ("send", "recv"):
                    place = int(word[1].replace("<-", "->").split("->")[0])
            tails[(rank if rank is not None else -1, number)] = (last, finished, place)
    return tails


def _agreement(grid: Mapping[tuple[int, int], Ranks], tails: Mapping[tuple[int, int], tuple[int, ...]]) -> Fraction:
    """How well the tails of partners agree; the rank inside a p2p group must fit exactly."""
    score = Fraction(0)
    for (rank, number), members in grid.items():
        own = tails.get((rank, number))
        if own is None:
            continue
        if own[2] >= 0:
            score += 4 if list(members).index(rank) == own[2] else -4
        for other in members:
            theirs = tails.get((other, number))
            if other != rank and theirs is not None and own[:2] == theirs[:2]:
                score += Fraction(1, len(members) - 1)
    return score


GATHERS = frozenset({"ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"})
"""Operations whose output is their input times the number of members, or the other way round."""


class WorldSize(Struct, frozen=True):
    """The number of ranks of the job, None where nothing proves it, and how many it has at least."""

    exact: int | None
    at_least: int


def world_size(batch: Batch, events: Events, seen: Ranks) -> WorldSize:
    """The size of the job by all that was read; ``seen`` are the ranks that anything names.

    What counts the whole job is proof: the members of the default group, a launcher, the store. What may count a part of it (a
    communicator, ``world_size=8`` of some program, the sizes of a gather) is a lower bound; it is the number of the job where most of
    those ranks were heard and none beyond. Example: a gather makes 8 ranks out of 1, and ranks 0-6 were heard: the job has 8. Of rank 9
    alone, whose gather makes 16 in a group that no line names, it has at least 16.
    """
    recorded = [len(c.ranks) for d in batch.dumps for c in d.config if c.desc == "default_pg" and c.ranks]
    above = max(seen, default=-1) + 1
    if recorded:
        size = max(recorded)
        return WorldSize(size if above <= size else None, max(size, above))
    parts = [e.nranks for e in events.of_kind(CommInit, InspectorRecord) if e.nranks]
    parts += [size for size in _noted(events, "world-size") if size > 1]  # engines that serve print 1 for each process
    parts += _gather_sizes(events, is_whole=False)
    least = max(above, *(size for size in (0, *parts, *_least_sizes(events)) if size <= MOST_GPUS))
    whole = next((size for size in _sizes_of_the_job(events) if least <= size <= MOST_GPUS), None)
    if whole is None and least in parts and 2 * len(seen) >= least:
        whole = least
    return WorldSize(whole, whole or least)


def _sizes_of_the_job(events: Events) -> Iterator[int]:
    """Sizes that are told of the whole job, the surest first: any script may set a variable."""
    yield from filter(None, [gpus_by_ras(events.of_kind(RasStatus))])
    yield from _gather_sizes(events, is_whole=True)
    for event in events.of_kind(Note):
        if event.what == "group-options" and _is_default(event):
            yield from filter(None, [group_size(event.detail)])
    yield from (e.expected for e in events.of_kind(FrAnalysis) if e.expected and _is_default(e))
    yield from _noted(events, "job-size")
    waited = (barrier_counts(e.text) or (expected_clients(e.text), 0) for e in events.of_kind(StoreError))
    yield from sorted((size for size, _ in waited if size), reverse=True)  # 8 in ``7/8 clients joined``
    settings = [e for e in events.of_kind(Setting) if e.name == "WORLD_SIZE" and e.value.isdigit()]
    yield from (int(e.value) for e in settings[-1:])


def gpus_by_ras(events: Iterable[RasStatus]) -> int:
    """All GPUs by the summary of RAS, else by a communicator that holds those of every row; else 0.

    The table lists the communicators of all processes: one of 16 ranks, and eight of 2 on 16 GPUs.
    """
    if total := max((e.nranks or 0 for e in events if e.what == "TOTAL"), default=0):
        return total
    rows = [(e.nranks or 0, e.gpus) for e in events if e.gpus is not None]
    size = max((nranks for nranks, _ in rows), default=0)
    return size if all(gpus <= size for _, gpus in rows) else 0


def _least_sizes(events: Events) -> Iterator[int]:
    """Sizes that the job has at least: by its launcher, by its groups, and by ranks of which others tell."""
    yield from _noted(events, "least-size")
    yield from filter(None, (group_size(e.detail) for e in events.of_kind(Note) if e.what == "group-options"))
    yield from (e.from_rank + 1 for e in events.of_kind(DumpSignal) if e.from_rank is not None)


def _noted(events: Events, what: str) -> Iterator[int]:
    return (int(e.detail) for e in events.of_kind(Note) if e.what == what)


def _gather_sizes(events: Events, *, is_whole: bool) -> Iterator[int]:
    """Members by the sizes of gathers: input 100 and output 1600 make 16.

    ``is_whole`` asks for those of the default group, else for those of other groups and of groups that no line names.
    """
    of_default = {(e.rank, e.failed) for e in events.of_kind(WorkStatus) if e.failed is not None and _is_default(e)}
    for event in events.of_kind(CollectiveTimeout, NcclError):
        if isinstance(event, CollectiveTimeout):
            op, numel_in, numel_out = event.op, event.numel_in, event.numel_out
        else:
            op, numel_in, numel_out = call_sizes(event.text) or (None, None, None)
        small, big = sorted((numel_in or 0, numel_out or 0))
        if op not in GATHERS or not small or big % small or big == small:
            continue
        seq = event.seq if isinstance(event, CollectiveTimeout) else None
        is_default = _is_default(event) if event.group is not None else (event.rank, seq) in of_default
        if is_default is is_whole:
            yield big // small


def _is_default(event: Event) -> bool:
    group = event.group
    return group is not None and (group.desc == "default_pg" or (not group.desc and group.uid == "0"))
