"""Builds the wait-for graph of the ranks over all process groups, with its roots and its cycles.

A rank waits in few calls: those whose kernel is known to run, else the first unfinished one in its own order (later ones queue
behind it). A stuck call waits for the members that are not in it. Following those members to the calls *they* wait in ends at
ranks that wait for nobody (roots), at a call that every member entered, or in a circle of calls.

Example: in tensor-parallel group tp(0-3), ranks 0-2 wait in ALLREDUCE #18 and rank 3 last enqueued #17. In data-parallel group
dp(0,4), rank 4 waits in ALLREDUCE #7, which rank 0 queued behind #18. The edge #7 -> #18 leads from rank 4 to rank 3, the root.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from nccldoctor.align.liveness import Liveness
from nccldoctor.align.progress.from_dumps import UNORDERED, Transfer
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.events import CallTimeout
from nccldoctor.identify.case import Case
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks, ranks_by

SAME_TIME = 2.0
"""Seconds within which two lines of one rank do not tell which call was issued first."""

Key = tuple[str, int, int, int]
"""Names a stuck call: ``("collective", group, seq, 0)`` or ``("p2p", group, sender, receiver)``."""

_Pending = tuple[float, bool, Key]
"""An unfinished call of one rank: its place in the rank's order, whether its kernel is known to run, its key."""


def first_pending_calls(case: Case, progress: ProgressTable, liveness: Liveness) -> dict[int, list[Key]]:
    """The calls that each rank really waits in: of its unfinished ones, the first that it issued.

    Example: rank 4 has ALLREDUCE #18 of tp and ALLREDUCE #7 of dp unfinished, and issued #18 first. It waits in #18; #7 only queues
    behind it. Where the order is not recorded, the call that fewest ranks are stuck in counts as the first, then what others recorded.
    """
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
    rarity, recorded = _rarity(case, pending), set[Key]()
    for rank, calls in sorted(pending.items(), key=lambda own: not 0 <= min(own[1])[0] < UNORDERED):
        calls.sort()
        first = calls[0][0]
        if first >= UNORDERED:  # known from lines, which give whole seconds only
            calls = _rarest(case, [c for c in calls if c[0] - first <= SAME_TIME], rarity, recorded) or calls
        elif first < 0:  # dropped by the ring
            calls = _rarest(case, [c for c in calls if c[0] < 0], rarity, recorded) + [c for c in calls if c[1]]
        started = [key for _, is_started, key in calls if is_started]
        earliest = [key for place, _, key in calls if place == calls[0][0]]
        waits_in[rank] = started if started and rank in progress.timed_ranks else earliest
        recorded.update(waits_in[rank] if 0 <= first < UNORDERED else ())
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


def _rarest(case: Case, calls: list[_Pending], rarity: Mapping[Key, int], recorded: set[Key]) -> list[_Pending]:
    """Of calls whose order is not known, those that fewest ranks are stuck in.

    Among equals comes first what other ranks ``recorded`` as their first, then a call of the whole job: the others queue behind it.
    """
    fewest = min((rarity[key] for _, _, key in calls if key in rarity), default=None)
    rarest = [c for c in calls if rarity.get(c[2]) == fewest]
    alike = [c for c in rarest if c[2] in recorded]
    return alike or [c for c in rarest if _is_of_world(case, c[2])] or rarest


def pair_keys(transfer: Transfer) -> list[Key]:
    """One key for each (sender, receiver) of a transfer."""
    sends: list[Key] = [("p2p", transfer.group, transfer.rank, peer) for peer in transfer.sends]
    return sends + [("p2p", transfer.group, peer, transfer.rank) for peer in transfer.receives]


class StuckCall(Struct, frozen=True):
    """A call that at least one rank waits in, and where each member of its group stands.

    ``inside`` ranks wait in it. ``queued`` ranks issued it too, but wait in an earlier call. ``missing`` ranks are proven not to
    have issued it; ``unknown`` ranks left no record of it; ``completed`` ranks finished it. ``seq`` is the sequence number that
    waiting ranks record and ``row`` a recorded entry of one of them (-1: known from log lines only). ``pair`` is (sender,
    receiver) of a p2p call, in global ranks.

    Ranks 0-6 wait in ALLREDUCE #18 and rank 7 last enqueued #17: ``inside`` is 0-6 and ``missing`` is 7.
    """

    key: Key
    group: int
    seq: int
    inside: Ranks
    queued: Ranks = Ranks()
    missing: Ranks = Ranks()
    unknown: Ranks = Ranks()
    completed: Ranks = Ranks()
    row: int = -1
    pair: tuple[int, int] | None = None

    @property
    def entered(self) -> Ranks:
        """The ranks that issued the call and did not complete it."""
        return self.inside | self.queued

    @property
    def blockers(self) -> Ranks:
        """The ranks that may hold the call up: every member that neither waits in it nor completed it."""
        return self.missing | self.unknown | self.queued


