"""Compares the speed of reading logs with ripgrep, or GNU grep, printing the same lines.

    python benchmarks/text_scan.py --megabytes 1000 --relevant 0.001 --repeat 5

CPU time of whole processes (user and system, children included), median of the repetitions. ``few`` gives the other
tool sixteen literals, ``same`` all literals of all parsers. ``literals alone`` is the search without the parsers: it
must not grow with the families of lines. The log is made by this file: trainer lines, bars that
redraw themselves, loggers with ranks, NCCL INFO lines, and watchdog chains among them.
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


def healthy(chance: random.Random, step: int) -> str:
    """One line as a job that is well prints it."""
    kind = chance.random()
    if kind < 0.3:
        return (
            f" iteration {step:8d}/  250000 | consumed samples: {step * 1024:12d} | elapsed time per iteration (ms): "
            f"{chance.random() * 9000:.1f} | learning rate: 9.150E-06 | lm loss: {chance.random() * 3:.6E} | grad "
            f"norm: {chance.random():.3f} |"
        )
    if kind < 0.5:
        return str(
            {
                "loss": round(chance.random() * 3, 4),
                "grad_norm": round(chance.random(), 4),
                "epoch": round(step / 5000, 2),
            }
        )
    if kind < 0.6:
        bars = (
            f"Epoch 0: {i:3d}%|{'█' * (i % 10)}| {step + i}/500150 [6:28:43<94:39:17,  1.37it/s]" for i in range(10)
        )
        return "\r".join(bars)
    if kind < 0.85:
        return (
            f"[rank{chance.randrange(8)}]: 2026-04-05 15:49:{chance.randrange(60):02d},123 - data - INFO - "
            f"shard_{chance.randrange(9999):06d}.bin read in {chance.random():.3f}s"
        )
    if kind < 0.95:
        node, process, channel = chance.randrange(4), 9000 + chance.randrange(8), chance.randrange(32)
        return f"node{node}:{process}:9100 [0] NCCL INFO Channel {channel:02d}/0 : 0[0] -> 1[1] via P2P/CUMEM"
    return f"[rank {chance.randrange(8)}] Heartbeat: epoch=0 iter={step} global_step={step}"


def trouble(chance: random.Random, step: int) -> Iterator[str]:
    """The three lines of one rank's watchdog about one call."""
    rank = chance.randrange(8)
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
    """A log of about this size in which about this share of the lines is relevant."""
    chance = random.Random(7)
    left = megabytes * 1_000_000
    with path.open("w", encoding="utf-8") as out:
        step = 0
        while left > 0:
            lines: list[str] = []
            for _ in range(20_000):
                step += 1
                lines.extend(trouble(chance, step) if chance.random() < relevant / 3 else [healthy(chance, step)])
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
