"""What changed between two looks at a job, and how long its steps have been quiet before the newest one."""

from __future__ import annotations

import math

import pytest
from builders.remedies.fixtures_conditions import at, case, stack
from msgspec.structs import replace

from nccldoctor.align.liveness import collect_liveness
from nccldoctor.align.standing.looks import Looks, collect_looks
from nccldoctor.events import Event, Heartbeat, ProcessState, Stack
from nccldoctor.model.inputs import CollectedFile

WAITS = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "sync (job.py:40)", "main (job.py:90)")
ELSEWHERE = ("read_rows (job.py:12)", "main (job.py:85)")
FURTHER = ("read_rows (job.py:14)", "main (job.py:85)")


def seen(rank: int, look: int, *frames: str) -> Stack:
    taken = stack(rank, *frames)
    return Stack(place=taken.place, text=taken.text, rank=rank, frames=frames, main=True, tool="py-spy", look=look)


def looks(*found: tuple[Event, float]) -> Looks:
    built = case([event for event, _ in found], [second for _, second in found])
    return collect_looks(built, collect_liveness(built))


def stepped(*seconds: float) -> list[tuple[Event, float]]:
    return [(Heartbeat(place=at(line=i), text="step", rank=0, step=i), s) for i, s in enumerate(seconds)]


def test_a_case_without_stacks_has_no_looks_and_reads_no_steps() -> None:
    assert looks(*stepped(1, 2, 3)) == Looks()


def test_a_rank_has_moved_when_its_own_frames_changed() -> None:
    both = looks(*((seen(r, n, *f), math.nan) for r, n, f in ((0, 1, ELSEWHERE), (0, 2, FURTHER), (1, 1, ELSEWHERE))))
    assert both.has_moved(0) is True
    assert both.has_moved(1) is None


def test_a_rank_in_the_same_frames_has_not_moved() -> None:
    both = looks((seen(0, 1, *ELSEWHERE), math.nan), (seen(0, 2, *ELSEWHERE), math.nan))
    assert both.has_moved(0) is False


@pytest.mark.parametrize(("after", "left"), [(ELSEWHERE, True), (WAITS, False)])
def test_a_wait_that_ended_was_left(after: tuple[str, ...], left: bool) -> None:
    both = looks((seen(0, 1, *WAITS), math.nan), (seen(0, 2, *after), math.nan))
    assert both.has_left(0) is left


def test_a_process_that_is_stopped_did_not_leave_its_wait() -> None:
    stopped = ProcessState(
        place=at("stacks.txt", 9, 1), text="SIGSTOP", rank=0, state="stopped", tool="stack tool", look=2
    )
    both = looks((seen(0, 1, *WAITS), math.nan), (stopped, math.nan))
    assert both.has_left(0) is False


def test_a_rank_that_comes_to_its_wait_has_arrived() -> None:
    both = looks((seen(0, 1, *ELSEWHERE), math.nan), (seen(0, 2, *WAITS), math.nan))
    assert both.has_arrived(0)


@pytest.mark.parametrize(
    ("taken", "quiet"),
    [(5.5, False), (9.9, False), (30.0, True), (math.nan, None)],
)
def test_quiet_is_measured_by_the_usual_pause(taken: float, quiet: bool | None) -> None:
    assert looks(*stepped(1, 2, 4), (seen(0, 1, *WAITS), taken)).is_quiet is quiet


def test_a_few_seconds_say_nothing_of_fast_steps() -> None:
    assert looks(*stepped(1, 1.5, 2), (seen(0, 1, *WAITS), 5.0)).is_quiet is None
    assert looks(*stepped(1, 1.5, 2), (seen(0, 1, *WAITS), 7.0)).is_quiet is True


def test_steps_without_times_leave_the_quiet_unknown() -> None:
    unclocked = looks(*stepped(math.nan, math.nan, math.nan), (seen(0, 1, *WAITS), 30.0))
    assert unclocked.is_quiet is None
    assert unclocked.later_steps == []


def test_steps_that_follow_the_first_look_are_kept_unless_they_stopped() -> None:
    assert len(looks(*stepped(1, 2, 4), (seen(0, 1, *WAITS), 1.5)).later_steps) == 2
    stopped = looks(*stepped(1, 2, 4), (seen(0, 1, *WAITS), 1.5), (seen(0, 2, *WAITS), 60.0))
    assert stopped.later_steps == []


@pytest.mark.parametrize(
    ("pause", "after", "number"),
    [(1.0, ELSEWHERE, 1), (1.0, FURTHER, 2), (3.0, ELSEWHERE, 2), (math.nan, ELSEWHERE, 2)],
    ids=["at once", "moved at once", "later", "no times"],
)
def test_two_looks_at_once_are_one_unless_something_moved(pause: float, after: tuple[str, ...], number: int) -> None:
    found = looks((seen(0, 1, *ELSEWHERE), 10.0), (seen(0, 2, *after), 10.0 + pause))
    assert len(found.all) == number
    assert (found.has_moved(0) is None) == (number == 1)


@pytest.mark.parametrize(("line", "grown", "count"), [(7, 40, 0), (8, 40, 1), (8, 0, 0)])
def test_a_step_without_a_time_follows_where_its_line_is_new(line: int, grown: int, count: int) -> None:
    """The log had seven lines at the first look. A bar that is painted once more is no growth."""
    step = Heartbeat(place=at(line=line), text="step", rank=0, step=9)
    found = [(seen(0, 1, *WAITS), 10.0), (seen(0, 2, *WAITS), 14.0), (step, math.nan)]
    built = case([event for event, _ in found], [second for _, second in found])
    log = replace(built.sources[0], collected=CollectedFile("log", grown=grown, lines=7))
    assert len(collect_looks(replace(built, sources=(log,)), collect_liveness(built)).later_steps) == count