class WaitGraph(Struct, frozen=True):
    """Which ranks wait for which, and where the waiting ends.

    ``waits_in`` maps each rank to the calls that it waits in. ``roots`` are ranks that others wait for and that wait for nobody.
    ``entered_by_all`` are calls that no member is missing from; ``cycles`` are circles of calls that wait for each other.
    """

    calls: Mapping[Key, StuckCall]
    waits_in: Mapping[int, tuple[Key, ...]]
    roots: Ranks
    entered_by_all: tuple[Key, ...]
    cycles: tuple[tuple[Key, ...], ...]

    def collective(self, group: int, seq: int, inside: Ranks, row: int) -> StuckCall:
        """The stuck call of this number; where none is known, one with these ranks inside."""
        key = ("collective", group, seq, 0)
        return self.calls.get(key) or StuckCall(key, group, seq, inside, row=row)

    def waiting_for(self, rank: int) -> list[StuckCall]:
        """The stuck calls that ``rank`` is not known to have issued, in the order of their keys."""
        return [c for c in self.calls.values() if rank in c.missing or rank in c.unknown]


def build_wait_graph(case: Case, progress: ProgressTable, liveness: Liveness) -> WaitGraph:
    """Build the graph and find where the waiting ends."""
    pending = first_pending_calls(case, progress, liveness)
    calls = _collectives(case, progress, pending) | _transfers(case, progress, pending)
    waits_in = {rank: tuple(k for k in keys if k in calls) for rank, keys in pending.items()}
    roots: set[int] = set()
    edges: dict[Key, set[Key]] = {key: set() for key in calls}
    for key, call in calls.items():
        for rank in call.blockers:
            elsewhere = [k for k in waits_in.get(rank, ()) if k != key]
            edges[key].update(elsewhere)
            if not elsewhere and rank not in call.queued:
                roots.add(rank)
    for keys in waits_in.values():
        batch = {k for k in keys if k[0] == "p2p"}
        for key in batch:  # a batch completes as a whole: each part waits for the others
            edges[key] |= batch - {key}
    named = [(key, call) for key, call in calls.items() if case.groups[call.group].learned != "unnamed"]
    whole = [key for key, call in named if not edges[key] and not (call.missing | call.unknown)]
    rooted = {k for k, c in calls.items() if (c.missing | (c.unknown if c.pair is not None else Ranks())) & roots}
    cycles = []
    for part in components(edges):
        is_circle = len(part) > 1 or any(key in edges[key] for key in part)
        if is_circle and not part & rooted and all(edges[key] <= part for key in part):
            cycles.append(tuple(sorted(part)))
    return WaitGraph(calls, waits_in, Ranks(roots), tuple(sorted(whole)), tuple(sorted(cycles)))


def components(edges: Mapping[Key, set[Key]]) -> list[set[Key]]:
    """The strongly connected components of a graph (Kosaraju's algorithm, without recursion)."""
    reverse: dict[Key, set[Key]] = {key: set() for key in edges}
    for key, targets in edges.items():
        for target in targets & edges.keys():
            reverse[target].add(key)
    seen: set[Key] = set()
    finished = [key for start in edges if start not in seen for key in _depth_first(start, edges, seen)]
    seen.clear()
    return [set(_depth_first(start, reverse, seen)) for start in reversed(finished) if start not in seen]


def _depth_first(start: Key, edges: Mapping[Key, set[Key]], seen: set[Key]) -> list[Key]:
    """The unseen calls that ``start`` leads to, each after all that it leads to itself; adds them to ``seen``."""
    seen.add(start)
    finished = []
    path = [(start, iter(edges[start]))]
    while path:
        key, targets = path[-1]
        target = next((t for t in targets if t in edges and t not in seen), None)
        if target is None:
            finished.append(key)
            path.pop()
        else:
            seen.add(target)
            path.append((target, iter(edges[target])))
    return finished


