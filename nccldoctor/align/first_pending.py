"""Which of its unfinished calls each rank really waits in: the first that it issued, as far as the order can be told."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from nccldoctor.align.p2p import Transfer
from nccldoctor.align.progress.group_progress import UNORDERED, GroupProgress
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.events import CallTimeout
from nccldoctor.identify.case import Case
from nccldoctor.identify.clocks import YEARLESS

SAME_TIME = 2.0
"""Seconds within which two lines of one rank do not tell which call was issued first."""

Key = tuple[str, int, int, int]
"""Names a stuck call: ``("collective", group, seq, 0)`` or ``("p2p", group, sender, receiver)``."""


def first_pending_calls(case: Case, fronts: ProgressTable) -> dict[int, list[Key]]:
    """The calls that each rank really waits in."""
    open_: dict[int, list[tuple[float, bool, Key]]] = defaultdict(list)
    for front in fronts.by_group_rank.values():
        if front.pending is not None:
            place = float(front.position) if front.position != UNORDERED else UNORDERED + _enqueued_at(case, front)
            open_[front.rank].append((place, front.started, ("collective", front.group, front.pending, 0)))
    for rank, transfers in fronts.transfers.items():
        for transfer in transfers:
            for key in pair_keys(transfer):
                open_[rank].append((float(transfer.position), transfer.started, key))
    out: dict[int, list[Key]] = {}
    rare = _rarity(case, open_)
    for rank, found in open_.items():
        found.sort()
        if found[0][0] >= UNORDERED:
            found = _of_lines(case, found, rare)
        elif found[0][0] < 0:
            found = _rarest(case, [f for f in found if f[0] < 0], rare) + [f for f in found if f[1]]
        started = [key for _, is_started, key in found if is_started]
        first = [key for place, _, key in found if place == found[0][0]]
        out[rank] = started if started and rank in fronts.timed_ranks else first
    return out


def _rarity(case: Case, open_: Mapping[int, Sequence[tuple[float, bool, Key]]]) -> dict[Key, int]:
    """How many ranks wait in calls of the same role that come no later, for calls that somebody may be missing from.

    A stall in one tensor-parallel group holds up the whole job, and yet the other tensor-parallel groups do not wait, or wait
    further on. What merely queues behind a stall of the whole job waits in every group of its role.
    """
    waiting: dict[tuple[str, int], list[int]] = defaultdict(list)
    for found in open_.values():
        for role, seq in {(_role(case, key), key[2]) for _, _, key in found}:
            waiting[role].append(seq)
    for numbers in waiting.values():
        numbers.sort()
    idle = case.world - open_
    out: dict[Key, int] = {}
    for found in open_.values():
        for _, _, key in found:
            group = case.groups[key[1]]
            members = case.world if group.learned == "log" else group.members
            if _is_world(case, key) or idle & members:
                out[key] = bisect_right(waiting[_role(case, key)], key[2])
    return out


def _is_world(case: Case, key: Key) -> bool:
    return case.groups[key[1]].desc == "default_pg"


def _role(case: Case, key: Key) -> tuple[str, int]:
    """What a call's group is for: groups of one description and size do the same at the same time."""
    group = case.groups[key[1]]
    return group.desc, 0 if group.learned == "log" else len(group.members)


def _of_lines(
    case: Case, found: list[tuple[float, bool, Key]], rare: Mapping[Key, int]
) -> list[tuple[float, bool, Key]]:
    """Which of the calls that one watchdog gave up on came first, where lines give whole seconds only: the one whose like
    fewest ranks wait in; among equals that of the whole job, since the others queue behind it.
    """
    return _rarest(case, [f for f in found if f[0] - found[0][0] <= SAME_TIME], rare) or found


def _rarest(case: Case, close: list[tuple[float, bool, Key]], rare: Mapping[Key, int]) -> list[tuple[float, bool, Key]]:
    """Of calls whose order is not known, also of those that the ring dropped: the one whose like fewest ranks wait in."""
    fewest = min((rare[key] for _, _, key in close if key in rare), default=None)
    best = [f for f in close if rare.get(f[2]) == fewest]
    return [f for f in best if _is_world(case, f[2])] or best


def pair_keys(transfer: Transfer) -> list[Key]:
    """One key for each (sender, receiver) of a transfer."""
    out: list[Key] = [("p2p", transfer.group, transfer.rank, peer) for peer in transfer.sends]
    out += [("p2p", transfer.group, peer, transfer.rank) for peer in transfer.receives]
    return out


def _enqueued_at(case: Case, front: GroupProgress) -> float:
    """When a call known from a timeout line was issued, in seconds; for ordering within one rank only."""
    event = front.event
    if not isinstance(event, CallTimeout) or event.time is None:
        return 0.0
    stamp = (
        event.time.replace(year=2000)
        if event.time.year == YEARLESS and (event.time.month, event.time.day) != (2, 29)
        else event.time
    )
    return (
        stamp.replace(tzinfo=None).toordinal() * 86400.0
        + stamp.hour * 3600
        + stamp.minute * 60
        + stamp.second
        - (event.ran_ms or 0) / 1e3
    )
