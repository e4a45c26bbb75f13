"""What the rules about ranks out of step share: where a rank left its order, and what should have come there.

Two witnesses are heard: the rank's own past (what always followed these calls before), and its peers (what they issued behind the same
calls). One peer's word against another's names nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nccldoctor.align import Facts
from nccldoctor.call_streams import KIND, chain, site
from nccldoctor.draft import names
from nccldoctor.ranks import Ranks
from nccldoctor.waits import StuckCall

LOOK_BACK = 512
"""Calls behind a rank's last one in the group that are searched for the place where it left its order."""

FEWEST_EQUAL = 3
"""Calls before the place that must be equal on a peer for its word to count."""

WINDOW = 64
"""Calls before the place that are compared at most."""

SAME_STAGE = 0.9
"""Share of that window in which a member of a sister group must agree: another stage of a pipeline does other things at times."""

MOST_PEERS = 16
"""Peers that are asked; more say the same."""


@dataclass(frozen=True, slots=True)
class OutOfStep:
    """A rank that others miss in ``call`` although it went on: ``row`` is what it issued where the call was due.

    ``expected`` is the row that shows what was due: of the rank's own past, or of a peer. ``by_past`` says that its own past testifies,
    ``peers`` how many peers do. ``later``: it went beyond the call that normally comes next; ``swapped``: it issued
    the missed call too, afterwards.
    ``surplus``: how many more calls of that group it issued than a peer, counted at the next call that both issued in another group.
    ``told_apart``: whether anything would show the difference, had it skipped the call, or issued it late, instead.
    """

    rank: int
    call: StuckCall
    row: int
    expected: int
    by_past: bool
    peers: Ranks
    later: bool
    swapped: bool
    surplus: int | None = None
    told_apart: bool = True


def out_of_step(facts: Facts, call: StuckCall, rank: int) -> OutOfStep | None:
    """Where ``rank`` left its order by not issuing ``call``, or by issuing it late; None where neither its past nor its peers say so."""
    rows = facts.streams.rows(rank)
    start = _start(facts, call, rank)
    stop = min(len(rows), start + LOOK_BACK)
    past = next(((at, e) for at in range(start, stop) if (e := _past(facts, call, rank, at)) is not None), None)
    peers = _peers(facts, call, rank, start, stop)
    if past is None and not peers:
        return None
    at = past[0] if past is not None else max(set(peers.values()), key=lambda a: (list(peers.values()).count(a), -a))
    agreeing = Ranks(p for p, place in peers.items() if place == at)
    row = int(rows[at])
    if (
        rank in call.behind
        and call.pair is None
        and not any(_belongs(facts, call, int(r)) and int(facts.case.calls.seq[r]) == call.seq for r in rows[at + 1 :])
    ):
        return None  # it issued the call, and not late
    expected = past[1] if past is not None else _row_of(facts, call, min(agreeing))
    swapped = (
        any(_belongs(facts, call, int(r)) and int(facts.case.calls.seq[r]) == call.seq for r in rows[at + 1 :])
        if call.pair is None
        else False
    )
    later = _beyond(facts, rank, at, expected if past is not None else None)
    more = surplus(facts, call, rank, row)
    told = more is not None or swapped or later or not _same_place(facts, row, expected)
    return OutOfStep(rank, call, row, expected, past is not None, agreeing, later, swapped, more, told)


def usual(item: OutOfStep) -> str:
    """Whose record :attr:`OutOfStep.expected` is, in words."""
    if item.by_past:
        return f"an earlier step of rank {item.rank}: what always came there"
    return f"what {names(item.peers)} issued there, behind the same calls"


def surplus(facts: Facts, call: StuckCall, rank: int, row: int) -> int | None:
    """Calls of the group that ``rank`` issued more than a peer inside it, counted at the first later call that both
    issued in another group.

    Equal counts are an order that differs; one fewer is a call missed, one more a call added. None where no such place is recorded.
    """
    case, calls = facts.case, facts.case.calls
    mine = facts.streams.rows(rank)
    mine = mine[(mine > row) & facts.fronts.collective[mine] & (case.call_group[mine] != call.group)]
    for peer in [r for r in call.inside if r != rank][:MOST_PEERS]:
        theirs = facts.streams.rows(peer)
        at = {(int(case.call_group[r]), int(calls.seq[r])): int(r) for r in theirs.tolist()}
        for anchor in mine.tolist():
            other = at.get((int(case.call_group[anchor]), int(calls.seq[anchor])))
            if other is not None:
                return _count(facts, call.group, rank, anchor) - _count(facts, call.group, peer, other)
    return None


def _count(facts: Facts, group: int, rank: int, before: int) -> int:
    rows = facts.streams.rows(rank)
    seqs = facts.case.calls.seq[rows[(rows < before) & (facts.case.call_group[rows] == group)]]
    return int(seqs.max()) if len(seqs) else 0


def _start(facts: Facts, call: StuckCall, rank: int) -> int:
    """The position behind the last call of that kind that the rank issued before the one that is missed."""
    rows = facts.streams.rows(rank)
    same = [i for i, r in enumerate(rows.tolist()) if _belongs(facts, call, r)]
    if call.pair is None:
        same = [i for i in same if int(facts.case.calls.seq[rows[i]]) < call.seq]
    else:
        same = [i for i in same if facts.fronts.done[rows[i]]]
    return same[-1] + 1 if same else 0


