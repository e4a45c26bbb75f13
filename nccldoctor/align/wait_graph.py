"""Who waits for whom: the graph over all groups, its roots and its cycles.

Each rank waits in few *firm* calls: those whose kernel is known to run, else the first unfinished one in its own order (what it
issued later queues behind). A stuck call waits for its members that are not in it; following those to what *they* wait in leads
to ranks that wait for nobody, to a call that everybody is in, or round in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nccldoctor.align.first_pending import Key, first_pending_calls, pair_keys
from nccldoctor.align.p2p import Transfer
from nccldoctor.align.progress.group_progress import GroupProgress
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.events import CallTimeout
from nccldoctor.identify.case import Case
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks


def sink_cycles(edges: Mapping[Key, set[Key]], rooted: set[Key]) -> tuple[tuple[Key, ...], ...]:
    """Strongly connected calls that nothing else explains: circles from which no edge leads out and no root is reached."""
    out = []
    for part in components(edges):
        if len(part) < 2 and not any(k in edges[k] for k in part):
            continue
        leaves = any(target not in part for key in part for target in edges[key])
        if not leaves and not part & rooted:
            out.append(tuple(sorted(part)))
    return tuple(sorted(out))


def components(edges: Mapping[Key, set[Key]]) -> list[set[Key]]:
    """Strongly connected components (Tarjan's algorithm, without recursion)."""
    index: dict[Key, int] = {}
    low: dict[Key, int] = {}
    stack: list[Key] = []
    on: set[Key] = set()
    out: list[set[Key]] = []
    for start in sorted(edges):
        if start in index:
            continue
        work: list[tuple[Key, list[Key]]] = [(start, sorted(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            if rest:
                target = rest.pop()
                if target not in edges:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on.add(target)
                    work.append((target, sorted(edges[target])))
                elif target in on:
                    low[node] = min(low[node], index[target])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                part: set[Key] = set()
                while True:
                    top = stack.pop()
                    on.discard(top)
                    part.add(top)
                    if top == node:
                        break
                out.append(part)
    return out


@dataclass(frozen=True, slots=True)
class StuckCall:
    """A call that somebody waits in, and where its members stand.

    ``inside`` are in it (firmly); ``queued`` issued it too but wait in something earlier; ``missing`` are shown not to have issued it;
    ``unknown`` left nothing that tells; ``completed`` completed it. ``row`` is a recorded entry of a rank inside (-1: known from lines),
    ``seq`` the number that waiting ranks record. ``pair`` is (sender, receiver) of a p2p call.
    """

    key: Key
    group: int
    seq: int
    inside: Ranks
    queued: Ranks
    missing: Ranks
    unknown: Ranks
    completed: Ranks
    row: int = -1
    pair: tuple[int, int] | None = None

    @property
    def entered(self) -> Ranks:
        """Everyone who issued it and did not complete it."""
        return self.inside | self.queued

    @property
    def blockers(self) -> Ranks:
        """Everyone who may hold it up: not in it, shown or not."""
        return self.missing | self.unknown | self.queued


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """The graph. ``waits_in`` says which calls each rank waits in; ``roots`` are the ranks that wait for nobody although others wait
    for them, ``entered_by_all`` the calls that nobody is missing from, ``cycles`` the circles of calls that wait for each other.
    """

    calls: Mapping[Key, StuckCall]
    waits_in: Mapping[int, tuple[Key, ...]]
    roots: Ranks
    entered_by_all: tuple[Key, ...]
    cycles: tuple[tuple[Key, ...], ...]
    order: Mapping[Key, int] = field(default_factory=dict)

    def waiting_for(self, rank: int) -> list[StuckCall]:
        """The stuck calls that ``rank`` is missing from, in the order of their keys."""
        return [c for c in self.calls.values() if rank in c.missing or rank in c.unknown]


def build_wait_graph(case: Case, fronts: ProgressTable) -> WaitGraph:
    """Build the graph and find where it ends."""
    firm = first_pending_calls(case, fronts)
    calls = _collectives(case, fronts, firm) | _transfers(case, fronts, firm)
    keys_of = {rank: tuple(k for k in keys if k in calls) for rank, keys in firm.items()}
    roots: set[int] = set()
    edges: dict[Key, set[Key]] = {key: set() for key in calls}
    for key, call in calls.items():
        for rank in call.blockers:
            held = [k for k in keys_of.get(rank, ()) if k != key]
            edges[key].update(held)
            if not held and rank not in call.queued:
                roots.add(rank)
    for keys in keys_of.values():
        batch = [k for k in keys if k[0] == "p2p"]
        for key in batch if len(batch) > 1 else ():
            edges[key].update(k for k in batch if k != key)  # a batch ends as a whole: each part waits for the others
    full = tuple(sorted(k for k, c in calls.items() if not edges[k] and not (c.missing | c.unknown)))
    rooted = {k for k, c in calls.items() if (c.missing | (c.unknown if c.pair is not None else Ranks())) & roots}
    cycles = sink_cycles(edges, rooted)
    return WaitGraph(calls, keys_of, Ranks(roots), full, cycles)


def _collectives(case: Case, fronts: ProgressTable, firm: Mapping[int, Sequence[Key]]) -> dict[Key, StuckCall]:
    holders: dict[Key, set[int]] = defaultdict(set)
    for rank, keys in firm.items():
        for key in keys:
            if key[0] == "collective":
                holders[key].add(rank)
    gave_up = _lines(case)
    silent = _silent(case, firm) - {rank for rank, _ in gave_up}  # who gives up on a call waits, whatever its group
    wrapped = {r for r, d in zip(case.dump_rank, case.dumps, strict=True) if r is not None and d.wrapped}
    out: dict[Key, StuckCall] = {}
    for key in sorted(holders):
        _, group, seq, _ = key
        sets: dict[str, set[int]] = defaultdict(set)
        for rank in case.groups[group].members:
            if rank in holders[key]:
                sets["inside"].add(rank)
            else:
                sets[_standing(fronts, firm, wrapped, group, seq, rank)].add(rank)
        if case.groups[group].learned == "log" or _memberless(case, group):
            sets["unknown"] |= silent - holders[key]
        own = {r for r in sets["missing"] | sets["unknown"] if _gave_up(gave_up, seq, holders[key], r)}
        for name in ("missing", "unknown"):
            sets[name] -= own
        sets["behind"] |= own
        front = next(
            (f for r in sorted(holders[key]) if (f := fronts.by_group_rank.get((group, r))) is not None and f.row >= 0),
            None,
        )
        if front is not None and sets["passed"] and op_type(case.vocabulary.ops[case.calls.op[front.row]]) in NEEDS_ALL:
            sets["behind"] |= sets.pop("unknown", set())  # a member finished it, so that all have entered it
        out[key] = StuckCall(
            key,
            group,
            seq,
            inside=Ranks(holders[key]),
            queued=Ranks(sets["behind"]),
            missing=Ranks(sets["missing"]),
            unknown=Ranks(sets["unknown"]),
            completed=Ranks(sets["passed"]),
            row=front.row if front else -1,
        )
    return out


def _memberless(case: Case, group: int) -> bool:
    """A numbered group of 2.2 of which nothing tells the members: it stands for the rank that recorded it alone."""
    return case.groups[group].learned == "assumed" and len(case.groups[group].members) == 1


def _lines(case: Case) -> dict[tuple[int, int], set[tuple[str | None, int | None]]]:
    """What each rank gave up on: (rank, number) to (operation, elements). Lines of 2.2 to 2.5 name no group."""
    out: dict[tuple[int, int], set[tuple[str | None, int | None]]] = defaultdict(set)
    for event in case.events:
        if isinstance(event, CallTimeout) and event.rank is not None and event.seq is not None:
            out[(event.rank, event.seq)].add((event.op, event.numel_in))
    return out


def _gave_up(
    lines: Mapping[tuple[int, int], set[tuple[str | None, int | None]]], seq: int, holders: set[int], rank: int
) -> bool:
    """Whether a rank's own line is about the call that the holders wait in: same number, operation and size."""
    mine = lines.get((rank, seq), set())
    return bool(mine) and any(mine & lines.get((r, seq), set()) for r in holders)


def _silent(case: Case, firm: Mapping[int, Sequence[Key]]) -> set[int]:
    """Ranks that wait in nothing that is known: any of them may belong to a group of which only some members were heard."""
    waiting = set(firm)
    absent = set(case.world) - waiting if case.world_size is not None else set()
    return absent if len(absent) <= max(1, len(waiting) // 3) else set()


def _standing(
    fronts: ProgressTable, firm: Mapping[int, Sequence[Key]], wrapped: set[int], group: int, seq: int, rank: int
) -> str:
    """Where one member stands towards call ``seq``."""
    front = fronts.by_group_rank.get((group, rank))
    if front is None:
        return "missing" if rank in fronts.recorded_ranks and rank not in wrapped else "unknown"
    if front.enqueued < seq:
        return "missing" if front.known_by != "log" or _exact(front) else "unknown"
    if front.completed >= seq:
        return "passed"
    return "behind" if firm.get(rank) else "inside"


def _exact(front: GroupProgress) -> bool:
    """Whether a front known from lines is a counter, not merely a call that timed out: only a counter shows absence."""
    return not isinstance(front.event, CallTimeout)


def _transfers(case: Case, fronts: ProgressTable, firm: Mapping[int, Sequence[Key]]) -> dict[Key, StuckCall]:
    """Stuck sends and receives: between the two ends, who has posted and who has not."""
    posted: dict[Key, dict[int, Transfer]] = defaultdict(dict)
    for transfers in fronts.transfers.values():
        for transfer in transfers:
            for key in pair_keys(transfer):
                posted[key].setdefault(transfer.rank, transfer)
    out: dict[Key, StuckCall] = {}
    for key in sorted(posted):
        holders = {r for r in posted[key] if key in firm.get(r, ())}
        if not holders:
            continue
        ends = Ranks(key[2:])
        absent = ends - posted[key]
        row = posted[key][min(holders)].row
        seq = int(case.calls.p2p_seq[row]) if case.calls.p2p_seq[row] >= 0 else int(case.calls.seq[row])
        out[key] = StuckCall(
            key,
            key[1],
            seq,
            Ranks(holders),
            Ranks(posted[key]) - holders,
            absent & fronts.recorded_ranks,
            absent - fronts.recorded_ranks,
            Ranks(),
            row=row,
            pair=(key[2], key[3]),
        )
    return out
