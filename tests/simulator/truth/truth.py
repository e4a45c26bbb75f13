"""The truth about a job, and how much of it the files that were kept can tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from simulator.discrete_events import Sim
from simulator.faults.scenarios import Fault
from simulator.program import OPS, Call, Group, Issue, Job, Program
from simulator.recorder import Dumps
from simulator.state import NEVER, Work
from simulator.watchdogs import Story


@dataclass(slots=True)
class Kept:
    """Facts that the files show, collected while the files are written."""

    dumps: set[int] = field(default_factory=set)  # ranks with a readable dump that holds entries
    entries: set[tuple[int, int]] = field(default_factory=set)  # (rank, place in its stream) that a kept ring holds
    bare_dumps: set[int] = field(default_factory=set)  # a readable dump without entries: alive, no more
    logs: set[int] = field(default_factory=set)
    launcher: bool = False
    until: float = NEVER
    stacks: set[int] = field(default_factory=set)
    failed_hosts: set[int] = field(default_factory=set)  # ranks whose host the scheduler called failed
    kernel: set[int] = field(default_factory=set)  # ranks about which a kernel log was kept


def _piece_key(call: Call, rank: int, peer: int, way: str) -> tuple[Any, ...]:
    return (call.group, (rank, peer) if way == "send" else (peer, rank), way)


def _keys(call: Call, rank: int) -> list[tuple[Any, ...]]:
    """The traffic of a call on its rank: one collective of the group, or point-to-point pieces."""
    if not call.pieces:
        return [(call.group,)]
    return [_piece_key(call, rank, peer, way) for way, peer in call.pieces]


def _counterparts(call: Call, rank: int) -> list[tuple[int, tuple[Any, ...]]]:
    if not call.pieces:
        return [(m, (call.group,)) for m in call.group.members if m != rank]
    other = {"send": "recv", "recv": "send"}
    return [(peer, _piece_key(call, peer, rank, other[way])) for way, peer in call.pieces]


def _nth(works: list[Work], key: tuple[Any, ...], n: int) -> Work | None:
    """The n-th work (from 0) of a rank that counts as ``key``."""
    for work in works:
        if key in _keys(work.call, work.rank):
            if n == 0:
                return work
            n -= 1
    return None


def root_of_absent(story: Story, healthy: list[Program], fault: Fault) -> tuple[Call, list[Work], set[int]] | None:
    """The first call, in the culprit's own order, that others wait in and it never issued."""
    sim = story.sim
    for rank in fault.culprits:
        before_it = [w for w in sim.hosts[rank].works if w.issued < story.first_fire]
        issued = Counter(key for work in before_it for key in _keys(work.call, rank))
        expected: Counter[tuple[Any, ...]] = Counter()
        for step in healthy[rank]:
            for instruction in step:
                if not isinstance(instruction, Issue):
                    continue
                call = instruction.call
                mine = _keys(call, rank)
                before = {key: expected[key] for key in mine}
                expected.update(mine)
                if all(issued[key] > before[key] for key in mine):
                    continue
                waiting = _waiting(sim, call, rank, before)
                if waiting:
                    inside = {w.rank for w in waiting}
                    return call, waiting, set(call.group.members) - inside if not call.pieces else {rank}
    return None


def _waiting(sim: Sim, call: Call, rank: int, before: dict[tuple[Any, ...], int]) -> list[Work]:
    out = []
    for (peer, key), n in zip(_counterparts(call, rank), _numbers(call, rank, before), strict=True):
        work = _nth(sim.hosts[peer].works, key, n)
        if work is not None:
            out.append(work)
    return out


def _numbers(call: Call, rank: int, before: dict[tuple[Any, ...], int]) -> list[int]:
    if not call.pieces:
        return [before[(call.group,)]] * (len(call.group.members) - 1)
    return [before[_piece_key(call, rank, peer, way)] for way, peer in call.pieces]


def first_open(sim: Sim, group: Group) -> list[Work]:
    """The works of the lowest call of a group that does not end, one per member that issued it."""
    open_works = [
        w
        for rank in group.members
        for w in sim.hosts[rank].works
        if w.call.group is group and w.end == NEVER and not w.call.pieces
    ]
    if not open_works:
        return []
    low = min(w.coll_seq for w in open_works)
    return [
        w
        for rank in group.members
        for w in sim.hosts[rank].works
        if w.call.group is group and w.coll_seq == low and not w.call.pieces
    ]


def stalled_works(story: Story, healthy: list[Program], fault: Fault) -> tuple[list[Work], set[int]]:
    """The works of the stalled call, and the members that are not in it."""
    sim = story.sim
    if fault.cls == "init":
        return [], set()
    if fault.cls in ("not-arrived", "frozen", "died", "raised", "straggler", "undetermined") or _absent_board(fault):
        root = root_of_absent(story, healthy, fault)
        return (root[1], root[2]) if root else ([], set())
    if fault.cls == "unmatched-p2p" and fault.call is not None:
        (_, peer), culprit = fault.call.pieces[0], fault.culprits[0]
        waiting = [w for w in sim.hosts[peer].works if w.call.pieces and w.end == NEVER and w.call.group is fault.group]
        return waiting[:1], {culprit}
    if fault.cls == "device-stalled" or fault.traits.get("cuda"):
        return _stalled_device(sim, fault)
    if fault.group is None:
        return [], set()
    works = first_open(sim, fault.group)
    if fault.cls == "order-inversion" and fault.call is not None:
        works = [w for w in works if w.end == NEVER]
    return works, set(fault.group.members) - {w.rank for w in works}


def _absent_board(fault: Fault) -> bool:
    return fault.cls == "hardware" and fault.call is None and "cuda" not in fault.traits


def _stalled_device(sim: Sim, fault: Fault) -> tuple[list[Work], set[int]]:
    rank = fault.culprits[0]
    for work in sim.hosts[rank].works:
        if work.end == NEVER and not work.unseen:
            peers = [
                w
                for m in work.call.group.members
                for w in sim.hosts[m].works
                if w.call.group is work.call.group and (w.coll_seq, w.p2p_seq) == (work.coll_seq, work.p2p_seq)
            ]
            return peers, set()
    return [], set()


def describe(
    job: Job, story: Story, dumps: Dumps, kept: Kept, works: list[Work], missing: set[int]
) -> dict[str, Any] | None:
    """``stalled`` as the contract defines it; ``seen``: some file that was kept shows a rank waiting in it."""
    waiting = [w for w in works if w.end == NEVER] or works
    if not waiting:
        return None
    numbers = sorted({dumps.shown_seq(w.call.pieces, w.call.op, w.coll_seq, w.p2p_seq) for w in waiting})
    if waiting[0].call.pieces:
        numbers = sorted({*numbers, *(w.p2p_seq for w in waiting)})
    most = Counter(w.call for w in waiting).most_common(1)[0][0]
    fired = {(f.rank, id(w)) for f in story.fates for t, w in f.fires if f.rank in kept.logs and t <= kept.until}
    seen = any(w.rank in kept.dumps and w.issued <= story.fates[w.rank].dump_at for w in waiting)
    return {
        "op": OPS[most.op][0],
        "seq": numbers[0],
        "seqs": numbers,
        "group": most.group.uid,
        "members": list(most.group.members),
        "kind": "p2p" if most.pieces else "collective",
        "entered": sorted({w.rank for w in works}),
        "missing": sorted(missing),
        "timeout_ms": most.group.timeout_ms,
        "seen": seen or any((w.rank, id(w)) in fired for w in waiting),
    }
