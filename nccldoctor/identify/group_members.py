"""Completes groups whose members are only known as callers, and finds the world size.

Example: dumps show tp groups with callers 0-3, 4-7 and 8,9,11; rank 10 left nothing. Sister groups have four members of stride 1, so
that rank 10 belongs to the third.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from nccldoctor.events import (
    CollectiveTimeout,
    CommInit,
    Event,
    InspectorRecord,
    NcclError,
    Note,
    RasStatus,
    StoreError,
)
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.event_details import barrier_counts, call_sizes, expected_clients

GATHERS = frozenset({"ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"})
"""Operations whose output is their input times the number of members, or the other way round."""


def known_world_size(batch: Batch, events: Sequence[Event], settings: Mapping[str, int]) -> int | None:
    """The world size: from the default group's members, INIT lines, variables, RAS, a gather, the store, or print-outs."""
    sizes = [len(c.ranks) for d in batch.dumps for c in d.config if c.desc == "default_pg" and c.ranks]
    if sizes:
        return max(sizes)
    comms = [e.nranks for e in events if isinstance(e, CommInit | InspectorRecord) and e.nranks]
    if comms:
        return max(comms)
    if "WORLD_SIZE" in settings:
        return settings["WORLD_SIZE"]
    counted = [e.nranks for e in events if isinstance(e, RasStatus) and e.what == "TOTAL" and e.nranks]
    if counted:
        return max(counted)
    return _size_by_gather(events) or _size_by_store(events) or _printed_size(events)


def _printed_size(events: Sequence[Event]) -> int | None:
    """The largest size that programs print: ``world_size=8``. Engines that serve also print 1 for each of their processes."""
    sizes = (int(e.detail) for e in events if isinstance(e, Note) and e.what == "world-size")
    return max((size for size in sizes if size > 1), default=None)


def _size_by_store(events: Sequence[Event]) -> int | None:
    """The number of ranks that the store of the job waited for: 8 in ``7/8 clients joined``."""
    lines = (e.text for e in events if isinstance(e, StoreError))
    counts = (barrier_counts(text) or (expected_clients(text), 0) for text in lines)
    return max((size for size, _ in counts if size), default=None)


def _size_by_gather(events: Sequence[Event]) -> int | None:
    """The size of the default group by a gather's line: input 100 and output 1600 make 16 ranks."""
    for event in events:
        op, numel_in, numel_out = _call_sizes(event)
        is_default = event.group is None or event.group.desc == "default_pg" or event.group.uid == "0"
        has_global_rank = event.group is not None or event.group_rank in (None, event.rank)
        if op not in GATHERS or not is_default or not has_global_rank:
            continue
        small, big = sorted((numel_in or 0, numel_out or 0))
        if small > 0 and big % small == 0 and big > small:
            return big // small
    return None


def _call_sizes(event: Event) -> tuple[str | None, int | None, int | None]:
    """Operation, input and output elements of the call that a timeout or an NCCL error is about."""
    if isinstance(event, CollectiveTimeout):
        return event.op, event.numel_in, event.numel_out
    return (call_sizes(event.text) if isinstance(event, NcclError) else None) or (None, None, None)


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
