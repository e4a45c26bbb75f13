"""Same place, same call? The minority is blamed, and a tie is a tie."""

from __future__ import annotations

from typing import Any

import pytest
from builders.jobs.cases import WORLD, RecordedRank, Team, case, world

from nccldoctor.align.divergence.mismatches import Mismatch, compare_calls, first_mismatch, rows_at
from nccldoctor.align.progress.table import build_progress_table
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks


def at(found: Case, seq: int, group: int = 0) -> Mismatch | None:
    return compare_calls(found, group, seq, rows_at(found, build_progress_table(found), group, seq))


def fourth(*different: tuple[int, str, dict[str, Any]], size: int = 4) -> Case:
    """Three calls in common; in the fourth some ranks issue something else."""
    changed = {rank: (op, more) for rank, op, more in different}
    recorded_ranks = []
    for rank in range(size):
        op, more = changed.get(rank, ("all_reduce", {}))
        recorded_ranks.append(RecordedRank(rank, world(size)).calls(3).call(op, done=False, **more))
    return case(*recorded_ranks)


# ---- one number


def test_the_same_call_everywhere() -> None:
    found = fourth()
    assert at(found, 4) is None
    assert first_mismatch(found, build_progress_table(found), 0, 4) is None


@pytest.mark.parametrize(
    ("op", "more", "aspect"),
    [
        ("broadcast", {}, "op"),
        ("all_reduce", {"n": 9}, "size"),
        ("all_reduce", {"output_sizes": [[9]]}, "size"),
        ("all_reduce", {"input_dtypes": ["Half"], "output_dtypes": ["Half"]}, "dtype"),
        ("broadcast", {"n": 9, "input_dtypes": ["Half"]}, "op"),
        ("all_reduce", {"n": 9, "input_dtypes": ["Half"]}, "size"),
    ],
)
@pytest.mark.parametrize("odd", [0, 3])
def test_the_minority_is_named_whoever_it_is(op: str, more: dict[str, Any], aspect: str, odd: int) -> None:
    found = at(fourth((odd, op, more)), 4)
    assert found is not None
    assert (found.aspect, found.minority, found.majority) == (aspect, Ranks([odd]), Ranks(range(4)) - [odd])
    assert not found.is_tie


def test_a_call_without_a_name_differs_from_none() -> None:
    found = fourth((2, "", {"profiling_name": ""}))
    assert at(found, 4) is None
    assert any("without the name" in gap.why and gap.odd for gap in found.gaps)


def test_a_tie_names_nobody() -> None:
    found = at(fourth((0, "broadcast", {}), (1, "broadcast", {})), 4)
    assert found is not None and found.is_tie
    assert (found.minority, found.majority) == (Ranks(), Ranks())
    assert found.sides == (Ranks([0, 1]), Ranks([2, 3]))


def test_a_plurality_is_no_majority() -> None:
    different = [(0, "broadcast", {}), (1, "barrier", {}), (2, "reduce", {})]
    found = at(fourth(*different, size=5), 4)
    assert found is not None and found.is_tie
    assert found.sides[0] == Ranks([3, 4])


def test_two_that_differ_in_different_ways_are_both_the_minority() -> None:
    found = at(fourth((1, "broadcast", {}), (4, "barrier", {}), size=5), 4)
    assert found is not None
    assert (found.minority, found.majority) == (Ranks([1, 4]), Ranks([0, 2, 3]))


def test_one_entry_is_nothing_to_compare() -> None:
    found = case(RecordedRank(0).call())
    assert at(found, 1) is None
    assert at(found, 99) is None


def test_sizes_of_an_all_to_all_may_differ() -> None:
    recorded_ranks = [RecordedRank(r).call("all_to_all", n=8 + r) for r in range(4)]
    found = case(*recorded_ranks)
    assert at(found, 1) is None
    assert first_mismatch(found, build_progress_table(found), 0, 1) is None


@pytest.mark.parametrize(
    ("op", "root_only"),
    [("scatter", {"input_sizes": [[32]]}), ("gather", {"output_sizes": [[32]]}), ("reduce", {"output_sizes": [[32]]})],
)
def test_what_only_a_root_has_may_differ(op: str, root_only: dict[str, Any]) -> None:
    found = case(RecordedRank(0).call(op, **root_only), *(RecordedRank(r).call(op) for r in (1, 2, 3)))
    assert at(found, 1) is None
    assert first_mismatch(found, build_progress_table(found), 0, 1) is None


def test_the_rest_of_a_rooted_call_must_agree() -> None:
    found = at(case(RecordedRank(0).call("scatter", n=16), *(RecordedRank(r).call("scatter") for r in (1, 2, 3))), 1)
    assert found is not None and found.minority == Ranks([0])


def test_dtypes_that_were_not_recorded_say_nothing() -> None:
    bare = {"input_dtypes": [], "output_dtypes": []}
    assert at(fourth((1, "all_reduce", bare)), 4) is None


# ---- the earliest


def test_the_earliest_number_counts_not_the_one_that_hangs() -> None:
    recorded_ranks = [
        RecordedRank(r).calls(2).call(n=9 if r == 2 else 8).call("barrier" if r == 1 else "all_reduce", done=False)
        for r in range(4)
    ]
    found = case(*recorded_ranks)
    first = first_mismatch(found, build_progress_table(found), 0, 4)
    assert first is not None and (first.seq, first.minority) == (3, Ranks([2]))


def test_nothing_above_the_limit_is_looked_at() -> None:
    recorded_ranks = [RecordedRank(r).calls(2).call(n=9 if r == 2 else 8) for r in range(4)]
    found = case(*recorded_ranks)
    assert first_mismatch(found, build_progress_table(found), 0, 2) is None


def test_only_what_the_rings_still_hold_is_compared() -> None:
    recorded_ranks = [RecordedRank(r).call(n=9 if r == 2 else 8).calls(5) for r in range(4)]
    recorded_ranks[2].kept(2)
    found = case(*recorded_ranks)
    assert first_mismatch(found, build_progress_table(found), 0, 6) is None


def test_another_group_is_another_matter() -> None:
    pair = Team("1", "tp", (0, 1))
    recorded_ranks = [RecordedRank(r, WORLD, pair).call(n=9 if r == 1 else 8, team=pair).call() for r in (0, 1)]
    found = case(*recorded_ranks, RecordedRank(2).call(), RecordedRank(3).call())
    assert first_mismatch(found, build_progress_table(found), 0, 9) is None
    assert first_mismatch(found, build_progress_table(found), 1, 9) is not None


def test_numbers_that_jump_far_do_not_cost_memory() -> None:
    recorded_ranks = [RecordedRank(r).call().call(collective_seq_id=10**12) for r in range(4)]
    found = case(*recorded_ranks)
    assert first_mismatch(found, build_progress_table(found), 0, 10**12) is None
