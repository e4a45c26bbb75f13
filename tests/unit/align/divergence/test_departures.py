"""How a rank parts from its peers: calls missed, added or replaced, by what the group always issued there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from builders.jobs.cases import RecordedRank, case
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.align.call_sequences import CallSequences
from nccldoctor.align.divergence.departures import Departure, Way, find_departure
from nccldoctor.align.divergence.mismatches import first_mismatch
from nccldoctor.align.progress.table import build_progress_table

Call = tuple[str, int, int]
"""Operation, elements, and the line that issues it (0: no frames)."""

STEP: tuple[Call, ...] = (
    ("all_gather", 64, 10),
    ("reduce_scatter", 64, 20),
    ("all_reduce", 128, 30),
    ("all_reduce", 256, 30),
    ("all_reduce", 1, 40),
)


def frames(line: int, outer: int = 300) -> list[dict[str, Any]]:
    if not line:
        return []
    return [
        {"name": "step", "filename": "train.py", "line": line},
        {"name": "main", "filename": "train.py", "line": outer},
    ]


def stream(rank: int, calls: Sequence[Call], outer: int = 300) -> RecordedRank:
    recorded = RecordedRank(rank)
    for op, count, line in calls:
        recorded.call(op, n=count, frames=frames(line, outer if line > 99 else 300))
    return recorded


def parted(own: Sequence[Call], peers: Sequence[Call], rank: int = 2, outer: int = 300) -> Departure | None:
    found = case(*(stream(r, own if r == rank else peers, outer) for r in range(4)))
    table = build_progress_table(found)
    first = first_mismatch(found, table, 0, 999)
    assert first is not None
    return find_departure(CallSequences(found, table), first, rank)


def way(own: Sequence[Call], peers: Sequence[Call], **more: Any) -> tuple[int, str, int, bool]:
    """Number, way, count of calls, and whether nothing else fits."""
    found = parted(own, peers, **more)
    assert found is not None
    return found.seq, found.way.value, found.count, not found.rivals


def bare(calls: Sequence[Call]) -> list[Call]:
    return [(op, count, 0) for op, count, _ in calls]


@pytest.mark.parametrize("strip", [list, bare])
def test_one_call_is_enough_where_the_past_shows_what_follows(strip: Any) -> None:
    """The peers still wait in the call that was skipped: no later number of theirs is recorded."""
    past = strip(STEP * 6)
    assert way([*past, strip(STEP)[1]], [*past, strip(STEP)[0]]) == (31, "missed", 1, True)


def test_one_odd_step_does_not_outvote_the_others() -> None:
    """In one step of 13 the second call came first."""
    odd = [STEP[1], *STEP]
    past = [*STEP * 6, *odd, *STEP * 6]
    own = [*past, STEP[1], *STEP[2:]]
    assert way(own, [*past, STEP[0]]) == (len(past) + 1, "missed", 1, True)


def test_sizes_that_change_with_every_step_have_no_vote() -> None:
    """Sequences of other lengths: the call sites tell what is due."""
    past = [(op, count + 8 * i, line) for i in range(6) for op, count, line in STEP]
    own = [*past, ("reduce_scatter", 999, 20), ("all_reduce", 998, 30)]
    assert way(own, [*past, ("all_gather", 777, 10)]) == (31, "missed", 1, True)


def test_another_size_at_the_same_line_is_no_missed_call() -> None:
    past = list(STEP * 6)
    assert way([*past, ("all_gather", 65, 10)], [*past, STEP[0]]) == (31, "replaced", 1, True)


def test_another_operation_between_calls_that_fit() -> None:
    past = list(STEP * 6)
    own = [*past, STEP[0], ("broadcast", 64, 55), *STEP[2:]]
    assert way(own, [*past, *STEP[:2]]) == (32, "replaced", 1, True)


def test_another_operation_on_the_same_data() -> None:
    past = list(STEP * 6)
    assert way([*past, ("broadcast", 64, 55)], [*past, STEP[0]]) == (31, "replaced", 1, True)


def test_a_new_call_that_nothing_follows_stays_open() -> None:
    """Another call in the place of one, or one too many: the rank stops before that shows."""
    past = list(STEP * 6)
    assert way([*past, ("broadcast", 7, 55)], [*past, STEP[0]]) == (31, "replaced", 1, False)


def test_a_new_call_behind_which_the_usual_ones_follow() -> None:
    past = list(STEP * 6)
    assert way([*past, ("broadcast", 7, 55), *STEP[:3]], [*past, STEP[0]]) == (31, "added", 1, True)


def test_a_call_from_outside_the_loop() -> None:
    """All calls came through line 300 of the outer function, this one comes through line 310."""
    past = list(STEP * 6)
    assert way([*past, ("all_gather", 7, 101)], [*past, STEP[0]], outer=310)[1:3] == ("missed", 1)
    assert way([*past, ("all_gather", 7, 101)], [*past, STEP[0]])[1:3] == ("replaced", 1)


def test_the_rest_of_a_step_is_missed() -> None:
    past = list(STEP * 6)
    own = [*past, *STEP[:2], *STEP, *STEP]
    assert way(own, [*past, *STEP[:3]]) == (33, "missed", 3, False)


def test_a_call_issued_twice_or_a_step_left_after_its_first_call() -> None:
    past = list(STEP * 6)
    assert way([*past, STEP[0], *STEP], [*past, *STEP]) == (32, "added", 1, False)


def test_a_branch_for_one_rank_is_no_departure() -> None:
    """Rank 2 always issues its reduction from a line of its own; now its size differs."""
    usual = ("all_reduce", 1, 40)
    branch = ("all_reduce", 1, 45)
    own = [branch if call == usual else call for call in STEP * 6]
    assert way([*own, ("all_gather", 65, 10)], [*STEP * 6, STEP[0]]) == (31, "replaced", 1, True)


def test_a_stream_that_goes_its_own_way() -> None:
    found = parted([*STEP, *([("barrier", 1, 0)] * 8)], bare(STEP * 3))
    assert found is None or found.rivals


@settings(max_examples=60, deadline=None)
@given(
    at=st.integers(0, 4),
    steps=st.integers(2, 9),
    more=st.integers(1, 12),
    rank=st.integers(0, 3),
    fault=st.sampled_from(Way),
)
def test_the_way_is_found_wherever_it_happens(at: int, steps: int, more: int, rank: int, fault: Way) -> None:
    """A fault at any call of any step, with any number of calls behind it."""
    past, rest = [*STEP * steps, *STEP[:at]], [*STEP[at:], *STEP * 3]
    own = {
        Way.MISSED: [*past, *rest[1:]],
        Way.ADDED: [*past, ("broadcast", 7, 55), *rest],
        Way.REPLACED: [*past, ("broadcast", 7, 55), *rest[1:]],
    }[fault][: len(past) + 1 + more]
    found = parted(own, [*past, rest[0]], rank)
    assert found is not None
    assert (found.seq, found.way, found.count, found.rivals) == (len(past) + 1, fault, 1, ())
