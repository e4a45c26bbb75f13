"""Jobs that were looked at with py-spy while they hung or ran."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from quoted.jobs import Files, Quoted, scene

WAITS = (
    "all_reduce (torch/distributed/distributed_c10d.py:3252)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "sync (job.py:{line})",
    "main (job.py:90)",
)
BARRIER = (
    "barrier (torch/distributed/distributed_c10d.py:5010)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "main (job.py:95)",
)
READS = ("read_rows (job.py:12)", "main (job.py:85)")


def look(folder: str, frames: dict[int, tuple[str, ...]], line: int = 40) -> Files:
    """One look: a file for each rank."""
    head = 'Process {0}: python job.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread {0} (idle): "MainThread"\n'
    return {
        f"{folder}/rank_{rank}.txt": head.format(300 + rank)
        + "".join(f"    {frame.format(line=line)}\n" for frame in own)
        for rank, own in frames.items()
    }


def looks(world: int, odd: Mapping[int, tuple[str, ...]], line: int, times: int = 2) -> Files:
    """Several equal looks, in which all but some ranks stand in one reduction."""
    frames = {r: odd.get(r, WAITS) for r in range(world)}
    return {
        name: text
        for n in range(times)
        for name, text in look(f"stacks-{n + 1}", {r: f for r, f in frames.items() if f}, line).items()
    }


@scene("rules/absent/by_stacks._apart: stacks.two-calls", "doubts.no-call-numbers")
def two_calls(rng: Random) -> Quoted:
    """One rank skipped the reduction in which all others stand, and waits in the barrier behind it."""
    world, line = rng.choice([4, 6, 8]), rng.randrange(20, 60)
    odd = rng.randrange(world)
    return Quoted("missed-call", (odd,), looks(world, {odd: BARRIER}, line))


@scene("rules/absent/by_stacks._silent: stacks.no-stack", "doubts.stack-uncollected")
def no_stack(rng: Random) -> Quoted:
    """All ranks but one stand in a reduction; of that one there is no stack."""
    world, line = rng.choice([4, 6, 8]), rng.randrange(20, 60)
    silent = rng.randrange(1, world - 1)
    files = looks(world, {silent: ()}, line) | {"env.log": f"export WORLD_SIZE={world}\n"}
    return Quoted("frozen", (silent,), files)


@scene("doubts.one-snapshot")
def one_look(rng: Random) -> Quoted:
    """One look: a rank reads rows, all others wait."""
    world = rng.choice([4, 8])
    odd = rng.randrange(world)
    return Quoted("not-arrived", (odd,), looks(world, {odd: READS}, 40, times=1))


@scene("doubts.no-stack-of")
def one_outside_one_unseen(rng: Random) -> Quoted:
    """Two looks: a rank reads rows, the others wait, and one has no stack."""
    world = rng.choice([6, 8])
    odd, unseen = rng.sample(range(1, world - 1), 2)
    files = looks(world, {odd: READS, unseen: ()}, 40) | {"env.log": f"export WORLD_SIZE={world}\n"}
    return Quoted("not-arrived", (odd,), files)


@scene("rules/absent/by_stacks.judge_running: headline")
def steps_after_look(rng: Random) -> Quoted:
    """A look at a job whose log goes on for ten steps after it."""
    world, first = rng.choice([4, 6]), rng.randrange(9)
    lines = "".join(
        f"2026-03-04 10:00:{n:02d},000 INFO [rank 0] train: step {first + n} loss 0.5\n" for n in range(0, 40, 2)
    )
    stacks = look("stacks/10-00-12", {r: READS if r == 1 else WAITS for r in range(world)})
    return Quoted("none", (), stacks | {"train.log": lines})


@scene("doubts.wait-may-end")
def one_look_at_waiters(rng: Random) -> Quoted:
    """One look: every rank waits in the same reduction."""
    return Quoted("unfinished", (), looks(rng.choice([4, 6]), {}, rng.randrange(20, 60), times=1))


@scene("doubts.moved")
def outside_and_moving(rng: Random) -> Quoted:
    """Two looks: all others wait, and one rank reads rows at two places of its program."""
    world = rng.choice([4, 6])
    odd = rng.randrange(world)
    first, second = ({odd: (f"read_rows (job.py:{line})", "main (job.py:85)")} for line in (12, 17))
    files = looks(world, first, 40, times=1)
    return Quoted("not-arrived", (odd,), files | look("stacks-2", {r: second.get(r, WAITS) for r in range(world)}))
