"""Ranks by where they stand: those that wait, those outside every call, and those apart in another one."""

from __future__ import annotations

import math

from builders.remedies.fixtures_conditions import stack

from nccldoctor.align.standing.looks import Look, Looks
from nccldoctor.align.standing.outside import Standing, standing_of
from nccldoctor.align.standing.stances import Stance, stance_of
from nccldoctor.model.ranks import Ranks

WAITS = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "sync (job.py:40)", "main (job.py:90)")
BARRIER = ("barrier (torch/distributed/distributed_c10d.py:5010)", "main (job.py:95)")
SENDS = ("send (torch/distributed/distributed_c10d.py:2500)", "main (job.py:70)")
RECEIVES = ("recv (torch/distributed/distributed_c10d.py:2799)", "main (job.py:72)")
ELSEWHERE = ("read_rows (job.py:12)", "main (job.py:85)")


def stands(*frames: tuple[str, ...], world: int | None = None) -> Standing:
    return after([frames], world)


def after(looks: list[tuple[tuple[str, ...], ...]], world: int | None = None) -> Standing:
    taken = Looks(tuple(Look(n, math.nan, _stances(frames)) for n, frames in enumerate(looks, 1)))
    return standing_of(taken, Ranks(range(world or len(looks[0]))))


def _stances(frames: tuple[tuple[str, ...], ...]) -> dict[object, Stance]:
    found = (stance_of(rank, stack(rank, *own)) for rank, own in enumerate(frames))
    return {stance.process: stance for stance in found if stance is not None}


def ranks(stances: tuple[Stance, ...]) -> list[int | None]:
    return [stance.rank for stance in stances]


def test_the_rank_outside_the_call_of_its_peers() -> None:
    found = stands(WAITS, WAITS, ELSEWHERE, WAITS)
    assert (ranks(found.waiting), ranks(found.outside), found.apart) == ([0, 1, 3], [2], ())


def test_a_rank_that_waited_in_an_earlier_look_is_not_always_outside() -> None:
    found = after([(WAITS, WAITS, WAITS), (WAITS, WAITS, ELSEWHERE)])
    assert (ranks(found.outside), ranks(found.unclear)) == ([], [2])


def test_the_rank_in_another_call_is_apart() -> None:
    assert ranks(stands(WAITS, WAITS, BARRIER, WAITS).apart) == [2]


def test_workers_without_frames_of_their_own_are_told_apart_by_those_of_the_framework() -> None:
    reduces = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "vote (vllm/v1/worker/votes.py:31)")
    gathers = ("all_gather (torch/distributed/distributed_c10d.py:4001)", "collect (vllm/v1/worker/votes.py:77)")
    found = stands(reduces, gathers, reduces)
    assert (ranks(found.apart), found.apart[0].place) == ([1], "collect (votes.py:77)")
    assert ranks(stands(reduces[:1], gathers[:1], reduces[:1]).apart) == [1], (
        "by the call alone where no frame led to it"
    )


def test_a_wait_for_a_gpu_is_told_apart_by_its_line_alone() -> None:
    gpu = "synchronize (torch/cuda/streams.py:95)"
    logs, at_the_call = (gpu, "log_loss (job.py:71)", "main (job.py:90)"), (gpu, *WAITS[1:])
    assert ranks(stands(logs, logs, BARRIER, logs).apart) == [2]
    assert ranks(stands(WAITS, WAITS, logs).apart) == [2]
    assert stands(WAITS, WAITS, at_the_call).apart == (), "it may wait for the call of its peers"
    assert stands(logs, ("item (torch/_tensor.py:9)", *logs[1:]), logs).apart == ()


def test_half_and_half_are_not_apart() -> None:
    assert stands(WAITS, WAITS, BARRIER, BARRIER).apart == ()


def test_ranks_in_one_helper_are_apart_by_the_line_that_calls_it() -> None:
    def called_from(line: int) -> tuple[str, ...]:
        return (*WAITS[:1], "reduce_mean (dist.py:33)", f"main (job.py:{line})")

    assert ranks(stands(called_from(270), called_from(270), called_from(272)).apart) == [2]
    assert ranks(stands(called_from(270), called_from(272)).apart) == [1], "one of two"
    assert stands(called_from(270), called_from(270)).apart == ()


def test_of_many_receives_none_is_apart() -> None:
    odd = (RECEIVES[0], "backward (job.py:44)", "main (job.py:90)")
    assert stands(RECEIVES, RECEIVES, odd, RECEIVES).apart == ()
    assert ranks(stands(RECEIVES, RECEIVES, WAITS, RECEIVES).apart) == [2], "the chain ends where nobody receives"


def test_calls_of_mpi_are_told_apart_without_a_python_frame() -> None:
    def native(call: str) -> tuple[str, ...]:
        return ("poll (libc.so.6)", "MPIDI_CH3I_Progress (libmpi.so.12)", f"{call} (libmpi.so.12)", "main (?)")

    barrier, allreduce = native("PMPI_Barrier"), native("MPI_Allreduce")
    assert ranks(stands(barrier, barrier, native("PMPI_Bcast_c"), barrier).apart) == [2]
    assert ranks(stands(allreduce, native("PMPI_Barrier"), allreduce).apart) == [1]
    assert stands(barrier, native("MPI_Recv"), native("PMPI_Send"), barrier).apart == (), "two ends of a transfer"


def test_a_transfer_is_apart_where_all_others_are_in_one_collective() -> None:
    assert ranks(stands(WAITS, WAITS, SENDS, WAITS).apart) == [2]
    assert stands(WAITS, WAITS, SENDS, RECEIVES, WAITS).apart == (), "they may be the two ends of one"
    assert stands(WAITS, WAITS, SENDS, WAITS, BARRIER).apart == (), "the other end may be behind another call"
    assert stands(SENDS, SENDS, SENDS, WAITS).apart == (), "most are in transfers"


def test_ranks_without_a_stack_are_silent_where_others_wait() -> None:
    assert stands(WAITS, WAITS, world=3).silent == Ranks([2])
    assert stands(ELSEWHERE, world=3).silent == Ranks()


def test_where_no_frame_waits_a_crowd_at_one_idle_line_is_taken_to_wait() -> None:
    idle = ("step (job.py:30)", "main (job.py:90)")
    found = stands(idle, idle, idle, ELSEWHERE)
    assert found.is_guessed
    assert ranks(found.waiting) == [0, 1, 2]
    assert not stands(idle, ELSEWHERE, WAITS).is_guessed
