"""Members of groups that only their callers tell: sister groups show where a silent rank belongs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from nccldoctor.events import CollectiveTimeout, CommInit, Event, InspectorRecord, NcclError, RasStatus
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.event_text import call_sizes

GATHERS = frozenset({"ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"})
"""Operations whose sizes tell the number of members."""


def known_world_size(batch: Batch, events: Sequence[Event], settings: Mapping[str, int]) -> int | None:
    """The world size: from the default group's members, INIT lines, the launcher's own variables, or RAS."""
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
    return _by_ratio(events)


def _by_ratio(events: Sequence[Event]) -> int | None:
    """A gather's output is its input times the members: the size of the default group, where a line about a call gives both."""
    for event in events:
        op, one, other = _sizes(event)
        default = event.group is None or event.group.desc == "default_pg" or event.group.uid == "0"
        whose = event.group is not None or event.group_rank in (None, event.rank)
        if op not in GATHERS or not default or not whose:
            continue
        small, big = sorted((one or 0, other or 0))
        if small > 0 and big % small == 0 and big > small:
            return big // small
    return None


def _sizes(event: Event) -> tuple[str | None, int | None, int | None]:
    """Operation and elements of the call that a timeout, or an error of the library, is about."""
    if isinstance(event, CollectiveTimeout):
        return event.op, event.numel_in, event.numel_out
    return (call_sizes(event.text) if isinstance(event, NcclError) else None) or (None, None, None)


def fill_silent_members(present: Mapping[tuple[str, str], Ranks], silent: Ranks) -> dict[tuple[str, str], Ranks]:
    """Members of groups that only their callers tell, with the silent ranks put where the family of groups has a hole.

    Groups of one description (all tensor-parallel groups) have one size and share no rank: a group that is short by as many
    as are silent in its family takes those that fit the others' stride.
    """
    out = dict(present)
    families: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in present:
        families[key[1]].append(key)
    for desc, keys in families.items():
        if not silent or desc in ("", "undefined"):
            continue
        size = max(len(present[k]) for k in keys)
        full = [present[k] for k in keys if len(present[k]) == size]
        for key in keys:
            lacking = size - len(present[key])
            if lacking:
                fits = _fitting(present[key], silent, size, full)
                if fits is not None:
                    out[key] = present[key] | fits
    return out


def callers_by_group(batch: Batch, dump_rank: Sequence[int | None]) -> dict[tuple[str, str], Ranks]:
    """Who recorded calls in each group that has a description, beyond the default one, by (name, description)."""
    out: dict[tuple[str, str], set[int]] = defaultdict(set)
    for dump, rows in batch.calls.by_dump():
        rank = dump_rank[dump]
        if rank is None or batch.dumps[dump].form == "list":
            continue
        for code in np.unique(batch.calls.group[rows]).tolist():
            name = batch.vocabulary.groups[code] if code >= 0 else ("", "")
            if name[1] not in ("", "undefined", "default_pg"):
                out[name].add(rank)
    return {name: Ranks(ranks) for name, ranks in out.items()}


def world_size_from_groups(present: Mapping[tuple[str, str], Ranks]) -> int | None:
    """How many ranks the job must have for its families of groups to be whole, where the last ranks left nothing; None where
    nothing is lacking, or no such number fits.
    """
    heard = Ranks(r for ranks in present.values() for r in ranks)
    above = max(heard, default=-1) + 1
    for size in range(above + 1, above + max(map(len, present.values()), default=0) + 1):
        whole = fill_silent_members(present, Ranks(range(size)) - heard)
        families: dict[str, list[Ranks]] = defaultdict(list)
        for (_, desc), ranks in whole.items():
            families[desc].append(ranks)
        even = all(len({len(ranks) for ranks in groups}) == 1 for groups in families.values())
        if even and any(
            frozenset(range(size)) <= {r for ranks in groups for r in ranks} for groups in families.values()
        ):
            return size
    return None


def _fitting(known: Ranks, silent: Ranks, size: int, full: Sequence[Ranks]) -> Ranks | None:
    """The silent ranks that give ``known`` the same strides as the complete groups; None where none or several do."""
    strides = {tuple(b - a for a, b in zip(list(g), list(g)[1:], strict=False)) for g in full}
    anchor = next(iter(known))
    found: set[Ranks] = set()
    for stride in strides:
        for at in range(size):
            start = anchor - sum(stride[:at])
            group = Ranks(start + sum(stride[:i]) for i in range(size))
            if frozenset(known) <= group and frozenset(group - known) <= silent and _aligned(group, full):
                found.add(group - known)
    return found.pop() if len(found) == 1 else None


def _aligned(group: Ranks, full: Sequence[Ranks]) -> bool:
    """Whether a group begins where groups of a grid begin, if the complete ones do: else no others could fill the gaps between them."""
    return _begins(group) or not all(map(_begins, full))


def _begins(group: Ranks) -> bool:
    first, second = list(group)[:2]
    return first % ((second - first) * len(group)) < second - first
