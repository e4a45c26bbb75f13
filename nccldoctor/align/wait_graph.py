"""Builds the wait-for graph of the ranks over all process groups, with its roots and its cycles.

A rank waits in few calls: those whose kernel is known to run, else the first unfinished one in its own order (later ones queue
behind it). A stuck call waits for the members that are not in it. Following those members to the calls *they* wait in ends at
ranks that wait for nobody (roots), at a call that every member entered, or in a circle of calls.

Example: in tensor-parallel group tp(0-3), ranks 0-2 wait in ALLREDUCE #18 and rank 3 last enqueued #17. In data-parallel group
dp(0,4), rank 4 waits in ALLREDUCE #7, which rank 0 queued behind #18. The edge #7 -> #18 leads from rank 4 to rank 3, the root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from nccldoctor.align.first_pending import Key, first_pending_calls, pair_keys
from nccldoctor.align.liveness import Liveness
from nccldoctor.align.p2p import Transfer
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.events import CallTimeout
from nccldoctor.identify.case import Case
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks, ranks_by


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
    return WaitGraph(calls, waits_in, Ranks(roots), tuple(sorted(whole)), _sink_cycles(edges, rooted))


def _sink_cycles(edges: Mapping[Key, set[Key]], rooted: set[Key]) -> tuple[tuple[Key, ...], ...]:
    """Circles of calls that no edge leads out of and no root holds up: nothing else explains them."""
    cycles = []
    for part in components(edges):
        is_circle = len(part) > 1 or any(key in edges[key] for key in part)
        if is_circle and not part & rooted and all(edges[key] <= part for key in part):
            cycles.append(tuple(sorted(part)))
    return tuple(sorted(cycles))


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
