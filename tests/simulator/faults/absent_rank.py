"""Faults of a rank that is not where the others wait: busy, frozen, dead, or gone through an exception."""

from __future__ import annotations

from simulator.faults.scenarios import Fault, Stage, scenario
from simulator.program import Busy, End, Stuck, Sync


def _before_a_call(stage: Stage, rank: int) -> int:
    """A position before some call of the step, but not after the last one."""
    return stage.rng.choice(stage.issues(rank, lambda c: c.site != "checkpoint_barrier"))


def _stop(stage: Stage, rank: int, doing: str, how: str = "blocked") -> Fault:
    stage.cut(rank, _before_a_call(stage, rank), Stuck(doing, how))
    return Fault(culprits=(rank,))


@scenario("not-arrived", "rank 0 writes a checkpoint, the others wait at the barrier", at_checkpoint=True)
def slow_checkpoint(stage: Stage) -> Fault:
    position = next(k for k, i in enumerate(stage.step(0)) if isinstance(i, Busy) and i.doing == "save")
    stage.cut(0, position, Stuck("save"))
    return Fault(culprits=(0,))


@scenario("not-arrived", "the data loader of one rank gives nothing")
def no_data(stage: Stage) -> Fault:
    rank = stage.someone()
    stage.cut(rank, 0, Stuck("next_batch"))
    return Fault(culprits=(rank,))


@scenario("not-arrived", "the data loaders of all ranks of one host give nothing", nodes=(2, 4), layout=("ddp", "fsdp"))
def no_data_on_a_host(stage: Stage) -> Fault:
    host = stage.rng.randrange(stage.job.knobs.nodes)
    ranks = tuple(r for r in range(stage.job.knobs.world) if r // stage.job.knobs.gpus == host)
    for rank in ranks:
        stage.cut(rank, 0, Stuck("next_batch"))
    return Fault(culprits=ranks)


@scenario("not-arrived", "one rank evaluates alone for a long time")
def lone_evaluation(stage: Stage) -> Fault:
    rank = stage.someone()
    stage.cut(rank, len(stage.step(rank)), Stuck("evaluate"))
    return Fault(culprits=(rank,), classes=("missed-call",))


@scenario("not-arrived", "one rank waits for a file lock in the middle of the step")
def file_lock(stage: Stage) -> Fault:
    return _stop(stage, stage.someone(), "file_lock")


@scenario("not-arrived", "one rank compiles")
def compile_skew(stage: Stage) -> Fault:
    return _stop(stage, stage.someone(), "compile")


@scenario("not-arrived", "two ranks hang in an upload", nodes=(1, 2))
def two_uploads(stage: Stage) -> Fault:
    one, other = stage.rng.sample(range(stage.job.knobs.world), 2)
    for rank in (one, other):
        stage.cut(rank, 0, Stuck("upload"))
    return Fault(culprits=tuple(sorted((one, other))))


@scenario("not-arrived", "the interpreter lock of one rank is held by native code")
def lock_held(stage: Stage) -> Fault:
    fault = _stop(stage, stage.someone(), "garbage", "gil")
    fault.classes = ("frozen",)
    return fault


@scenario("frozen", "one process was stopped: no thread of it runs")
def stopped(stage: Stage) -> Fault:
    return _stop(stage, stage.someone(), "step", "stopped")


@scenario("frozen", "one process hangs in the kernel and cannot be killed")
def in_the_kernel(stage: Stage) -> Fault:
    return _stop(stage, stage.someone(), "step", "stopped")


def _end(stage: Stage, rank: int, end: End, position: int | None = None) -> Fault:
    where = _before_a_call(stage, rank) if position is None else position
    stage.cut(rank, where, Sync("step"), end)
    fault = Fault(culprits=(rank,))
    others = [r for r in range(stage.job.knobs.world) if stage.job.host(r) != stage.job.host(rank)]
    if others and end.code and stage.rng.random() < 0.5:  # a peer on another host notices the closed connection
        peer = stage.rng.choice(others)
        fault.ends[peer] = (stage.rng.uniform(0.5, 20), -6)
        fault.traits["echo"] = (peer, rank)
    return fault


@scenario("died", "one process got SIGKILL")
def killed(stage: Stage) -> Fault:
    return _end(stage, stage.someone(), End(-9))


@scenario("died", "the kernel killed one process for want of memory", dmesg=True)
def out_of_memory(stage: Stage) -> Fault:
    fault = _end(stage, stage.someone(), End(-9))
    fault.traits["oom"] = True
    return fault


@scenario("died", "one process crashed in native code")
def segfault(stage: Stage) -> Fault:
    return _end(stage, stage.someone(), End(-11))


@scenario("died", "one process left early and without complaint")
def left_early(stage: Stage) -> Fault:
    return _end(stage, stage.someone(), End(0), 0)


@scenario("died", "a whole host vanished", nodes=(2, 4), launcher=("torchrun", "srun"))
def host_lost(stage: Stage) -> Fault:
    job = stage.job
    host = stage.rng.randrange(1, job.knobs.nodes)
    ranks = tuple(r for r in range(job.knobs.world) if r // job.knobs.gpus == host)
    for rank in ranks:
        stage.cut(rank, 1, Stuck("host lost", "stopped"))
    fault = Fault(culprits=ranks, traits={"host": job.hosts[host]})
    if stage.rng.random() < 0.5:
        peer = stage.rng.choice([r for r in range(job.knobs.world) if r not in ranks])
        fault.ends[peer] = (stage.rng.uniform(20, 40), -6)
        fault.traits["echo"] = (peer, ranks[peer % job.knobs.gpus])
    return fault


_ERRORS = (
    ("ValueError", "cannot reshape array of size 4094 into shape (2,2048)", "next_batch"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/shards/00417.tar'", "next_batch"),
    ("KeyError", "'input_ids'", "next_batch"),
    (
        "torch.OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.22 "
        "GiB is free.",
        "step",
    ),
    ("RuntimeError", "DataLoader worker (pid 88123) is killed by signal: Killed. ", "next_batch"),
    ("AssertionError", "loss is nan at rank-local batch 3", "step"),
)


@scenario("raised", "an exception that nobody caught ended one process")
def uncaught(stage: Stage) -> Fault:
    kind, message, doing = stage.rng.choice(_ERRORS)
    position = 0 if doing == "next_batch" else None
    fault = _end(stage, stage.someone(), End(1, f"{kind}: {message}"), position)
    fault.traits["error"] = (kind, message, doing)
    return fault


@scenario("raised", "an exception was logged and the process lingers", evidence=("fr+log", "log"))
def lingering(stage: Stage) -> Fault:
    kind, message, doing = stage.rng.choice(_ERRORS[:3])
    rank = stage.someone()
    stage.cut(rank, 0, Stuck("after_error"))
    return Fault(culprits=(rank,), traits={"error": (kind, message, doing), "lingers": True})
