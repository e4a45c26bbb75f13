"""Compares the speed of reading logs with ripgrep, or GNU grep, printing the same lines.

    python benchmarks/text_scan.py --megabytes 1000 --relevant 0.001 --repeat 5

CPU time of whole processes (user and system, children included), median of the repetitions. ``few`` gives the other
tool sixteen literals, ``same`` all literals of all parsers. ``literals alone`` is the search without the parsers: it
must not grow with the families of lines. The log is made by this file: step lines of 64 ranks as Megatron, DeepSpeed,
Lightning and the Trainer print them, bars that redraw themselves, NCCL INFO lines, and watchdog chains among them.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

FEW = (
    *("Watchdog caught", "failure detected by", "dump signal", "Traceback (most", "CUDA error", "Xid", "NCCL WARN"),
    *("closing signal", "exitcode", "out of memory", "DistBackendError", "Connection reset", "oom-kill", "got stuck"),
    *("Timeout at", "Connection closed"),
)

READ = """
import sys
from nccldoctor.parsers import registry
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine.scan import scan
with open(sys.argv[1], "rb") as stream:
    answer = scan(Source(0, "job.log", SourceKind.LOG, 0), stream)
print(answer.lines, answer.candidates, answer.understood, len(answer.events))
"""

SEARCH = """
import sys
from nccldoctor.parsers import registry
from nccldoctor.parsers.engine.literals import literals_of
search = literals_of(tuple(parser for parser in registry.line_parsers() if not parser.sampled))
found = 0
with open(sys.argv[1], "rb") as stream:
    while block := stream.read(4 << 20):
        found += len(search.hits(memoryview(block)))
print(found)
"""


RANKS, PER_NODE = 64, 8


def _stamp(step: int) -> str:
    return f"2026-04-05 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"


def megatron(chance: random.Random, rank: int, step: int) -> str:
    """Megatron-LM, ``training_log``."""
    return (
        f" [{_stamp(step)}.{chance.randrange(10**6):06d}] iteration {step:8d}/ 9500000 | consumed samples: "
        f"{step * 1024:12d} | elapsed time per iteration (ms): {chance.random() * 9000:.1f} | throughput per GPU "
        f"(TFLOP/s/GPU): {chance.random() * 500:.1f} | learning rate: 9.150000E-06 | global batch size:  1024 | lm loss: "
        f"{chance.random() * 3:.6E} | loss scale: 1.0 | grad norm: {chance.random():.3f} | number of skipped iterations: "
        "  0 | number of nan iterations:   0 |"
    )


def deepspeed(chance: random.Random, rank: int, step: int) -> str:
    """DeepSpeed: the engine's report, its timer's, or that of its pipeline engine."""
    at = f"[{_stamp(step)},{chance.randrange(1000):03d}] [INFO] "
    rate = chance.random() * 500
    return chance.choice(
        (
            f"{at}[logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[9.15e-06, 9.15e-06], mom=[(0.9, 0.95)]",
            f"{at}[timer.py:264:stop] epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec={rate:.4f}, "
            f"CurrSamplesPerSec={rate:.4f}, MemAllocated={rate / 9:.2f}GB, MaxMemAllocated=71.3GB",
            f"steps: {step} loss: {chance.random() * 3:.4f} iter time (s): {chance.random() * 9:.3f} samples/sec: {rate:.3f}",
            f"{at}[logging.py:96:log_dist] [Rank 0] time (ms) | fwd_microstep: {rate:.2f} | bwd_microstep: {rate * 2:.2f} | "
            f"bwd_inner_microstep: {rate:.2f} | bwd_allreduce_microstep: {rate / 3:.2f} | step_microstep: {rate / 9:.2f}",
        )
    )


def lightning(chance: random.Random, rank: int, step: int) -> str:
    """Lightning's bar, which redraws itself."""
    bars = (
        f"Epoch 3: {i * 10:3d}%|{'█' * i}{' ' * (10 - i)}| {step + i}/9500150 [6:28:43<94:39:17,  "
        f"{chance.random() * 9:.2f}it/s, v_num=0, train_loss={chance.random() * 3:.3f}]"
        for i in range(10)
    )
    return "\r".join(bars)


def trainer(chance: random.Random, rank: int, step: int) -> str:
    """The Trainer of Transformers: its bar, and behind it the numbers of a step."""
    bars = (
        f"  {i:2d}%|{'█' * (i // 10)}▎{' ' * (9 - i // 10)}| {step + i}/9500000 [2:05:12<1:07:22,  {chance.random() * 9:.2f}s/it]"
        for i in range(0, 100, 20)
    )
    loss = {"loss": round(chance.random() * 3, 4), "grad_norm": round(chance.random(), 4), "learning_rate": 2e-06}
    return "\r".join((*bars, " " * 60, str(loss | {"epoch": round(step / 5000, 2)})))


