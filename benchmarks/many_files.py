"""Measures whole commands over the logs of many ranks: processor time, memory, and how both grow with the files.

    python benchmarks/many_files.py                      # the sizes of the table below
    python benchmarks/many_files.py --only 100x230 --repeat 3
    python benchmarks/many_files.py --profile 100x230    # where the time goes

Every rank has a log of its own, as a real job prints it: NCCL's start, library warnings, steps, loader lines. One rank stops issuing
calls; the watchdogs of all others time out in the same call and take their processes down. ``1x1024000`` joins the same lines
of 64 ranks in one file, against which ``64x16000`` is measured. The inputs are made by this file, with a fixed seed.

``CPU-s`` is user and system time of the whole process tree, the best of the repetitions; ``MB`` the largest resident memory of one
process of it. ``x start`` is the time as a multiple of the same command over one small log, ``x numpy`` as a multiple of a Python that
only imports numpy.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from yardstick import numpy_seconds

SPLIT, JOINED = "64x16000", "1x1024000"
CASES = ("1x3", "100x3", "1000x3", "10000x3", "10x230", "100x230", "1000x230", SPLIT, JOINED)
"""Number of files and kilobytes of each; the last holds the lines of the one before in one file."""

STALLED_AT = 4_211
"""The call that one rank never issues."""

RANKS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Used:
    """What one command used."""

    seconds: float
    wall: float
    megabytes: float


def rank_log(rank: int, ranks: int, size: int) -> Iterator[str]:
    """The lines of one rank's log, about ``size`` bytes."""
    chance = random.Random(rank)
    node, local, pid = f"node{rank // RANKS_PER_NODE:04d}", rank % RANKS_PER_NODE, 40_000 + rank % 997
    nccl = f"{node}:{pid}:{pid + 211} [{local}] NCCL INFO"
    comm = f"comm 0x{0x55D0_0000 + rank * 0x100:012x} rank {rank} nranks {ranks} cudaDev {local} nvmlDev {local}"
    begin = [
        f"W1103 09:10:0{local}.114000 {pid} torch/distributed/run.py:792] Setting OMP_NUM_THREADS to 1 for each process",
        f"{node}:{pid}:{pid} [{local}] NCCL INFO Bootstrap : Using eth0:10.1.{rank // 250}.{rank % 250}<0>",
        f"{node}:{pid}:{pid} [{local}] NCCL INFO cudaDriverVersion 12090",
        "NCCL version 2.27.3+cuda12.9",
        f"{nccl} ncclCommInitRankConfig {comm} busId {local}b000 commId 0x7a63f3a1c2 - Init START",
        *(
            f"{nccl} Channel {channel:02d}/0 : {rank}[{local}] -> {(rank + 1) % ranks}[{(local + 1) % 8}] via P2P/CUMEM/read"
            for channel in range(2 if size < 10_000 else 32)
        ),
        f"{nccl} ncclCommInitRankConfig {comm} busId {local}b000 commId 0x7a63f3a1c2 - Init COMPLETE",
    ]
    yield from begin
    written, step = sum(map(len, begin)) + 1_700, 0
    while written < size:
        step += 1
        line = step_line(chance, rank, step)
        written += len(line) + 1
        yield line
    yield from () if rank == ranks // 3 else alarm(chance, rank)


def step_line(chance: random.Random, rank: int, step: int) -> str:
    """One line between start and trouble."""
    second = 900 + step
    clock = f"2026-11-03 {9 + second // 3600 % 14:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    kind = chance.random()
    if kind < 0.55:
        return (
            f"[rank{rank}]: {clock},{chance.randrange(1000):03d} - train - INFO - step {step}/250000 | loss "
            f"{chance.random() * 3:.4f} | grad norm {chance.random():.3f} | lr 9.15e-06 | {chance.random() * 9:.2f} s"
        )
    if kind < 0.8:
        return f"[rank{rank}]: {clock},{chance.randrange(1000):03d} - data - INFO - shard_{chance.randrange(9999):06d}.bin read"
    if kind < 0.9:
        return str({"loss": round(chance.random() * 3, 4), "grad_norm": round(chance.random(), 4), "epoch": 0.01})
    if kind < 0.95:
        return f"[rank{rank}]: {clock},{chance.randrange(1000):03d} - train - WARNING - tokens per second below target: 2{step % 977}"
    return "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:92: UserWarning: None of the inputs have requires_grad"


