"""The calls of a culprit beside a peer's: a skipped or extra call shows where it happened."""

from __future__ import annotations

import pytest
from builders.jobs.cases import RecordedRank, facts
from builders.remedies.fixtures_conditions import blames
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.model.figures import CallDiff
from nccldoctor.summarise.call_diff import AFTER, BEFORE, aligned, call_diff

STEP = ("all_gather", "all_reduce", "reduce_scatter", "broadcast")


def kinds(left: str, right: str) -> str:
    short = {"same": "=", "differs": "!", "left-only": "<", "right-only": ">"}
    return "".join(short[kind] for _, _, kind in aligned([ord(c) for c in left], [ord(c) for c in right]))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("abcd", "abcd", "===="),
        ("abdabc", "abcdabc", "==>===="),
        ("abxcdabc", "abcdabc", "==<====="),
        ("abxdabc", "abcdabc", "==!===="),
        ("ab", "abcd", "==>>"),
        ("", "", ""),
        ("abab", "cdcd", "!!!!"),
    ],
)
def test_streams_line_up_again(left: str, right: str, expected: str) -> None:
    assert kinds(left, right) == expected


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=60))
def test_every_call_stands_once_and_in_order(left: list[int], right: list[int]) -> None:
    steps = aligned(left, right)
    assert [a for a, _, _ in steps if a is not None] == list(range(len(left)))
    assert [b for _, b, _ in steps if b is not None] == list(range(len(right)))
    assert all((left[a] == right[b]) == (kind == "same") for a, b, kind in steps if a is not None and b is not None)


def job(skips: int) -> CallDiff | None:
    """Eight steps of four calls; in one of them rank 2 leaves the second call out."""
    recorded_ranks = []
    for rank in range(4):
        recorded = RecordedRank(rank)
        for step in range(8):
            for n, op in enumerate(STEP):
                if (rank, step, n) != (2, skips, 1):
                    recorded.call(op, done=step < skips or n == 0)
        recorded_ranks.append(recorded)
    return call_diff(facts(*recorded_ranks), blames(2, (0, 1, 3)))


def test_a_skipped_call_is_shown_where_it_is_missing() -> None:
    pair = job(skips=7)

    assert pair is not None
    assert pair.left == 2
    missing = [row for row in pair.rows if row.kind == "right-only"]
    assert missing[0].right is not None
    assert missing[0].right.op == "ALLREDUCE"
    assert sum(row.kind == "same" for row in pair.rows) >= BEFORE


def test_the_excerpt_is_bounded_and_says_what_was_left_out() -> None:
    pair = job(skips=7)

    assert pair is not None
    assert len(pair.rows) <= BEFORE + AFTER + 1
    assert pair.before == 7 * len(STEP) + 1 - BEFORE


def test_nobody_to_compare_with_no_picture() -> None:
    found = facts(RecordedRank(0).calls(3).call(done=False))
    assert call_diff(found, blames(2, (0, 1))) is None
