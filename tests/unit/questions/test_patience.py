"""When a wait is trouble: by what the late rank does, the steps of the job so far, and the limit of the group."""

from __future__ import annotations

import math

import pytest
from builders.remedies.fixtures_conditions import at, case, stack
from msgspec.structs import replace

from nccldoctor.align.facts import align
from nccldoctor.align.standing.outside import standing_of
from nccldoctor.events import Event, Heartbeat, ProcessState, ProcessWork, Setting
from nccldoctor.questions.patience import has_waited_long, is_on_its_way, limit_ms

MAIN = "main (job.py:90)"
WAITS = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "sync (job.py:40)", MAIN)
JOINS = ("_create_c10d_store (torch/distributed/rendezvous.py:190)", "setup (job.py:10)", MAIN)
EVALUATES, SPINS = ("evaluate (job.py:12)", MAIN), ("converge (job.py:12)", MAIN)
STILL = ProcessWork(4000, 0, 0, 100, 0, 0, 0, 0, 0)
COMPUTES, MOVES = replace(STILL, cpu=3900), replace(STILL, cpu=40, written=1 << 24)
POLLS = replace(STILL, waits=20)


def job(does: ProcessWork | None, frames: tuple[str, ...], waits: tuple[str, ...], quiet: float, steps: int) -> list:
    """Two looks, 4 s apart, the first of them so many seconds after the last of the steps; a step takes one second."""
    found: list[tuple[Event, float]] = [
        (Heartbeat(place=at(line=n), text="step", rank=0, step=n), 1000.0 + n) for n in range(steps)
    ]
    for look, moment in ((1, 1000.0 + steps - 1 + quiet), (2, 1004.0 + steps - 1 + quiet)):
        for rank in range(4):
            shown = stack(rank, *(frames if rank == 3 else waits))
            found.append((replace(shown, look=look), moment))
    for rank in range(4):
        did = does if rank == 3 else STILL
        row = ProcessState(place=at("ps.txt", 2 + rank, 1), text="row", rank=rank, state="sleeping", did=did)
        found.append((row, math.nan))
    return found


@pytest.mark.parametrize(
    ("does", "frames", "quiet", "steps", "holds"),
    [
        (COMPUTES, EVALUATES, 20.0, 10, True),
        (MOVES, EVALUATES, 20.0, 10, True),
        (COMPUTES, EVALUATES, 250.0, 10, False),  # a third of the limit is over
        (STILL, EVALUATES, 20.0, 10, False),
        (POLLS, EVALUATES, 20.0, 10, False),
        (replace(STILL, threads=9000), EVALUATES, 20.0, 10, True),  # a compiler with threads of its own
        (replace(STILL, threads=300), EVALUATES, 20.0, 10, False),  # those of the libraries
        (COMPUTES, SPINS, 20.0, 10, False),  # no name says that this is not of every step
        (MOVES, SPINS, 20.0, 10, True),  # what writes a file is at work, whatever its function is called
        (COMPUTES, SPINS, 20.0, 0, True),  # the first step compiles
        (STILL, SPINS, -2.0, 10, True),  # no longer than steps have taken so far
        (None, EVALUATES, 20.0, 10, False),  # nobody measured it
    ],
)
def test_work_may_hold_up_the_others_for_a_while(
    does: ProcessWork | None, frames: tuple[str, ...], quiet: float, steps: int, holds: bool
) -> None:
    found = job(does, frames, WAITS, quiet, steps)
    facts = align(case([event for event, _ in found], tuple(second for _, second in found)))
    assert is_on_its_way(facts, standing_of(facts.looks, facts.case.world)) is holds


def test_a_rank_that_has_not_joined_may_still_load_its_data() -> None:
    found = job(STILL, SPINS, JOINS, 20.0, 0)
    facts = align(case([event for event, _ in found], tuple(second for _, second in found)))
    assert is_on_its_way(facts, standing_of(facts.looks, facts.case.world))


def test_a_limit_that_a_script_sets_counts() -> None:
    found = job(COMPUTES, EVALUATES, WAITS, 20.0, 10)
    limit = Setting(place=at("train.py", 3), text="timeout", name="init_process_group(timeout=)", value="30 s")
    facts = align(case([limit, *(event for event, _ in found)], (math.nan, *(second for _, second in found))))
    assert limit_ms(facts.case) == 30_000
    assert not is_on_its_way(facts, standing_of(facts.looks, facts.case.world))


def test_nobody_is_on_the_way_where_nobody_waits() -> None:
    facts = align(case([]))
    assert not is_on_its_way(facts, standing_of(facts.looks, facts.case.world))


@pytest.mark.parametrize(("apart", "is_long"), [(None, False), (60.0, False), (900.0, True)])
def test_two_looks_show_a_long_wait_by_their_times_alone(apart: float | None, is_long: bool) -> None:
    looks = [
        replace(stack(rank, *(EVALUATES if rank == 3 else WAITS)), look=look) for look in (1, 2) for rank in range(4)
    ]
    times = [math.nan] * 8 if apart is None else [0.0] * 4 + [apart] * 4
    assert has_waited_long(align(case(looks, times, world=4))) is is_long
