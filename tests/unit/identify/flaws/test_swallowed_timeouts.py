"""Calls that ranks made after they swallowed a timeout are left out; all others stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders.jobs.cases import RecordedRank, case, world

from nccldoctor.identify.flaws.swallowed_timeouts import without_later_calls

LIMIT = 600.0
"""Seconds; what the recorder of :class:`RecordedRank` writes."""


def waiter(rank: int, later: int = 3) -> RecordedRank:
    """Waits in call #3 until its limit, and then makes ``later`` calls."""
    return RecordedRank(rank, backend="gloo").calls(3).pause(LIMIT + 0.1).calls(later)


def absent(rank: int) -> RecordedRank:
    return RecordedRank(rank, backend="gloo").calls(2)


def kept(*recorders: RecordedRank) -> list[int]:
    """The number of calls that are kept of each rank."""
    found = without_later_calls(case(*recorders))
    return [int((found.call_rank == recorder.rank).sum()) for recorder in recorders]


def test_calls_after_a_swallowed_timeout_are_left_out_and_said() -> None:
    ranks = [waiter(0), waiter(1), waiter(2, later=7), absent(3)]
    assert kept(*ranks) == [3, 3, 3, 2]
    (gap,) = [gap for gap in without_later_calls(case(*ranks)).gaps if gap.what == "recorded calls after a timeout"]
    assert gap.why.startswith("13 calls left out") and str(gap.ranks) == "0-2"


def test_the_failed_call_counts_as_open_though_the_recorder_let_go_of_it() -> None:
    found = without_later_calls(case(waiter(0), waiter(1), waiter(2), absent(3)))
    assert found.calls.retired[found.calls.seq == 3].tolist() == [False] * 3
    assert found.calls.retired[found.calls.seq == 2].all()


def test_a_late_entry_into_the_failed_call_stays_and_what_follows_goes() -> None:
    late = RecordedRank(3, backend="gloo").calls(2).pause(LIMIT + 30).calls(4)
    assert kept(waiter(0), waiter(1), waiter(2), late) == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "last",
    [
        lambda: RecordedRank(3, backend="gloo").calls(3).pause(LIMIT + 0.1).calls(3),
        lambda: RecordedRank(3, backend="gloo").calls(2).pause(LIMIT - 5).calls(4),
        lambda: RecordedRank(3, backend="gloo").calls(9).kept(2),
    ],
    ids=["all made the call and paused", "late within the limit", "the dump lost that call"],
)
def test_a_long_pause_alone_is_no_timeout(last: Callable[[], RecordedRank]) -> None:
    ranks = [waiter(0), waiter(1), waiter(2), last()]
    assert kept(*ranks) == [len(recorder.entries) for recorder in ranks]


@pytest.mark.parametrize("op", ["broadcast", "reduce"])
def test_a_call_that_some_ranks_may_leave_early_proves_no_timeout(op: str) -> None:
    ranks = [RecordedRank(r, backend="gloo").calls(2).call(op).pause(LIMIT + 1).calls(3) for r in range(3)]
    assert kept(*ranks, absent(3)) == [6, 6, 6, 2]


def test_calls_that_do_not_wait_or_finished_are_no_timeout() -> None:
    queued = [RecordedRank(r).calls(2).calls(5, done=False) for r in range(3)]
    assert kept(*queued, RecordedRank(3).calls(2)) == [7, 7, 7, 2]
    done = [RecordedRank(r).calls(3).pause(LIMIT + 1).calls(3) for r in range(3)]
    assert kept(*done, RecordedRank(3).calls(2)) == [6, 6, 6, 2]


def test_nothing_changes_where_nothing_was_swallowed() -> None:
    whole = case(*(RecordedRank(r, world(2), backend="gloo").calls(4) for r in range(2)))
    assert without_later_calls(whole) is whole
