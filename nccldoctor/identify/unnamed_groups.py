"""Infers the members of the unnamed groups in dumps of PyTorch 2.2, from the grid of a parallel layout.

Such a dump holds no members, and its group numbers count in each process for itself. Parallel layouts are grids: tensor ranks next to
each other, then data, then pipeline (Megatron-LM, ``parallel_state.py``). This module looks for the axes of that grid.

Example: 8 ranks, group 1 gathers over 2 members and group 2 over 4. Either group 1 is (0,1) and group 2 is (0,2,4,6), or group 2 is
(0-3) and group 1 is (0,4); the grid whose partners recorded the same calls wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from math import prod

import numpy as np

from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED, Batch


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