def _collectives(case: Case, progress: ProgressTable, pending: Mapping[int, Sequence[Key]]) -> dict[Key, StuckCall]:
    """The collectives that ranks wait in, with where every member of the group stands."""
    waiting = ranks_by((key, rank) for rank, keys in pending.items() for key in keys if key[0] == "collective")
    timeouts = _timeouts(case)
    # ranks that wait in no known call, unless they are too many: any may belong to a group of which only some members wrote lines
    silent = set(case.world) - set(pending) if case.world_size is not None else set[int]()
    silent = silent if len(silent) <= max(1, len(pending) // 3) else set()
    silent -= {rank for rank, _ in timeouts}  # who gives up on any call was waiting
    wrapped = {r for r, d in zip(case.dump_rank, case.dumps, strict=True) if r is not None and d.has_lost_past}
    calls: dict[Key, StuckCall] = {}
    for key in sorted(waiting):
        _, index, seq, _ = key
        group, inside = case.groups[index], waiting[key]
        others = group.members - inside
        sets = defaultdict(
            Ranks, ranks_by((_standing(progress, pending, wrapped, index, seq, rank), rank) for rank in others)
        )
        # a numbered group of PyTorch 2.2 whose members nobody tells stands for the rank that recorded it
        is_open = group.learned == "unnamed" or (group.learned == "assumed" and len(group.members) == 1)
        if group.learned == "log" or (is_open and len(silent) <= FEW_SILENT):
            sets["unknown"] |= silent - inside
        # who gave up on the call of the ranks inside: same group, number, operation and size
        given_up = {one for r in inside for one in timeouts.get((r, seq), ())}
        own = {r for r in sets["missing"] | sets["unknown"] if timeouts.get((r, seq), set()) & given_up}
        for name in ("missing", "unknown"):
            sets[name] -= own
        sets["queued"] |= own
        of_inside = (progress.by_group_rank.get((index, r)) for r in sorted(inside))
        row = next((p.row for p in of_inside if p is not None and p.row >= 0), -1)
        if row >= 0 and sets["completed"] and op_type(case.vocabulary.ops[case.calls.op[row]]) in NEEDS_ALL:
            sets["queued"] |= sets.pop("unknown", Ranks())  # one member finished it, so all members have entered it
        queued, missing, unknown, done = (sets[name] for name in ("queued", "missing", "unknown", "completed"))
        calls[key] = StuckCall(key, index, seq, inside, queued, missing, unknown, done, row)
    return calls


FEW_SILENT = 64
"""Silent ranks up to which each of them is kept as a possible member of a group that nobody names."""

_Timeouts = Mapping[tuple[int, int], set[tuple[int | None, str | None, int | None]]]
"""What each rank gave up on: (rank, sequence number) to (group, operation, input elements)."""


def _timeouts(case: Case) -> _Timeouts:
    """The calls that each rank's lines gave up on."""
    timeouts: dict[tuple[int, int], set[tuple[int | None, str | None, int | None]]] = defaultdict(set)
    for event in case.of(CallTimeout):
        if event.rank is not None and event.seq is not None:
            timeouts[(event.rank, event.seq)].add((group_of(case, event), event.op, event.numel_in))
    return timeouts


def _standing(
    progress: ProgressTable, pending: Mapping[int, Sequence[Key]], wrapped: set[int], group: int, seq: int, rank: int
) -> str:
    """Where a member that does not wait in call ``seq`` stands: queued, missing, unknown, completed or undecided."""
    own = progress.by_group_rank.get((group, rank))
    is_damaged = rank in progress.damaged_ranks
    if own is None:
        return "missing" if rank in progress.recorded_ranks - wrapped and not is_damaged else "unknown"
    if own.enqueued < seq:  # a line that gives up on an earlier call does not say what was enqueued after it
        is_open = own.known_by == "log" and isinstance(own.event, CallTimeout)
        return "unknown" if is_open or (is_damaged and own.known_by == "dump") else "missing"
    if own.completed >= seq:
        return "completed"
    return "queued" if pending.get(rank) else "undecided"


def _transfers(case: Case, progress: ProgressTable, pending: Mapping[int, Sequence[Key]]) -> dict[Key, StuckCall]:
    """The sends and receives that ranks wait in; of the two ends, a missing one has posted nothing."""
    posted: dict[Key, dict[int, Transfer]] = defaultdict(dict)
    for transfers in progress.transfers.values():
        for transfer in transfers:
            for key in pair_keys(transfer):
                posted[key].setdefault(transfer.rank, transfer)
    calls: dict[Key, StuckCall] = {}
    for key in sorted(posted):
        inside = Ranks(r for r in posted[key] if key in pending.get(r, ()))
        if not inside:
            continue
        pair = (key[2], key[3])
        absent = Ranks(pair) - posted[key]
        row = posted[key][min(inside)].row
        p2p_seq = int(case.calls.p2p_seq[row])
        calls[key] = StuckCall(
            key,
            group=key[1],
            seq=p2p_seq if p2p_seq >= 0 else int(case.calls.seq[row]),
            inside=inside,
            queued=Ranks(posted[key]) - inside,
            missing=absent & progress.recorded_ranks,
            unknown=absent - progress.recorded_ranks,
            row=row,
            pair=pair,
        )
    return calls