def nccl(chance: random.Random, rank: int, step: int) -> str:
    """NCCL at INFO: channels, rings and trees."""
    head = f"node{rank // PER_NODE:02d}:{41000 + rank}:{41500 + rank} [{rank % PER_NODE}] NCCL INFO "
    peer, channel = (rank + 1) % RANKS, chance.randrange(32)
    link = "[send] via NET/IB/0/GDRDMA" if rank // PER_NODE != peer // PER_NODE else "via P2P/CUMEM"
    return head + chance.choice(
        (
            f"Channel {channel:02d}/0 : {rank}[{rank % PER_NODE}] -> {peer}[{peer % PER_NODE}] {link}",
            f"Ring {channel:02d} : {rank - 1} -> {rank} -> {peer}",
            f"Trees [{channel}] {peer}/-1/-1->{rank}->{rank - 1} [{channel + 1}] {peer}/-1/-1->{rank}->{rank - 1}",
        )
    )


HEALTHY = {megatron: 3, deepspeed: 6, lightning: 1, trainer: 2, nccl: 13}
"""Who prints, and how often: each takes a fifth of the bytes."""


def trouble(chance: random.Random, rank: int, step: int) -> Iterator[str]:
    """The three lines of one rank's watchdog about one call."""
    head = f"[rank{rank}]:[E921 03:35:{chance.randrange(60):02d}.399015003 ProcessGroupNCCL.cpp:"
    yield (
        f"{head}632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={step}, "
        f"OpType=ALLREDUCE, NumelIn=1, "
        f"NumelOut=1, Timeout(ms)=600000) ran for {600000 + chance.randrange(99)} milliseconds before timing out."
    )
    yield (
        f"{head}2268] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: "
        f"{step} PG status: last "
        f"enqueued work: {step + 3}, last completed work: {step - 1}"
    )
    yield f"{head}684] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down."


def write(path: Path, megabytes: int, relevant: float) -> None:
    """A log of about this size, merged by ``srun --label``, in which about this share of the lines is relevant."""
    chance = random.Random(7)
    left = megabytes * 1_000_000
    with path.open("w", encoding="utf-8") as out:
        step = 0
        while left > 0:
            lines: list[str] = []
            for _ in range(20_000):
                step += 1
                rank = chance.randrange(RANKS)
                is_trouble = chance.random() < relevant / 3
                writer = chance.choices(list(HEALTHY), list(HEALTHY.values()))[0]
                said = trouble(chance, rank, step) if is_trouble else [writer(chance, rank, step)]
                lines.extend(f"{rank:2d}: {line}" for line in said)
            text = "\n".join(lines) + "\n"
            out.write(text)
            left -= len(text.encode())


def cpu(command: list[str]) -> float:
    """CPU seconds of a whole process."""
    # Into a pipe: GNU grep stops at the first line where nobody would read the second.
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while process.stdout is not None and process.stdout.read(1 << 20):
            pass
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # grep: 1 means that nothing was found
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def rival(patterns: Path, log: Path) -> list[str]:
    """The other tool's command."""
    if shutil.which("rg"):
        return ["rg", "-j1", "-F", "-a", "-f", str(patterns), str(log)]
    return ["grep", "-F", "-a", "-f", str(patterns), str(log)]


def main() -> None:
    """Write the log, run everything, print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--megabytes", type=int, default=300)
    options.add_argument("--relevant", type=float, default=0.001)
    options.add_argument("--repeat", type=int, default=3)
    asked = options.parse_args()

    from nccldoctor.parsers import registry

    literals = sorted({text for parser in registry.line_parsers() if not parser.sampled for text in parser.literals})
    with tempfile.TemporaryDirectory() as folder:
        log, few, same = (Path(folder) / name for name in ("job.log", "few", "same"))
        write(log, asked.megabytes, asked.relevant)
        few.write_text("\n".join(FEW) + "\n")
        same.write_text("\n".join(literals) + "\n")
        size = log.stat().st_size / 1e9
        commands = {
            "few": rival(few, log),
            "same": rival(same, log),
            "nccldoctor": [sys.executable, "-c", READ, str(log)],
            "literals alone": [sys.executable, "-c", SEARCH, str(log)],
            "python alone": [sys.executable, "-c", "import nccldoctor.parsers.engine.scan"],
        }
        times = {
            name: statistics.median(cpu(command) for _ in range(asked.repeat)) for name, command in commands.items()
        }
    tool = commands["few"][0]
    print(
        f"{size:.2f} GB, {asked.relevant:.2%} relevant, {len(literals)} literals, against {tool}, median of "
        f"{asked.repeat}"
    )
    for name, seconds in times.items():
        what = f"{tool}, {name} literals" if name in ("few", "same") else name
        print(f"{what:24s} {seconds:7.2f} CPU-s {size / seconds:6.2f} GB/CPU-s")
    print(
        f"nccldoctor / {tool}: {times['nccldoctor'] / times['few']:.1f} (few), "
        f"{times['nccldoctor'] / times['same']:.1f} (same)"
    )


if __name__ == "__main__":
    main()
