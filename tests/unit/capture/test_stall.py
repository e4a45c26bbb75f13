"""When a rank counts as stopped."""

from __future__ import annotations

import math

import pytest

from nccldoctor.capture.stall import Limit, Standstill, stall_limit


@pytest.mark.parametrize(
    ("timeout", "limit"), [(600.0, 200.0), (1800.0, 600.0), (60.0, 30.0), (16.0, 12.8), (None, 100.0)]
)
def test_the_limit_is_a_third_of_the_timeout_with_a_floor_below_it(timeout: float | None, limit: float) -> None:
    found = stall_limit(timeout, None)
    assert found.least == pytest.approx(limit)
    assert timeout is None or found.least <= found.most < timeout


def test_what_the_user_asked_for_counts() -> None:
    assert stall_limit(600.0, 5.0) == Limit(5.0, 5.0)


def test_a_job_of_long_steps_is_given_longer_but_never_the_whole_timeout() -> None:
    standstill = Standstill(stall_limit(600.0, None), since=0.0)
    assert standstill.has_changed((1,), 0.0)
    assert standstill.has_changed((2,), 100.0)
    assert standstill.seconds == 300.0
    assert standstill.has_changed((3,), 350.0)
    assert standstill.seconds == 480.0


def test_a_stall_is_looked_at_twice_and_progress_begins_anew() -> None:
    standstill = Standstill(Limit(10.0, 10.0), since=0.0)
    assert standstill.has_changed((1,), 0.0)
    taken = []
    for now in range(1, 40):
        assert not standstill.has_changed((1,), now)
        if standstill.is_due(now):
            standstill.looks.append(now)
            taken.append(now)
    assert taken == [10, 12]
    assert standstill.has_changed((2,), 40.0)
    assert not standstill.is_due(49.0)
    assert standstill.is_due(50.0)


@pytest.mark.parametrize("asked", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_time_is_refused(asked: float) -> None:
    with pytest.raises(ValueError, match="is no time"):
        stall_limit(None, asked)


@pytest.mark.parametrize(("world", "seconds"), [(8, 1.0), (500, 5.0), (20_000, 30.0), (None, 30.0)])
def test_ranks_see_a_request_at_once_unless_they_are_thousands(world: int | None, seconds: float) -> None:
    assert stall_limit(1800.0, None).listing_s(world) == pytest.approx(seconds)


def test_a_short_stall_is_seen_in_time_whatever_the_number_of_ranks() -> None:
    assert stall_limit(None, 5.0).listing_s(20_000) == pytest.approx(0.25)