def _past(facts: Facts, call: StuckCall, rank: int, at: int) -> int | None:
    """Row of an earlier occurrence of the missed call behind these same calls, if what came now never followed them before."""
    rows = facts.streams.rows(rank)
    outcomes = facts.streams.outcomes(rank, at)
    if not outcomes or int(facts.streams.labels[rows[at]]) in outcomes:
        return None
    return next(
        (
            int(rows[p])
            for p in outcomes.values()
            if _belongs(facts, call, int(rows[p])) and _same_kind(facts, call, int(rows[p]))
        ),
        None,
    )


def _peers(facts: Facts, call: StuckCall, rank: int, start: int, stop: int) -> dict[int, int]:
    """For each peer inside the call, and each rank that issued its like in a sister group: the position in the rank's order
    where that peer issued it, behind the same calls.
    """
    if call.pair is not None:
        return {}
    mine = facts.streams.kinds(rank)
    out: dict[int, int] = {}
    sisters = _sisters(facts, call)
    witnesses = {p: _row_of(facts, call, p) for p in list(call.inside)[:MOST_PEERS]} | sisters
    for peer, row in witnesses.items():
        theirs, place = facts.streams.kinds(peer), facts.streams.position(peer, row) if row >= 0 else None
        if place is None:
            continue
        best, where = FEWEST_EQUAL - 1, -1
        for at in range(start, stop):
            equal = 0
            while equal < min(at, place, WINDOW) and mine[at - 1 - equal] == theirs[place - 1 - equal]:
                equal += 1
            if equal > best:
                best, where = equal, at
        if peer in sisters and not _same_stage(mine[:where], theirs[:place]):
            continue
        if where >= 0 and mine[where] != theirs[place]:
            out[peer] = where
    return out


def _same_stage(mine: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64]) -> bool:
    width = min(len(mine), len(theirs), WINDOW)
    return width >= WINDOW // 4 and float(np.mean(mine[-width:] == theirs[-width:])) >= SAME_STAGE


def _sisters(facts: Facts, call: StuckCall) -> dict[int, int]:
    """Ranks that issued the call's like in another group of the same description and size, with their rows; one of each group."""
    case, group = facts.case, facts.case.groups[call.group]
    alike = [
        g.index
        for g in case.groups
        if g.index != call.group and g.desc == group.desc and len(g.members) == len(group.members)
    ]
    out: dict[int, int] = {}
    if call.row < 0:
        return out
    for other in alike[:MOST_PEERS]:
        rows = facts.streams.rows(min(case.groups[other].members))
        mine = (case.call_group[rows] == other) & (case.calls.seq[rows] == call.seq) & facts.fronts.collective[rows]
        mine &= (facts.streams.labels[rows] ^ facts.streams.labels[call.row]) & KIND == 0
        out.update({min(case.groups[other].members): int(row) for row in rows[mine][:1].tolist()})
    return out


def _row_of(facts: Facts, call: StuckCall, rank: int) -> int:
    front = facts.fronts.by.get((call.group, rank))
    return front.row if front is not None else -1


def _belongs(facts: Facts, call: StuckCall, row: int) -> bool:
    """Whether a recorded call is of the kind that ``call`` is: same group, and for p2p the same direction between the same ends."""
    calls = facts.case.calls
    if facts.case.call_group[row] != call.group:
        return False
    if call.pair is None:
        return bool(facts.fronts.collective[row])
    rank = int(facts.case.call_rank[row])
    wanted = "send" if rank == call.pair[0] else "recv"
    names = facts.streams.batches.get(row) or {facts.case.words.ops[calls.op[row]]}
    return any(name.startswith(wanted) for name in names)


def _same_kind(facts: Facts, call: StuckCall, row: int) -> bool:
    """Whether the call that always came there is the one that the others wait in, not another of the same group."""
    return (
        call.pair is not None
        or call.row < 0
        or bool((facts.streams.labels[row] ^ facts.streams.labels[call.row]) & KIND == 0)
    )


def _beyond(facts: Facts, rank: int, at: int, expected: int | None) -> bool:
    """Whether the rank went on past the call that normally follows the missed one, or entered that one from its usual place.

    A place that both calls share, a loop over groups, tells nothing: whoever swaps them comes by it as well.
    """
    streams, words = facts.streams, facts.case.words
    rows = streams.rows(rank)
    if len(rows) - at > 1:
        return True
    after = streams.position(rank, expected) if expected is not None else None
    if after is None or after + 1 >= len(rows):
        return False
    framed = bool(site(words.stacks[facts.case.calls.stack[rows[at]]]))
    usual_place = bool(streams.labels[rows[at]] == streams.labels[rows[after + 1]])
    return framed and usual_place and not _same_place(facts, int(rows[at]), int(rows[after]))


def _same_place(facts: Facts, row: int, other: int) -> bool:
    """Whether two calls were issued by the same line of user code, called by the same lines."""
    stack, stacks = facts.case.calls.stack, facts.case.words.stacks
    return chain(stacks[stack[row]]) == chain(stacks[stack[other]]) != ()


def blamed(facts: Facts, calls: tuple[StuckCall, ...]) -> list[OutOfStep]:
    """The ranks of a circle that left their order: by their own past, else by more peers than speak against any other; by rank."""
    found = []
    for call in calls:
        for rank in call.missing | call.behind:
            if facts.waits.firm.get(rank):
                one = out_of_step(facts, call, rank)
                if one is not None:
                    found.append(one)
    past = [o for o in found if o.by_past]
    if past:
        return sorted(past, key=lambda o: (o.rank, o.row))
    most = max((len(o.peers) for o in found), default=0)
    best = [o for o in found if len(o.peers) == most and most >= 2]
    return sorted(best, key=lambda o: (o.rank, o.row)) if len({o.rank for o in best}) * 2 <= most else []
