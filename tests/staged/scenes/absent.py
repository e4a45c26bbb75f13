"""Scenes in which somebody never comes to the call: busy, frozen, dead, gone by an exception, late."""

from __future__ import annotations

from staged.play import Scene
from staged.scenes.stage import Stage, scene

BUSY = ("loader", "checkpoint", "evaluate", "prompt", "download", "lock")
ERRORS = (
    ("ValueError", "could not broadcast input array from shape ({n},3) into shape ({n},4)"),
    ("KeyError", "'labels_{n}'"),
    ("IndexError", "index {n} is out of range for dataset of size {m}"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: '/mnt/corpus/part-{n:05d}.parquet'"),
    ("AssertionError", "sequence of {n} tokens, at most {m} fit"),
    (
        "torch.OutOfMemoryError",
        "CUDA out of memory. Tried to allocate {n}.00 MiB. GPU has a total capacity of 79.15 GiB",
    ),
)


@scene()
def busy_rank(stage: Stage) -> Scene:
    rank = stage.someone()
    out = stage.leave(Scene("not-arrived", (rank,)), rank, stage.rng.choice(BUSY))
    if stage.rng.random() < 0.4:
        out.said.append(
            (0.2, rank, f"rank {rank}: {stage.rng.choice(['validating', 'writing a snapshot', 'packing'])}")
        )
    return out


@scene(hosts=[1, 2], shape=["ddp", "fsdp"])
def two_busy_ranks(stage: Stage) -> Scene:
    pair = tuple(sorted(stage.rng.sample(range(stage.plan.world), 2)))
    place, doing = stage.place(pair[0]), stage.rng.choice(BUSY)
    return Scene("not-arrived", pair, away=dict.fromkeys(pair, (stage.at, place)), doing=dict.fromkeys(pair, doing))


@scene(mean=True)
def first_rank_evaluates(stage: Stage) -> Scene:
    out = Scene("not-arrived", (0,), doing={0: "evaluate"})
    out.away[0] = (stage.at, len(stage.programs[0][stage.at]) - 1)
    out.said.append((-0.1, 0, "Running validation on 2048 batches"))
    return out


@scene(launcher=["torchrun", "srun"])
def frozen_rank(stage: Stage) -> Scene:
    rank = stage.someone()
    return stage.leave(Scene("frozen", (rank,), ("not-arrived",), frozen={rank}), rank, "stopped")


@scene(hosts=[2, 3, 4], launcher=["srun", "torchrun"])
def frozen_host(stage: Stage) -> Scene:
    """A host hangs as a whole: none of its processes answers, and nothing is recorded of their ends."""
    host = stage.rng.choice(stage.plan.hosts[1:])
    ranks = tuple(r for r in range(stage.plan.world) if stage.plan.host(r) == host)
    out = Scene("frozen", ranks, ("not-arrived", "died"), frozen=set(ranks), lost_hosts={host})
    for rank in ranks:
        out.away[rank], out.doing[rank] = (stage.at, 0), "stopped"
    return out


@scene(launcher=["torchrun", "srun"])
def killed_for_memory(stage: Stage) -> Scene:
    rank = stage.someone()
    out = stage.leave(Scene("died", (rank,)), rank, "gone")
    out.dead[rank] = (0.05, -9, "itself")
    pid, host = stage.plan.pid(rank), stage.plan.host(rank)
    out.kernel.append(
        (0.0, host, f"Memory cgroup out of memory: Killed process {pid} (pt_main_thread) total-vm:93331244kB")
    )
    out.named_by = "launcher"
    return out


@scene(launcher=["torchrun", "srun"])
def segfault(stage: Stage) -> Scene:
    rank = stage.someone()
    out = stage.leave(Scene("died", (rank,)), rank, "gone")
    out.dead[rank] = (0.1, stage.rng.choice([-11, -7]), "itself")
    out.named_by = "launcher"
    return out


@scene(hosts=[2, 3, 4], launcher="srun")
def lost_host(stage: Stage) -> Scene:
    """A host goes down: the scheduler says so, and its processes leave nothing."""
    host = stage.rng.choice(stage.plan.hosts[1:])
    ranks = tuple(r for r in range(stage.plan.world) if stage.plan.host(r) == host)
    out = Scene("died", ranks, ("frozen",), lost_hosts={host}, named_by="launcher")
    for rank in ranks:
        out.away[rank], out.doing[rank] = (stage.at, 0), "gone"
        out.dead[rank] = (0.3, None, "host")
    out.spoken.append((25.0, "", f"srun: error: Node failure on {host}"))
    return out


@scene(sources=["all", "logs+dumps"], release=["2.4", "2.6", "2.7", "2.9"], shape=["ddp", "fsdp"])
def leaves_the_loop(stage: Stage) -> Scene:
    """One rank had fewer batches: it says that the epoch is over, while its peers are in a last step."""
    rank = stage.someone()
    out = stage.leave(Scene("missed-call", (rank,), ("not-arrived",), named_by="log"), rank, "checkpoint")
    out.away[rank] = (stage.at, 0)
    for other in range(stage.plan.world):
        out.said.append((-40.0, other, f"[rank{other}]: epoch 3 finished in 812.3 s"))
    out.said.append((0.1, rank, f"[rank{rank}]: epoch 4 finished in 790.1 s"))
    return out


@scene()
def own_exception(stage: Stage) -> Scene:
    rank, (kind, text) = stage.someone(), stage.rng.choice(ERRORS)
    out = stage.leave(Scene("raised", (rank,), named_by="log"), rank, "gone")
    out.dead[rank] = (1.2, 1, "itself")
    words = text.format(n=stage.rng.randrange(40, 900), m=stage.rng.randrange(8, 39))
    out.said.append((0.4, rank, traceback(stage, rank, kind, words)))
    return out


@scene()
def exception_that_lingers(stage: Stage) -> Scene:
    """The traceback is printed, yet the process does not end: a thread keeps it."""
    rank, (kind, text) = stage.someone(), stage.rng.choice(ERRORS[:5])
    out = stage.leave(Scene("raised", (rank,), named_by="log"), rank, "lingers")
    words = text.format(n=stage.rng.randrange(40, 900), m=stage.rng.randrange(8, 39))
    out.said.append((0.4, rank, traceback(stage, rank, kind, words)))
    return out


@scene(
    mean=True,
    shape=["ddp", "fsdp"],
    release=["2.4", "2.5", "2.6", "2.7", "2.8", "2.9"],
    sources=["all", "logs", "logs+dumps"],
)
def late_but_alive(stage: Stage) -> Scene:
    """One rank does something for longer than the limit; it says that it is done after its peers gave up."""
    rank = stage.someone()
    out = Scene("straggler", (rank,), ("not-arrived",), doing={rank: "checkpoint"}, named_by="log")
    place = stage.place(rank)
    limit = stage.plan.groups[0].timeout / 1000
    took = limit + stage.rng.uniform(3, 9)
    out.away[rank] = (stage.at, place)
    noun = stage.rng.choice(["Checkpoint written", "Evaluation done", "Index rebuilt"])
    out.said += [(0.1, rank, f"rank {rank} {noun.split()[0].lower()} begins"), (took, rank, f"{noun} in {took:.1f} s")]
    return out


@scene(release=["2.2", "2.4", "2.6", "2.7", "2.9"], sources=["all", "dumps", "logs+dumps"], shape=["ddp", "fsdp"])
def slow_in_every_step(stage: Stage) -> Scene:
    """The job ends well, and one rank comes late to every call."""
    rank, late = stage.someone(), stage.rng.uniform(0.3, 1.5)
    out = Scene("straggler", (rank,), ending="finished", stalled=False)
    out.delays = {(rank, step, 0): late for step in range(stage.plan.steps)}
    out.told = (True, True)
    return out


def traceback(stage: Stage, rank: int, kind: str, text: str) -> str:
    """An uncaught exception as the interpreter prints it."""
    where = stage.rng.choice([("collate", "data/batching.py", 64), ("forward", "model/blocks.py", 212)])
    return "\n".join(
        [
            "Traceback (most recent call last):",
            '  File "/srv/job/main.py", line 310, in <module>',
            "    main()",
            '  File "/srv/job/main.py", line 288, in main',
            "    fit(model, batches)",
            f'  File "/srv/job/{where[1]}", line {where[2]}, in {where[0]}',
            "    return self._inner(batch)",
            f"{kind}: {text}",
        ]
    )
