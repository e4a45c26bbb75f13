"""Circles over several groups: the order of all recorded calls names the rank that left it, or nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from builders.jobs.cases import RecordedRank, Team, facts, world

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.signs.issue_order import Change, compare_orders
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks

TEAMS = {
    "world": (world(4),),
    "tp": (Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3))),
    "dp": (Team("3", "dp", (0, 2)), Team("4", "dp", (1, 3))),
}

STEPS = ["tp", "dp"] * 4
MESH = [*STEPS, "world"] * 4
"""The program of every rank: four epochs of four steps and a barrier."""

Orders = Mapping[int, Sequence[str]]


def _team(rank: int, role: str) -> Team:
    return next(team for team in TEAMS[role] if rank in team.members)


def _played(orders: Orders) -> Facts:
    """The dumps of a job in which each rank waits for the end of a call before it issues its next one."""
    keys = {
        r: [(_team(r, o), tuple(order[: i + 1]).count(o)) for i, o in enumerate(order)] for r, order in orders.items()
    }
    at = dict.fromkeys(orders, 0)
    moved = True
    while moved:
        moved = False
        for rank, mine in keys.items():
            if at[rank] < len(mine) and all(mine[at[rank]] in keys[m][: at[m] + 1] for m in mine[at[rank]][0].members):
                at[rank], moved = at[rank] + 1, True
    recorded = []
    for rank, mine in keys.items():
        one = RecordedRank(rank, *(team for teams in TEAMS.values() for team in teams))
        for i, (team, _) in enumerate(mine[: at[rank] + 1]):
            one.call("barrier" if team.desc == "default_pg" else "all_reduce", team, done=i < at[rank])
        recorded.append(one)
    return facts(*recorded)


def _with(*changed: int, order: Sequence[str], program: Sequence[str] = MESH) -> Orders:
    return {rank: order if rank in changed else program for rank in range(4)}


def _without(*places: int) -> list[str]:
    return [role for i, role in enumerate(MESH) if i not in places]


def _swapped(place: int) -> list[str]:
    return [*MESH[:place], MESH[place + 1], MESH[place], *MESH[place + 2 :]]


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("place", [19, 21, 23])
def test_a_skipped_call_of_one_group_is_counted_at_the_calls_of_the_others(rank: int, place: int) -> None:
    found = _played(_with(rank, order=_without(place)))
    orders = compare_orders(found, tuple(found.wait_graph.calls.values()))
    assert set(orders.departed) == {rank}
    assert orders.departed[rank].change is Change.FEWER
    assert rank not in orders.in_order
    (finding, *_) = diagnose(found).findings
    assert (finding.cause, finding.ranks) == (CauseClass.MISSED_CALL, Ranks([rank]))


@pytest.mark.parametrize("rank", range(4))
def test_an_added_call_may_be_a_skipped_one_of_another_group(rank: int) -> None:
    found = _played(_with(rank, order=[*MESH[:20], "dp", *MESH[20:]]))
    orders = compare_orders(found, tuple(found.wait_graph.calls.values()))
    assert {r: change.rival for r, change in orders.departed.items()} == {rank: True}
    (finding, *_) = diagnose(found).findings
    assert finding.ranks == Ranks([rank])
    assert finding.cause is CauseClass.EXTRA_CALL or finding.confidence is not Confidence.HIGH


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("place", [16, 25])
def test_swapped_calls_name_their_rank_or_nobody(rank: int, place: int) -> None:
    found = _played(_with(rank, order=_swapped(place)))
    for finding in diagnose(found).findings:
        assert finding.ranks in (Ranks([rank]), Ranks())
        assert finding.cause is CauseClass.ORDER_INVERSION or finding.confidence is not Confidence.HIGH


@pytest.mark.parametrize("rank", range(4))
def test_calls_that_were_only_moved_leave_the_counts_equal(rank: int) -> None:
    found = _played(_with(rank, order=[*_swapped(18)[:25], *MESH[26:]]))
    orders = compare_orders(found, tuple(found.wait_graph.calls.values()))
    assert all(change.change in (Change.MOVED, Change.OPEN) for change in orders.departed.values())


@pytest.mark.parametrize("rank", range(4))
def test_a_rank_that_leaves_the_loop_early_is_named_or_nobody(rank: int) -> None:
    found = _played(_with(rank, order=[*MESH[:22], "world", *MESH[27:]]))
    for finding in diagnose(found).findings:
        assert finding.ranks in (Ranks([rank]), Ranks())


def test_two_against_two_names_nobody_surely() -> None:
    found = _played(_with(0, 2, order=_without(21)))
    orders = compare_orders(found, tuple(found.wait_graph.calls.values()))
    assert (orders.departed, orders.in_order) == ({}, Ranks())
    assert all(f.confidence is not Confidence.HIGH for f in diagnose(found).findings)


def test_a_rank_that_only_stands_behind_its_peers_is_in_order() -> None:
    found = _played(_with(2, order=_without(19)))
    orders = compare_orders(found, tuple(found.wait_graph.calls.values()))
    assert 0 in orders.in_order
    assert 2 not in orders.in_order


@pytest.mark.parametrize("rank", range(4))
def test_one_call_in_front_of_the_barrier_shows_no_way(rank: int) -> None:
    program = [*["tp"] * 4, "world"] * 3
    found = _played(_with(rank, order=[*program[:13], *program[14:]], program=program))
    orders = compare_orders(found, tuple(found.wait_graph.calls.values()))
    assert {r: change.change for r, change in orders.departed.items()} == {rank: Change.OPEN}
    for finding in diagnose(found).findings:
        assert finding.ranks in (Ranks([rank]), Ranks())
        assert finding.confidence is not Confidence.HIGH
