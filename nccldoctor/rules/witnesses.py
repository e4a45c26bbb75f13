"""Peers as witnesses: what the ranks inside a call, and those of its sister groups, issued behind the same calls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nccldoctor.align import Facts
from nccldoctor.call_streams import KIND
from nccldoctor.waits import StuckCall

FEWEST_EQUAL = 3
"""Calls before the place that must be equal on a peer for its word to count."""

WINDOW = 64
"""Calls before the place that are compared at most."""

SAME_STAGE = 0.9
"""Share of that window in which a member of a sister group must agree: another stage of a pipeline does other things at times."""

MOST_PEERS = 16
"""Peers that are asked; more say the same."""


def peers_word(facts: Facts, call: StuckCall, rank: int, start: int, stop: int) -> dict[int, int]:
    """For each peer inside the call, and each rank that issued its like in a sister group: the position in the rank's order
    where that peer issued it, behind the same calls.
    """
    if call.pair is not None:
        return {}
    mine = facts.streams.kinds(rank)
    out: dict[int, int] = {}
    sisters = _sisters(facts, call)
    witnesses = {p: row_of(facts, call, p) for p in list(call.inside)[:MOST_PEERS]} | sisters
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


def row_of(facts: Facts, call: StuckCall, rank: int) -> int:
    """The rank's first unfinished entry in the call's group; -1 where none is recorded."""
    front = facts.fronts.by.get((call.group, rank))
    return front.row if front is not None else -1
