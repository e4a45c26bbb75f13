"""Peers as witnesses: what the ranks inside a call, and those of its sister groups, issued behind the same calls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nccldoctor.align.call_sequences import KIND_MASK
from nccldoctor.align.facts import Facts
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.model import Group

FEWEST_EQUAL = 3
"""Calls before the place that must be equal on a peer for its word to count."""

WINDOW = 64
"""Calls before the place that are compared at most."""

SAME_STAGE = 0.9
"""Share of that window in which a member of a sister group must agree: another stage of a pipeline does other things at times."""

FEWEST_SISTERS = 2
"""Ranks in the same place of sister groups whose number of transfers is a custom."""

MOST_PEERS = 16
"""Peers that are asked; more say the same."""


def peers_word(facts: Facts, call: StuckCall, rank: int, start: int, stop: int) -> dict[int, int]:
    """For each peer inside the call, and each rank that issued its like in a sister group: the position in the rank's order
    where that peer issued it, behind the same calls.
    """
    if call.pair is not None:
        return {}
    mine = facts.sequences.kinds(rank)
    out: dict[int, int] = {}
    sisters = _sisters(facts, call)
    witnesses = {p: row_of(facts, call, p) for p in list(call.inside)[:MOST_PEERS]} | sisters
    for peer, row in witnesses.items():
        theirs, place = facts.sequences.kinds(peer), facts.sequences.position(peer, row) if row >= 0 else None
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
        rows = facts.sequences.rows(min(case.groups[other].members))
        mine = (case.call_group[rows] == other) & (case.calls.seq[rows] == call.seq) & facts.progress.collective[rows]
        mine &= (facts.sequences.labels[rows] ^ facts.sequences.labels[call.row]) & KIND_MASK == 0
        out.update({min(case.groups[other].members): int(row) for row in rows[mine][:1].tolist()})
    return out


def transfers_short(facts: Facts, call: StuckCall, rank: int) -> bool:
    """Whether ``rank`` posted exactly one transfer fewer in the call's group than each rank that stands in its place in a sister group.

    The newest call of all of them is the same, so that it is not merely behind them; two such ranks at least must agree.
    """
    groups = facts.case.groups
    group = groups[call.group]
    place = list(group.members).index(rank)
    mine, newest = _posted(facts, group.index, rank), _newest(facts, rank)
    sisters = [(g.index, list(g.members)[place]) for g in groups if g.index != group.index and _alike(g, group)]
    counts = [_posted(facts, index, sister) for index, sister in sisters if _newest(facts, sister) == newest]
    return mine is not None and len(counts) >= FEWEST_SISTERS and set(counts) == {mine + 1}


def calls_short(facts: Facts, call: StuckCall, rank: int) -> bool:
    """Whether ``rank`` had issued exactly one call fewer of the group, at the newest call of all, than its peers and the ranks of sister
    groups had of theirs; three at least must agree. Equal calls in a row hide which one it skipped, and the count shows it all the same.
    """
    groups, fronts = facts.case.groups, facts.progress.by_group_rank
    group = groups[call.group]
    mine, newest = fronts.get((call.group, rank)), _newest(facts, rank)
    sisters = [g for g in groups if g.index != group.index and _alike(g, group)][:MOST_PEERS]
    others = [
        (g.index, r)
        for g in (group, *sisters)
        for r in list(g.members)[:MOST_PEERS]
        if r != rank and _newest(facts, r) == newest
    ]
    counts = [front.enqueued for key in others if (front := fronts.get(key)) is not None]
    peers = any(index == call.group for index, _ in others)
    return mine is not None and peers and len(counts) > FEWEST_SISTERS and set(counts) == {mine.enqueued + 1}


def _alike(one: Group, other: Group) -> bool:
    """Whether two groups have one role: by their description, else by the number that the bare lists of 2.2 give them."""
    return (_role(one), len(one.members)) == (_role(other), len(other.members))


def _role(group: Group) -> str:
    return group.desc if group.desc not in ("", "undefined") else group.uid


def _newest(facts: Facts, rank: int) -> tuple[str, int, int] | None:
    """The newest call that a rank recorded: its group's role, its number and what it is."""
    row = facts.progress.last_row.get(rank)
    if row is None:
        return None
    group = facts.case.groups[facts.case.call_group[row]]
    return _role(group), int(facts.case.calls.seq[row]), int(facts.sequences.labels[row]) & KIND_MASK


def _posted(facts: Facts, group: int, rank: int) -> int | None:
    """How many transfers a rank posted in a group: as it numbers them, else as many as its whole record holds."""
    case, rows = facts.case, facts.sequences.rows(rank)
    mine = rows[(case.call_group[rows] == group) & ~facts.progress.collective[rows]]
    numbers = case.calls.p2p_seq[mine]
    if len(numbers) and int(numbers.max()) > 0:
        return int(numbers.max())
    whole = any(r == rank and d.entries and not d.wrapped for r, d in zip(case.dump_rank, case.dumps, strict=True))
    return len(mine) if whole else None


def row_of(facts: Facts, call: StuckCall, rank: int) -> int:
    """The rank's first unfinished entry in the call's group; -1 where none is recorded."""
    front = facts.progress.by_group_rank.get((call.group, rank))
    return front.row if front is not None else -1
