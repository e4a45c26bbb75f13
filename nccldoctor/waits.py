"""Who waits for whom: the graph over all groups, its roots and its cycles.

Each rank waits in few *firm* calls: those whose kernel is known to run, else the first unfinished one in its own order (what it
issued later queues behind). A stuck call waits for its members that are not in it; following those to what *they* wait in leads
to ranks that wait for nobody, to a call that everybody is in, or round in a circle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nccldoctor.case import Case
from nccldoctor.clocks import YEARLESS
from nccldoctor.events import BlockingWaitTimeout, CollectiveTimeout
from nccldoctor.fronts import UNORDERED, Front, Fronts, Transfer
from nccldoctor.ranks import Ranks

SAME_TIME = 2.0
"""Seconds within which two lines of one rank do not tell which call was issued first."""

Key = tuple[str, int, int, int]
"""Names a stuck call: ``("collective", group, seq, 0)`` or ``("p2p", group, sender, receiver)``."""


@dataclass(frozen=True, slots=True)
class StuckCall:
    """A call that somebody waits in, and where its members stand.

    ``inside`` are in it (firmly); ``behind`` issued it too but wait in something earlier; ``missing`` are shown not to have issued it;
    ``unknown`` left nothing that tells; ``passed`` completed it. ``row`` is a recorded entry of a rank inside (-1: known from lines),
    ``seq`` the number that waiting ranks record. ``pair`` is (sender, receiver) of a p2p call.
    """

    key: Key
    group: int
    seq: int
    inside: Ranks
    behind: Ranks
    missing: Ranks
    unknown: Ranks
    passed: Ranks
    row: int = -1
    pair: tuple[int, int] | None = None

    @property
    def entered(self) -> Ranks:
        """Everyone who issued it and did not complete it."""
        return self.inside | self.behind

    @property
    def outside(self) -> Ranks:
        """Everyone who may hold it up: not in it, shown or not."""
        return self.missing | self.unknown | self.behind


@dataclass(frozen=True, slots=True)
class Waits:
    """The graph. ``firm`` says which calls each rank waits in; ``roots`` are the ranks that wait for nobody although others wait
    for them, ``full`` the calls that nobody is missing from, ``cycles`` the circles of calls that wait for each other.
    """

    calls: Mapping[Key, StuckCall]
    firm: Mapping[int, tuple[Key, ...]]
    roots: Ranks
    full: tuple[Key, ...]
    cycles: tuple[tuple[Key, ...], ...]
    order: Mapping[Key, int] = field(default_factory=dict)

    def waiting_for(self, rank: int) -> list[StuckCall]:
        """The stuck calls that ``rank`` is missing from, in the order of their keys."""
        return [c for c in self.calls.values() if rank in c.missing or rank in c.unknown]


def waits(case: Case, fronts: Fronts) -> Waits:
    """Build the graph and find where it ends."""
    firm = _firm(case, fronts)
    calls = _collectives(case, fronts, firm) | _transfers(case, fronts, firm)
    keys_of = {rank: tuple(k for k in keys if k in calls) for rank, keys in firm.items()}
    roots: set[int] = set()
    edges: dict[Key, set[Key]] = {key: set() for key in calls}
    for key, call in calls.items():
        for rank in call.outside:
            held = [k for k in keys_of.get(rank, ()) if k != key]
            edges[key].update(held)
            if not held and rank not in call.behind:
                roots.add(rank)
    for keys in keys_of.values():
        batch = [k for k in keys if k[0] == "p2p"]
        for key in batch if len(batch) > 1 else ():
            edges[key].update(k for k in batch if k != key)  # a batch ends as a whole: each part waits for the others
    full = tuple(sorted(k for k, c in calls.items() if not edges[k] and not (c.missing | c.unknown)))
    cycles = _sink_cycles(edges, {k for k, c in calls.items() if c.missing & roots})
    return Waits(calls, keys_of, Ranks(roots), full, cycles)


def _firm(case: Case, fronts: Fronts) -> dict[int, list[Key]]:
    """The calls that each rank really waits in."""
    open_: dict[int, list[tuple[float, bool, Key]]] = defaultdict(list)
    for front in fronts.by.values():
        if front.pending is not None:
            place = float(front.position) if front.position != UNORDERED else UNORDERED + _enqueued_at(case, front)
            open_[front.rank].append((place, front.started, ("collective", front.group, front.pending, 0)))
    for rank, transfers in fronts.transfers.items():
        for transfer in transfers:
            for key in pairs(transfer):
                open_[rank].append((float(transfer.position), transfer.started, key))
    out: dict[int, list[Key]] = {}
    rare = _rarity(case, open_)
    for rank, found in open_.items():
        found.sort()
        if found[0][0] >= UNORDERED:
            found = _of_lines(case, found, rare)
        started = [key for _, is_started, key in found if is_started]
        first = [key for place, _, key in found if place == found[0][0]]
        out[rank] = started if started and rank in fronts.timed else first
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
    close = [f for f in found if f[0] - found[0][0] <= SAME_TIME]
    fewest = min((rare[key] for _, _, key in close if key in rare), default=None)
    best = [f for f in close if rare.get(f[2]) == fewest]
    return [f for f in best if _is_world(case, f[2])] or best or found


def pairs(transfer: Transfer) -> list[Key]:
    """One key for each (sender, receiver) of a transfer."""
    out: list[Key] = [("p2p", transfer.group, transfer.rank, peer) for peer in transfer.sends]
    out += [("p2p", transfer.group, peer, transfer.rank) for peer in transfer.receives]
    return out


def _enqueued_at(case: Case, front: Front) -> float:
    """When a call known from a timeout line was issued, in seconds; for ordering within one rank only."""
    event = front.event
    if not isinstance(event, CollectiveTimeout | BlockingWaitTimeout) or event.time is None:
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


def _collectives(case: Case, fronts: Fronts, firm: Mapping[int, Sequence[Key]]) -> dict[Key, StuckCall]:
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
            (f for r in sorted(holders[key]) if (f := fronts.by.get((group, r))) is not None and f.row >= 0), None
        )
        out[key] = StuckCall(
            key,
            group,
            seq,
            inside=Ranks(holders[key]),
            behind=Ranks(sets["behind"]),
            missing=Ranks(sets["missing"]),
            unknown=Ranks(sets["unknown"]),
            passed=Ranks(sets["passed"]),
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
        if (
            isinstance(event, CollectiveTimeout | BlockingWaitTimeout)
            and event.rank is not None
            and event.seq is not None
        ):
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
    fronts: Fronts, firm: Mapping[int, Sequence[Key]], wrapped: set[int], group: int, seq: int, rank: int
) -> str:
    """Where one member stands towards call ``seq``."""
    front = fronts.by.get((group, rank))
    if front is None:
        return "missing" if rank in fronts.recorded and rank not in wrapped else "unknown"
    if front.enqueued < seq:
        return "missing" if front.known_by != "log" or _exact(front) else "unknown"
    if front.completed >= seq:
        return "passed"
    return "behind" if firm.get(rank) else "inside"


def _exact(front: Front) -> bool:
    """Whether a front known from lines is a counter, not merely a call that timed out: only a counter shows absence."""
    return not isinstance(front.event, CollectiveTimeout | BlockingWaitTimeout)


def _transfers(case: Case, fronts: Fronts, firm: Mapping[int, Sequence[Key]]) -> dict[Key, StuckCall]:
    """Stuck sends and receives: between the two ends, who has posted and who has not."""
    posted: dict[Key, dict[int, Transfer]] = defaultdict(dict)
    for transfers in fronts.transfers.values():
        for transfer in transfers:
            for key in pairs(transfer):
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
            absent & fronts.recorded,
            absent - fronts.recorded,
            Ranks(),
            row=row,
            pair=(key[2], key[3]),
        )
    return out


def _sink_cycles(edges: Mapping[Key, set[Key]], rooted: set[Key]) -> tuple[tuple[Key, ...], ...]:
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
