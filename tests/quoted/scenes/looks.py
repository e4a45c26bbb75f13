"""Jobs that were looked at with py-spy while they hung or ran."""

from __future__ import annotations

import json
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


COLUMNS = "PID PPID STAT WCHAN ELAPSED MS CPU KERNEL THREADS CHILDREN WAITS LOST READ WRITTEN COMMAND"
BLOCKED, COMPUTES = "futex_do_wait 00:03:10 4020 0 0 10 0 0 0 0 0", "0 00:03:10 4020 3950 20 0 0 0 31 0 0"


def measured(world: int, odd: int, counts: str) -> Files:
    """What the collector's second table tells of each rank: all but one are blocked in a lock of the kernel."""
    rows = [f"{300 + r} 1 S {counts if r == odd else BLOCKED} /usr/bin/python3 job.py" for r in range(world)]
    told = [
        {"path": f"rank-{r}/environment.txt", "kind": "environment", "host": "node0", "rank": r, "pid": 300 + r}
        for r in range(world)
    ]
    table = {
        "path": "processes-2.txt",
        "kind": "processes",
        "host": "node0",
        "look": 2,
        "time": "2026-03-04T10:00:52+00:00",
    }
    manifest = {"version": 1, "tool": "nccldoctor collect", "nodes": [], "files": [*told, table]}
    files: Files = {str(one["path"]): f"RANK={one['rank']}\nWORLD_SIZE={world}\n" for one in told}
    return files | {"manifest.json": json.dumps(manifest), "processes-2.txt": "\n".join([COLUMNS, *rows, ""])}


@scene("rules/absent/by_stacks.judge_work: stacks.on-its-way", "doubts.may-end-by-itself")
def evaluation_that_goes_on(rng: Random) -> Quoted:
    """Two looks: a rank evaluates, and computed in between; all others wait."""
    world = rng.choice([4, 6])
    odd = rng.randrange(world)
    stacks = looks(world, {odd: ("evaluate (job.py:61)", "main (job.py:85)")}, 40)
    return Quoted("undetermined", (), stacks | measured(world, odd, COMPUTES))


@scene("doubts.no-call-seen")
def sleeper_without_stacks(rng: Random) -> Quoted:
    """No stack: by the kernel one rank sleeps and wakes in turn, and all others stand in a lock."""
    world = rng.choice([4, 6])
    odd = rng.randrange(world)
    waits = rng.randrange(8, 40)
    return Quoted("not-arrived", (odd,), measured(world, odd, f"hrtimer_nanosleep 00:03:10 4020 0 0 0 0 {waits} 0 0 0"))


@scene("doubts.still-works")
def loop_that_computes_on(rng: Random) -> Quoted:
    """Steps stopped long ago, and one rank computes in a function that says nothing; all others wait."""
    world = rng.choice([4, 6])
    odd = rng.randrange(world)
    steps = "".join(f"2026-03-04 10:00:{n:02d},000 INFO [rank 0] train: step {n} loss 0.5\n" for n in range(10))
    frames = {r: ("converge (job.py:61)", "main (job.py:85)") if r == odd else WAITS for r in range(world)}
    stacks = look("stacks/10-00-42", frames) | look("stacks/10-00-52", frames)
    return Quoted("not-arrived", (odd,), stacks | measured(world, odd, COMPUTES) | {"train.log": steps})
