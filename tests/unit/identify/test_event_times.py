"""One clock: the year, the zone, and what cannot be placed."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from builders.jobs.cases import START, Log, RecordedRank, case, gave_up, said, wall

from nccldoctor.events import Events, ExceptionRaised, Heartbeat, ProcessExit
from nccldoctor.identify.event_times import YEARLESS, event_seconds, with_year
from nccldoctor.model.recorded_calls import Batch

EAST = timezone(timedelta(hours=5, minutes=45))


def alone(*times: datetime | None) -> list[float]:
    """The clock of lines without any dump."""
    found = event_seconds(Events(said(Heartbeat, 0, time=t) for t in times), Batch.empty(), [])
    return [float(s) for s in found]


def test_lines_that_name_their_zone_are_taken_at_their_word() -> None:
    utc = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert alone(utc, utc.astimezone(EAST)) == [utc.timestamp()] * 2


def test_lines_without_a_time_have_none() -> None:
    (one,) = alone(None)
    assert math.isnan(one)


def test_naive_lines_keep_their_distances() -> None:
    first, second = alone(datetime(2026, 5, 1, 12), datetime(2026, 5, 1, 12, 10))
    assert second - first == 600


def test_naive_lines_are_in_the_zone_that_the_others_name() -> None:
    local = datetime(2026, 5, 1, 12)
    aware = local.replace(tzinfo=EAST)
    naive, named = alone(local, aware)
    assert naive == named


def test_the_zone_that_most_lines_name() -> None:
    local = datetime(2026, 5, 1, 12)
    found = alone(local.replace(tzinfo=UTC), local.replace(tzinfo=EAST), local.replace(tzinfo=EAST), local)
    assert found[3] == found[1] != found[0]


def test_the_year_comes_from_dated_lines() -> None:
    yearless, dated = alone(datetime(YEARLESS, 5, 1, 12), datetime(2023, 5, 1, 12))
    assert yearless == dated


@pytest.mark.parametrize("hours", [0, -7, 9, 5.75, 13])
def test_the_recorder_tells_the_zone_and_the_year_of_the_log(hours: float) -> None:
    # the line is in local time; its call was issued 600 s before, on the recorder's true clock
    recorded = RecordedRank(2).calls(3).pause(100).call(done=False)
    shown = (wall(100 + 600.4) + timedelta(hours=hours)).replace(tzinfo=None, year=YEARLESS)
    found = case(recorded, logs=[Log("r2.log", [gave_up(2, 4, time=shown, ran_ms=600_003)], rank=2)])
    assert found.seconds[0] == pytest.approx(START + 700.4, abs=0.01)


def test_a_watchdog_that_woke_late_by_minutes_tells_no_zone() -> None:
    # ten minutes off: no zone is near that, so the line stays where it is
    recorded = RecordedRank(2).calls(3).pause(100).call(done=False)
    shown = wall(100 + 600 + 600).replace(tzinfo=None)
    found = case(recorded, logs=[Log("r2.log", [gave_up(2, 4, time=shown)], rank=2)])
    assert found.seconds[0] == pytest.approx(START + 1300, abs=0.01)


def test_one_odd_line_does_not_move_the_zone() -> None:
    recorded_ranks = [RecordedRank(r).pause(100).call(done=False) for r in range(3)]
    right = (wall(700) + timedelta(hours=2)).replace(tzinfo=None)
    odd = (wall(700) + timedelta(hours=9)).replace(tzinfo=None)
    logs = [Log(f"r{r}.log", [gave_up(r, 1, time=t)], rank=r) for r, t in enumerate((right, right, odd))]
    assert case(*recorded_ranks, logs=logs).seconds[:2] == pytest.approx(np.array([START + 700] * 2), abs=0.01)


def test_a_call_of_the_same_number_and_another_size_is_not_the_same() -> None:
    recorded = RecordedRank(2).pause(100).call(n=16, done=False)
    shown = (wall(700) + timedelta(hours=3)).replace(tzinfo=None)
    with_size = gave_up(2, 1, time=shown, numel_in=16)
    other_size = gave_up(2, 1, time=shown, numel_in=99)
    assert case(recorded, logs=[Log("r.log", [with_size], rank=2)]).seconds[0] == pytest.approx(START + 700, abs=0.01)
    found = case(recorded, logs=[Log("r.log", [other_size], rank=2)])
    assert found.seconds[0] == pytest.approx(START + 700 + 3 * 3600, abs=0.01)


@pytest.mark.parametrize(
    ("hours", "after", "zone"), [(0, 60, 0), (8, 60, 8), (-7, 700, -7), (5.5, 9, 5.5), (2, 900, 0)]
)
def test_where_no_timeout_has_a_time_the_end_that_a_launcher_saw_tells_the_zone(
    hours: float, after: float, zone: float
) -> None:
    recorded = RecordedRank(2).calls(3).pause(100).call(done=False)
    shown = (wall(700 + after) + timedelta(hours=hours)).replace(tzinfo=None)
    gone = said(ProcessExit, 2, time=shown, exitcode=-6)
    found = case(recorded, logs=[Log("r2.log", [gave_up(2, 4, None)], rank=2), Log("launcher.log", [gone])])
    assert found.seconds[1] == pytest.approx(START + 700 + after + (hours - zone) * 3600, abs=0.01)


@pytest.mark.parametrize("hours", [-7, 5.75, 8])
def test_the_launchers_table_of_failures_beside_the_error_files_tells_the_zone(hours: float) -> None:
    """``error.json`` has seconds since 1970, the table local time; step lines are local as well."""
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    local = (at + timedelta(hours=hours)).replace(tzinfo=None)
    events = Events(
        [
            said(ExceptionRaised, 0, type="RuntimeError", time=at),
            said(ProcessExit, 0, exitcode=1, time=local + timedelta(seconds=2)),
            said(Heartbeat, 1, step=3, time=local - timedelta(seconds=9)),
        ]
    )

    assert event_seconds(events, Batch.empty(), []).tolist()[2] == at.timestamp() - 9


def test_an_end_long_after_the_exception_tells_no_zone() -> None:
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    ended = said(ProcessExit, 0, exitcode=1, time=(at + timedelta(hours=3, minutes=6)).replace(tzinfo=None))
    raised = said(ExceptionRaised, 0, type="RuntimeError", time=at)

    assert event_seconds(Events([raised, ended]), Batch.empty(), []).tolist()[1] == at.timestamp() + 3 * 3600 + 360


@pytest.mark.parametrize(
    ("printed", "seconds", "year"),
    [
        (datetime(YEARLESS, 11, 22, 7), datetime(2026, 11, 22, 7, tzinfo=UTC), 2026),
        (datetime(YEARLESS, 1, 1, 2), datetime(2026, 12, 31, 18, tzinfo=UTC), 2027),
        (datetime(YEARLESS, 12, 31, 20), datetime(2027, 1, 1, 3, tzinfo=UTC), 2026),
        (datetime(YEARLESS, 11, 22, 7), datetime(2000, 11, 22, 7, tzinfo=UTC), YEARLESS),
        (datetime(2024, 11, 22, 7), datetime(2026, 11, 22, 7, tzinfo=UTC), 2024),
    ],
    ids=["the year of the job", "east of UTC", "west of UTC", "no line has a year", "its own year"],
)
def test_a_line_without_a_year_is_of_the_year_of_the_job(printed: datetime, seconds: datetime, year: int) -> None:
    assert with_year(printed, seconds.timestamp()) == printed.replace(year=year)
    assert with_year(printed, math.nan) == printed
