"""Writes the harmless lines of a training job: progress, heartbeats, warnings, NCCL's start-up."""

from __future__ import annotations

import random

from simulator.discrete_events import Sim
from simulator.lines.book import Book, bus_id, pid_of
from simulator.watchdogs import Story

_WARNINGS = (
    "/usr/local/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: UserWarning: None of the inputs "
    "have requires_grad=True. "
    "Gradients will be None\n  warnings.warn(",
    "/usr/lib/python3.11/multiprocessing/popen_fork.py:66: DeprecationWarning: This process is multi-threaded, "
    "use of fork() may lead to "
    "deadlocks in the child.\n  self.pid = os.fork()",
    "WARNING:shards:reader 3 shard_{n:06d}.tar attempt 1 of 4 failed, waiting 0.{n:03d}s (Connection reset by peer)",
    "{time} - loader - WARNING - queue depth {n} below 16",
    "Token indices sequence length is longer than the specified maximum sequence length for this model ({n} > "
    "4096). Running this "
    "sequence through the model will result in indexing errors",
    "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', "
    "args...)` instead.",
)


def progress(book: Book, step: int, rng: random.Random, time: float, host: str) -> str:
    """The trainer's line for a step, in the style of the job."""
    knobs = book.job.knobs
    loss = 2.0 + 3.0 / (1 + step / 900) + rng.uniform(-0.02, 0.02)
    now = book.clock(time, host)
    style = knobs.progress
    if style == "hf":
        norm = rng.uniform(0.4, 2)
        return f"{{'loss': {loss:.4f}, 'grad_norm': {norm:.6f}, 'learning_rate': 3.1e-05, 'epoch': {step / 9000:.2f}}}"
    if style == "megatron":
        return (
            f" [{now:%Y-%m-%d %H:%M:%S}] iteration {step:8d}/   50000 | consumed samples: {step * 512:12d} | "
            "elapsed time per iteration "
            f"(ms): {rng.uniform(1040, 1070):.1f} | learning rate: 1.500E-04 | global batch size:   512 | lm "
            f"loss: {loss:.6E} | "
            f"loss scale: 1.0 | grad norm: {rng.uniform(0.2, 1):.3f} | number of skipped iterations:   0 | "
            "number of nan iterations:   0 |"
        )
    if style == "tqdm":
        percent = step * 100 // 50000
        bar = "█" * (percent // 10) + " " * (10 - percent // 10)
        return (
            f"\rEpoch 0: {percent:3d}%|{bar}| {step}/50000 "
            f"[{step // 3600}:{step // 60 % 60:02d}:{step % 60:02d}<9:12:40,  1.05s/it, loss={loss:.3f}]"
        )
    return (
        f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} | INFO | trainer | step {step}/50000 | "
        f"loss {loss:.4f} | lr 3.00e-04"
    )


def training(book: Book, sim: Sim, first: int, rng: random.Random) -> None:
    """Progress and heartbeats: of earlier steps, and those that the simulated hosts really printed."""
    knobs = book.job.knobs
    earlier = [(step, -1.05 * (first - step)) for step in range(max(1, first - 8 * max(knobs.print_every, 1)), first)]
    for host in sim.hosts:
        rank = host.rank
        said = [(step, time) for time, step, text in host.said if not text]
        end = host.since if host.how in ("stopped", "ended") else float("inf")
        for step, time in earlier + said:
            if time > end:
                continue
            if rank == 0 and step % knobs.print_every == 0:
                stream = "err" if knobs.progress == "tqdm" else "out"
                book.rank(time, rank, progress(book, step, rng, time, book.job.host(rank)), stream)
            if knobs.beat_every and step % knobs.beat_every == 0:
                book.rank(
                    time + 0.001 + rank * 1e-5,
                    rank,
                    f"[rank {rank}] alive: epoch=0 step={step} global_step={step}",
                    "out",
                )
        for time, _, text in host.said:
            if text:
                book.rank(time, rank, text, "out")


def noise(book: Book, story: Story, begin: float, rng: random.Random) -> None:
    """Harmless warnings from before the stall, on all ranks."""
    knobs = book.job.knobs
    for rank in range(knobs.world):
        for _ in range(knobs.noise if knobs.world <= 64 else min(knobs.noise, 2)):
            time = rng.uniform(begin, 0.5)
            now = book.clock(time, book.job.host(rank))
            stamp = f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"
            text = rng.choice(_WARNINGS).format(n=rng.randrange(100, 999), time=stamp)
            book.rank(time, rank, text)


def nccl_start(book: Book, time: float, rng: random.Random, missing: frozenset[int] = frozenset()) -> None:
    """The INIT lines of the world communicator; only START where somebody never joins."""
    job, release = book.job, book.job.knobs.release
    comm_id = rng.randrange(2**59, 2**60)
    api = "ncclCommInitRank comm" if tuple(map(int, release.nccl.split("."))) >= (2, 21) else "comm"
    for rank in range(job.knobs.world):
        if rank in missing:
            continue
        host, local, pid = job.host(rank), job.local(rank), pid_of(job, rank)
        head = f"{host}:{pid}:{pid} [{local}] NCCL INFO "
        at = time + 0.01 * rank
        book.rank(at, rank, f"{head}Bootstrap : Using ib0:10.0.3.{11 + job.hosts.index(host)}<0>", "out")
        text = (
            f"{host}:{pid}:{pid + 300} [{local}] NCCL INFO {api} 0x{rng.randrange(2**40, 2**44):x} rank {rank} "
            f"nranks {job.knobs.world} "
            f"cudaDev {local} nvmlDev {local} busId {bus_id(local)}000 commId 0x{comm_id:x} - Init "
        )
        book.rank(at + 1.0, rank, text + "START", "out")
        if not missing:
            book.rank(at + 3.0, rank, text + "COMPLETE", "out")
    if 0 not in missing:
        book.rank(time + 0.5, 0, f"NCCL version {release.nccl}+cuda12.4", "out")


_SCARY = (
    "destroy_process_group() was not called before program exit, which can leak resources. For more info, please see "
    "https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())"
)


def goodbye(book: Book, story: Story, scary: bool, rng: random.Random) -> None:
    """A job that ended well says so, and sometimes complains on the way out."""
    for fate in story.fates:
        if fate.code != 0 or fate.by != "self":
            continue
        end = fate.gone_at
        if fate.rank == 0:
            book.rank(end - 0.4, 0, "training finished, all steps done", "out")
        if scary and book.job.knobs.release.number >= (2, 4):
            book.c10(end - 0.1, fate.rank, 1496, "WARNING: " + _SCARY, "W")
        if scary and fate.rank and rng.random() < 0.5 and book.job.knobs.release.number >= (2, 6):
            text = (
                '[PG ID 0 PG GUID 0(default_pg) Rank %d] Failed to check the "should dump" flag on TCPStore, '
                "(maybe TCPStore server has "
                "shut down too early), with error: failed to recv, got 0 bytes"
            )
            book.c10(end - 0.05, fate.rank, 1682, text % fate.rank, "W")
