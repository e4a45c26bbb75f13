"""Completes groups whose members are only known as callers, and finds the world size.

Example: dumps show tp groups with callers 0-3, 4-7 and 8,9,11; rank 10 left nothing. Sister groups have four members of stride 1, so
that rank 10 belongs to the third.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch


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