def alarm(chance: random.Random, rank: int) -> Iterator[str]:
    """What the watchdog of one rank prints when its call does not end."""

    def head(line: int) -> str:
        return f"[rank{rank}]:[E1103 14:35:{chance.randrange(60):02d}.399015003 ProcessGroupNCCL.cpp:{line}]"

    caught = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={STALLED_AT}, OpType=ALLREDUCE, "
        f"NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for {600_000 + chance.randrange(99)} milliseconds before timing out."
    )
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    yield f"{head(632)} {caught}"
    yield (
        f"{head(2268)} {group}  failure detected by watchdog at work sequence id: {STALLED_AT} PG status: last enqueued work: "
        f"{STALLED_AT + 2}, last completed work: {STALLED_AT - 1}"
    )
    yield f"{head(684)} [Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
    yield f"{head(1895)} {group} Process group watchdog thread terminated with exception: {caught}"
    yield "Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:635 (most recent call first):"
    yield "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f1b2c5b9446 in /opt/venv/lib/libc10.so)"


def write(folder: Path, files: int, size: int) -> None:
    """The logs of ``files`` ranks; of one file with more than 100 MB, the lines of 64 ranks one after the other."""
    if files == 1 and size > 100_000_000:
        with (folder / "job.log").open("w", encoding="utf-8") as out:
            for rank in range(64):
                out.writelines(f"{line}\n" for line in rank_log(rank, 64, size // 64))
        return
    for rank in range(files):
        node = folder / f"node{rank // RANKS_PER_NODE:04d}"
        node.mkdir(exist_ok=True)
        lines = rank_log(rank, files, size)
        (node / f"rank_{rank}.log").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def use(command: list[str]) -> Used:
    """Run a command to its end; it must end with a diagnosis, or well."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Used(used.ru_utime + used.ru_stime, time.perf_counter() - begun, used.ru_maxrss / 1000)


def main() -> None:
    """Write the logs of each case, run the command over them, print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="*", default=CASES, help="files x kilobytes of each")
    options.add_argument("--repeat", type=int, default=1)
    options.add_argument("--profile", metavar="CASE", help="show where the time of one case goes")
    options.add_argument("--keep", type=Path, help="make the logs here, once, and leave them")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as made:
        base = asked.keep or Path(made)
        command = [sys.executable, "-m", "nccldoctor", "analyze"]
        if asked.profile:
            profiled = [sys.executable, "-m", "cProfile", "-s", "tottime", "-m", "nccldoctor", "analyze"]
            subprocess.run([*profiled, str(inputs(base, asked.profile))], check=False)
            return
        start, numpy = best([*command, str(inputs(base, "1x3"))], asked.repeat).seconds, numpy_seconds()
        print("files x kB     CPU-s  x numpy    wall     MB  x start  ms/file   ms/MB")
        took: dict[str, float] = {}
        for case in asked.only:
            used = best([*command, str(inputs(base, case))], asked.repeat)
            files, size = map(int, case.split("x"))
            more = max(0.0, used.seconds - start) * 1000
            took[case] = used.seconds
            print(
                f"{case:12s} {used.seconds:7.2f} {used.seconds / numpy:8.1f} {used.wall:7.2f} {used.megabytes:6.0f} "
                f"{used.seconds / start:8.1f} {more / files:8.2f} {more / (files * size / 1000):7.1f}",
                flush=True,
            )
        if took.keys() >= {SPLIT, JOINED}:
            print(
                f"{SPLIT} takes {took[SPLIT] / took[JOINED]:.2f} times the processor time of the same lines in one file"
            )


def inputs(base: Path, case: str) -> Path:
    """The folder with the logs of a case, made where it is not there."""
    folder = base / case
    if not folder.exists():
        folder.mkdir(parents=True)
        files, size = map(int, case.split("x"))
        write(folder, files, size * 1000)
    return folder


def best(command: list[str], repeat: int) -> Used:
    """The run with the least processor time."""
    return min((use(command) for _ in range(repeat)), key=lambda used: used.seconds)


if __name__ == "__main__":
    main()
