"""Who is behind, and since when: by the steps that ranks report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import pytest
from builders.jobs.cases import NOWHERE

from nccldoctor.align.divergence.step_counters import Delay, Pace, measure_pace
from nccldoctor.align.liveness import RankActivity
from nccldoctor.events import Event, Heartbeat, Phase

Steps = Iterable[tuple[int, float]]
"""Steps of one rank, each with the second in which it was reported."""


def paced(by_rank: Mapping[int, Steps], now: float, words: Mapping[int, str] | None = None, ended: int = -1) -> Pace:
    """The pace of a job whose ranks print ``step 12`` at given seconds; ``ended`` is a rank that finished."""
    written: dict[int, float] = {}
    activities = {}
    kept: list[Event] = []
    for rank, steps in by_rank.items():
        lines = []
        for step, second in steps:
            text = f"{(words or {}).get(rank, 'rank')} {rank} step {step}"
            line = Heartbeat(place=NOWHERE, rank=rank, text=text, step=step)
            written[id(line)] = second
            lines.append(line)
        kept += lines
        end = Phase(place=NOWHERE, rank=rank, text="done", what="finished")
        activities[rank] = RankActivity(rank, steps=tuple(lines), phases=(end,) * (rank == ended))
    return measure_pace(activities, lambda event: written.get(id(event), math.nan), now)


def even(last: int, late: float = 0.0) -> list[tuple[int, float]]:
    """Steps 1 to ``last``, one a second."""
    return [(step, step + late) for step in range(1, last + 1)]


def test_a_rank_is_behind_since_half_of_its_peers_passed_it() -> None:
    job = {rank: even(21, 0.1 * rank) for rank in range(4)} | {5: even(20)}
    assert paced(job, now=61.2).behind == (Delay(5, pytest.approx(40.0), 20, 21),)  # rank 2 passed it at 21.2


def test_nobody_is_behind_where_all_report_the_same_step() -> None:
    pace = paced({rank: even(20) for rank in range(4)}, now=100.0)
    assert pace == Pace(quiet=80.0, usual=1.0, longest=1.0)


def test_half_of_the_peers_are_not_most() -> None:
    assert not paced({0: even(21), 1: even(20), 2: even(20)}, now=90.0).behind


def test_ranks_that_print_other_lines_are_not_compared() -> None:
    job = {rank: even(21) for rank in range(4)} | {4: even(20)}
    assert not paced(job, now=90.0, words={4: "sampler of rank"}).behind


def test_a_rank_that_reports_every_tenth_step_is_behind_when_it_misses_one() -> None:
    job = {rank: even(29) for rank in range(4)} | {4: [(10, 10.0), (20, 20.0)]}
    assert not paced(job, now=29.0).behind
    assert [delay.rank for delay in paced(job, now=31.0).behind] == [4]


def test_heartbeats_at_intervals_of_time_are_compared_whatever_the_phase() -> None:
    """Capture writes one a second: the steps between two of them differ."""
    steps = [(3, 1.0), (9, 2.0), (11, 3.0), (18, 4.0)]
    job = {rank: [*steps, (25, 5.0), (31, 6.0)] for rank in range(3)} | {3: steps}
    words = dict.fromkeys(range(3), "heartbeat: phase=train of") | {3: "heartbeat: phase=checkpoint of"}
    (delay,) = paced(job, now=45.0, words=words).behind
    assert (delay.rank, delay.seconds, delay.step, delay.peers_step) == (3, 40.0, 18, 31)


def test_a_rank_that_finished_is_behind_nobody() -> None:
    job = {rank: even(21) for rank in range(4)} | {4: even(20)}
    assert paced(job, now=90.0).behind
    assert not paced(job, now=90.0, ended=4).behind


def test_lines_without_a_time_tell_no_delay() -> None:
    job = {rank: [(step, math.nan) for step in range(1, 21 + (rank < 3))] for rank in range(4)}
    pace = paced(job, now=90.0)
    assert not pace.behind
    assert math.isnan(pace.quiet) and math.isnan(pace.usual) and math.isnan(pace.longest)


def test_the_longest_pause_is_that_between_steps_of_the_job() -> None:
    pace = paced(
        {0: [(1, 1.0), (2, 2.0), (3, 60.0), (4, 61.0)], 1: [(1, 1.5), (2, 2.5), (3, 60.5), (4, 61.5)]}, now=70.0
    )
    assert (pace.quiet, pace.usual, pace.longest) == (9.0, 1.0, 58.0)


def test_the_farthest_behind_comes_first() -> None:
    job = {rank: even(30) for rank in range(6)} | {6: even(20), 7: even(10)}
    assert [(delay.rank, delay.seconds) for delay in paced(job, now=40.0).behind] == [(7, 29.0), (6, 19.0)]
