"""Times whole analyses of noisy text: look-alike lines, many relevant lines, more text than memory.

    python benchmarks/noisy_text.py                             # 1 GB with 4 % look-alikes; 150 MB with 1 and 10 % relevant lines
    python benchmarks/noisy_text.py --only million --repeat 1   # a million relevant lines
    python benchmarks/noisy_text.py --only huge --repeat 1      # 10 GB of text

Each row is the whole command ``nccldoctor analyze``: processor time of the process tree, best of the repetitions, and peak memory. Beside
it in the same run: ripgrep with the same literals, ripgrep with sixteen, and a Python that only imports numpy. A look-alike is a line of
a healthy job that holds one of our literals; lines and places come from a fixed seed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

FEW = (
    *("Watchdog caught", "failure detected by", "dump signal", "Traceback (most", "CUDA error", "Xid", "NCCL WARN"),
    *("closing signal", "exitcode", "out of memory", "DistBackendError", "Connection reset", "oom-kill", "got stuck"),
    *("Timeout at", "Connection closed"),
)
RANKS = 64
PER_NODE = 8
PART = 128_000_000
"""Bytes made once; a larger log repeats them."""

Line = Callable[[random.Random, int, int], str]
"""One line of a rank at a step, without what the launcher puts in front."""


def _stamp(step: int) -> str:
    return f"2026-04-05 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"


HEALTHY: tuple[Line, ...] = (
    lambda r, rank, step: (
        f" iteration {step:8d}/  250000 | consumed samples: {step * 1024:12d} | elapsed time per iteration (ms): "
        f"{r.random() * 9000:.1f} | learning rate: 9.150E-06 | global batch size:  1024 | lm loss: "
        f"{r.random() * 3:.6E} | loss scale: 1.0 | grad norm: {r.random():.3f} |"
    ),
    lambda r, rank, step: str(
        {"loss": round(r.random() * 3, 4), "grad_norm": round(r.random(), 4), "epoch": round(step / 5000, 2)}
    ),
    lambda r, rank, step: (
        f"{_stamp(step)},{r.randrange(1000):03d} - data - INFO - shard_{r.randrange(9999):06d}.bin read in {r.random():.3f}s"
    ),
    lambda r, rank, step: (
        f"node{rank // PER_NODE}:{9000 + rank}:{9500 + rank} [{rank % 8}] NCCL INFO Channel "
        f"{r.randrange(32):02d}/0 : {rank}[{rank % 8}] -> {(rank + 1) % RANKS}[{(rank + 1) % 8}] via P2P/CUMEM"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)},{r.randrange(1000):03d} - perf - INFO - tokens per second {r.random() * 4e4:.1f}, "
        f"memory {r.random() * 80:.2f} GiB"
    ),
)

LOOK_ALIKES: tuple[Line, ...] = (
    lambda r, rank, step: f"{_stamp(step)} - train - INFO - retry budget of the shard server: 3, last Error: 0, code 0",
    lambda r, rank, step: (
        f"{_stamp(step)} - dist - INFO - process group of rank {rank}: world_size as configured, step {step}"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - loader - INFO - connect to shard server 10.0.{rank}.{r.randrange(256)} in "
        f"{r.random():.3f} s, timeout=600"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - env - DEBUG - NCCL_IB_HCA seen by worker {rank}, RANK and WORLD_SIZE as before"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - data - INFO - kipped {r.randrange(9)} samples longer than 8192 tokens, skipped "
        f"{r.randrange(99)} empty ones"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - monitor - INFO - nvme{rank % 8}n1: {r.random() * 7:.2f} GB/s read, mlx5_core "
        f"counters unchanged"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - monitor - INFO - GPU {rank % 8}: {r.randrange(40, 80)} C, no Uncorrectable "
        f"errors, ECC on, Pending   0"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - optim - INFO - Gradient overflow check passed, loss scale 65536, device_id={rank % 8}"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - ckpt - INFO - {r.randrange(4096)} MB in shared memory segments, RANK {rank} wrote its part"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - http - INFO - GET /handler/metrics 200 Exit Code: none, PID {20000 + rank}"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - sched - INFO - TIMEOUT of job is {86400 - step % 86400} s away, PREEMPTED 0 times"
    ),
    lambda r, rank, step: (
        f"node{rank // PER_NODE}:{9000 + rank}:{9500 + rank} [{rank % 8}] NCCL INFO comm 0x{r.randrange(2**47):x} "
        f"rank {rank} nranks {RANKS} cudaDev {rank % 8} busId {r.randrange(2**20):x} - Init timings are off"
    ),
    lambda r, rank, step: (
        f"node{rank // PER_NODE}:{9000 + rank}:{9500 + rank} [{rank % 8}] NCCL INFO NET/OFI Selected provider "
        f"efa, {r.randrange(4)} nics, libfabric: 1.22"
    ),
    lambda r, rank, step: (
        f"{_stamp(step)} - rpc - INFO - process group {r.randrange(64)}: recvValue of the store took {r.random():.4f} s"
    ),
)


def _relevant(chance: random.Random, step: int) -> Iterator[str]:
    """Records of one failing rank: a watchdog's chain, a warning of NCCL, a traceback or a GPU's report."""
    rank = chance.randrange(RANKS)
    front = f"[rank{rank}]:"
    native = (
        f"{front}[E405 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}.399015003 ProcessGroupNCCL.cpp:"
    )
    kind = chance.randrange(6)
    if kind < 3:
        yield (
            f"{native}632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={step}, "
            f"OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for {600000 + chance.randrange(99)} "
            "milliseconds before timing out."
        )
        yield (
            f"{native}2268] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: "
            f"{step} PG status: last enqueued work: {step + 3}, last completed work: {step - 1}"
        )
        yield f"{native}684] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
    elif kind == 3:
        yield (
            f"node{rank // PER_NODE}:{9000 + rank}:{9500 + rank} [{rank % 8}] transport/net_ib.cc:2210 NCCL WARN NET/IB: Got "
            f"completion from peer 10.0.0.{rank}<40000> with status=12 opcode=0 len=0 vendor err {chance.randrange(256)}"
        )
    elif kind == 4:
        yield f"{front} Traceback (most recent call last):"
        yield f'{front}   File "/srv/train.py", line {chance.randrange(900)}, in train_step'
        yield f"{front}     loss.backward()"
        yield f"{front} RuntimeError: CUDA error: an illegal memory access was encountered"
    else:
        yield (
            f"Apr  5 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d} node{rank // PER_NODE} kernel: NVRM: Xid "
            f"(PCI:0000:{rank % 8:02x}:00): {chance.choice((31, 63, 94))}, pid={9000 + rank}, name=python3, Ch 00000008"
        )


def lines(look_alike: float, relevant: float, seed: int = 7) -> Iterator[str]:
    """Lines of a merged log of 64 ranks, without end."""
    chance = random.Random(seed)
    for step in count(1):
        for _ in range(100):
            kind, rank = chance.random(), chance.randrange(RANKS)
            if kind < look_alike:
                text = chance.choice(LOOK_ALIKES)(chance, rank, step)
            elif kind < look_alike + relevant / 2.5:  # a record has two and a half lines
                yield from _relevant(chance, chance.randrange(1, 10**6))
                continue
            else:
                text = chance.choice(HEALTHY)(chance, rank, step)
            yield text if text.startswith(("node", " ")) else f"[rank{rank}]: {text}"


@dataclass(frozen=True)
class Case:
    """One input: its size in bytes, and the shares of look-alike and of relevant lines."""

    size: int
    look_alike: float
    relevant: float


CASES = {
    "look-alike": Case(1_000_000_000, 0.04, 0.0001),
    "one": Case(150_000_000, 0.0, 0.01),
    "ten": Case(150_000_000, 0.0, 0.10),
    "million": Case(1_200_000_000, 0.0, 0.10),
    "huge": Case(10_000_000_000, 0.01, 0.001),
}
USUAL = ("look-alike", "one", "ten")


def write(path: Path, case: Case) -> None:
    """A log of about this size; little of it is in memory, for a command's peak begins with what its parent holds."""
    source, made = lines(case.look_alike, case.relevant), 0
    with path.open("wb") as out:
        while made < min(PART, case.size):
            made += out.write("\n".join(islice(source, 20_000)).encode() + b"\n")
    with path.open("ab") as out:
        for _ in range(max(1, round(case.size / made)) - 1):
            with path.open("rb") as first:
                for _ in range(made // (1 << 20)):
                    out.write(first.read(1 << 20))
                out.write(first.read(made % (1 << 20)))


def used(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak memory in MB of a command with its children."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        while process.stdout is not None and process.stdout.read(1 << 20):
            pass
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3):  # 1: diagnosed, or nothing found; 3: the cause is unknown
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(name: str, case: Case, folder: Path, repeat: int) -> None:
    """Write the log of a case, run everything, print its rows."""
    log = folder / f"{name}.log"
    write(log, case)
    commands = {
        "nccldoctor": [sys.executable, "-m", "nccldoctor", "analyze", str(log), "--format", "json"],
        "ripgrep, same literals": ["rg", "-j1", "-F", "-a", "-f", str(folder / "same"), str(log)],
        "ripgrep, sixteen": ["rg", "-j1", "-F", "-a", "-f", str(folder / "few"), str(log)],
        "python with numpy": [sys.executable, "-c", "import numpy"],
    }
    size = log.stat().st_size / 1e9
    print(f"{name}: {size:.2f} GB, {case.look_alike:.0%} look-alike, {case.relevant:.2%} relevant, best of {repeat}")
    best = {what: min(used(command) for _ in range(repeat)) for what, command in commands.items()}
    for what, (seconds, memory) in best.items():
        times = best["nccldoctor"][0] / max(seconds, 0.01)
        print(
            f"  {what:24s} {seconds:7.2f} CPU-s {memory:7.0f} MB   nccldoctor takes {times:6.1f} times as long",
            flush=True,
        )
    log.unlink()


def main() -> None:
    """Measure the usual cases, or one."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=tuple(CASES))
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--folder", type=Path, help="where the logs are written (default: a temporary folder)")
    asked = options.parse_args()
    if shutil.which("rg") is None:
        raise SystemExit("needs ripgrep")

    from nccldoctor.parsers import registry

    literals = sorted({text for parser in registry.line_parsers() if not parser.sampled for text in parser.literals})
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        (folder / "few").write_text("\n".join(FEW) + "\n")
        (folder / "same").write_text("\n".join(literals) + "\n")
        for case in (asked.only,) if asked.only else USUAL:
            measure(case, CASES[case], folder, asked.repeat)


if __name__ == "__main__":
    main()
