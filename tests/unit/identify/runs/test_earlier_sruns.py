"""Ends of tasks count where ``srun -v`` says that all tasks of the newest step ended with 0."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import read

STEP = "srun: launching StepId=4711.{0} on host n1, 2 tasks: [0-1]\nsrun: launching StepId=4711.{0} on host n2, 2 tasks: [2-3]\n"
FIRST = "srun: launch/slurm: _task_finish: n1: tasks 0-1: Completed\n"
LAST = "srun: n2: tasks 2-3: Completed\n"
RANKS = {
    f"ranks/rank_{rank}.log": f"rank={rank} pid={900 + rank} host=n{rank // 2 + 1} world_size=4\n"
    + "".join(f"2026-01-11 10:05:0{step} [rank {rank}] step {step} loss=2.5\n" for step in range(9))
    for rank in range(4)
}


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (STEP.format(0) + FIRST + LAST, "none"),
        (STEP.format(0) + FIRST, "undetermined"),
        (FIRST + LAST, "undetermined"),
        (STEP.format(0) + FIRST + LAST + STEP.format(1), "undetermined"),
        (STEP.format(0) + FIRST + LAST + STEP.format(1) + LAST + FIRST, "none"),
        (STEP.format(0) + FIRST + STEP.format(1) + LAST + FIRST, "undetermined"),
    ],
    ids=["all ended", "one node", "launches cut off", "the next step stands", "two steps", "side by side"],
)
def test_only_a_step_of_which_every_task_ended_well_is_an_all_clear(output: str, cause: str) -> None:
    ruling = read({**RANKS, "train-4711.out": output})
    assert ruling.cause == cause, str(ruling)


def test_launchers_that_ended_well_speak_for_their_ranks_only_together() -> None:
    """One task for each node: task 1 is no rank."""
    launched = "".join(f"srun: launching StepId=4711.0 on host n{n + 1}, 1 tasks: {n}\n" for n in range(2))
    ends = [f"srun: n{n + 1}: task {n}: Completed\n" for n in range(2)]
    assert read({**RANKS, "train-4711.out": launched + "".join(ends)}).cause == "none"
    assert read({**RANKS, "train-4711.out": launched + ends[0]}).cause == "undetermined"
