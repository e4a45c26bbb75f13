"""Finds the calls that each rank really waits in: of its unfinished ones, the first that it issued.

Example: rank 4 has ALLREDUCE #18 of tp and ALLREDUCE #7 of dp unfinished, and issued #18 first. It waits in #18; #7 only queues
behind it. Where the order is not recorded, the call that fewest ranks are stuck in counts as the first.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from nccldoctor.align.liveness import Liveness
from nccldoctor.align.p2p import Transfer
from nccldoctor.align.progress.from_dumps import UNORDERED
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.events import CallTimeout
from nccldoctor.identify.case import Case

SAME_TIME = 2.0
"""Seconds within which two lines of one rank do not tell which call was issued first."""

Key = tuple[str, int, int, int]
"""Names a stuck call: ``("collective", group, seq, 0)`` or ``("p2p", group, sender, receiver)``."""

_Pending = tuple[float, bool, Key]
"""An unfinished call of one rank: its place in the rank's order, whether its kernel is known to run, its key."""


def first_pending_calls(case: Case, progress: ProgressTable, liveness: Liveness) -> dict[int, list[Key]]:
    """The calls that each rank waits in."""
    pending: dict[int, list[_Pending]] = defaultdict(list)
    for own in progress.by_group_rank.values():
        if own.pending is not None:
            place, told = float(own.position), own.event
            if own.position == UNORDERED and isinstance(told, CallTimeout):
                place += 0.0 if math.isnan(issued := liveness.issued(told)) else issued
            pending[own.rank].append((place, own.started, ("collective", own.group, own.pending, 0)))
    for rank, transfers in progress.transfers.items():
        for transfer in transfers:
            for key in pair_keys(transfer):  # none where the peer is not known: then the rank gets no entry
                pending[rank].append((float(transfer.position), transfer.started, key))
    waits_in: dict[int, list[Key]] = {}
    rarity = _rarity(case, pending)
    for rank, calls in pending.items():
        calls.sort()
        first = calls[0][0]
        if first >= UNORDERED:  # known from lines, which give whole seconds only
            calls = _rarest(case, [c for c in calls if c[0] - first <= SAME_TIME], rarity) or calls
        elif first < 0:  # dropped by the ring
            calls = _rarest(case, [c for c in calls if c[0] < 0], rarity) + [c for c in calls if c[1]]
        started = [key for _, is_started, key in calls if is_started]
        earliest = [key for place, _, key in calls if place == calls[0][0]]
        waits_in[rank] = started if started and rank in progress.timed_ranks else earliest
    return waits_in


def _rarity(case: Case, pending: Mapping[int, Sequence[_Pending]]) -> dict[Key, int]:
    """How many ranks wait in calls of one role up to each call that some rank may be missing from.

    A stall in one tensor-parallel group holds up the whole job, and yet the other tensor-parallel groups do not wait, or wait
    further on: few ranks wait in calls like it. What merely queues behind it waits in every group of its role.
    """
    waiting: dict[tuple[str, int], list[int]] = defaultdict(list)
    for calls in pending.values():
        for role, seq in {(_role_of(case, key), key[2]) for _, _, key in calls}:
            waiting[role].append(seq)
    for numbers in waiting.values():
        numbers.sort()
    idle = case.world - pending
    rarity: dict[Key, int] = {}
    for key in {key for calls in pending.values() for _, _, key in calls}:
        group = case.groups[key[1]]
        members = case.world if group.learned == "log" else group.members
        if _is_of_world(case, key) or idle & members:
            rarity[key] = bisect_right(waiting[_role_of(case, key)], key[2])
    return rarity


def _is_of_world(case: Case, key: Key) -> bool:
    return case.groups[key[1]].desc == "default_pg"


def _role_of(case: Case, key: Key) -> tuple[str, int]:
    """What a call's group is for: groups of one description and size do the same at the same time."""
    group = case.groups[key[1]]
    if group.learned == "unnamed":
        return f"#{key[2]}", 1
    return group.desc, 0 if group.learned == "log" else len(group.members)


def _rarest(case: Case, calls: list[_Pending], rarity: Mapping[Key, int]) -> list[_Pending]:
    """Of calls whose order is not known, those that fewest ranks are stuck in.

    Among equals a call of the whole job comes first, since the others queue behind it.
    """
    fewest = min((rarity[key] for _, _, key in calls if key in rarity), default=None)
    rarest = [c for c in calls if rarity.get(c[2]) == fewest]
    return [c for c in rarest if _is_of_world(case, c[2])] or rarest


def pair_keys(transfer: Transfer) -> list[Key]:
    """One key for each (sender, receiver) of a transfer."""
    sends: list[Key] = [("p2p", transfer.group, transfer.rank, peer) for peer in transfer.sends]
    return sends + [("p2p", transfer.group, peer, transfer.rank) for peer in transfer.receives]
