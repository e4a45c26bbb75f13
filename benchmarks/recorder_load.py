"""Analyses healthy recorder dumps with nccldoctor and with PyTorch's ``torchfrtrace``; prints processor time and memory.

    python benchmarks/recorder_load.py [--ranks 256] [--entries 2000] [--load] [--skip-torch]

Both run as whole process trees on the same dumps, which this script writes: a Megatron-like job with tensor, pipeline
and data parallel groups. nccldoctor writes its page, too. ``pickle.loads`` of all dumps, and nothing else, is the yardstick.
Targets for 256 and 512 ranks: an eighth of torchfrtrace's processor time, and for 512 a sixth of its memory.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

LOAD = """
import sys
from nccldoctor.discover.discover import discover
from nccldoctor.ingest.ingest import ingest
print(len(ingest(discover(sys.argv[1:])).batch.calls), "calls")
"""
PLAIN = """
import gc, pickle, sys
from pathlib import Path
gc.disable()
for path in sorted(Path(sys.argv[1]).iterdir()):
    pickle.loads(path.read_bytes())
"""
CALLERS = [("wrapper", "c10d_logger"), ("reduce", "mappings"), ("forward", "layers"), ("step", "schedules")]
BELOW = [{"name": name, "filename": f"/opt/train/{file}.py", "line": 40} for name, file in CALLERS]
STACKS = [[{"name": "all_reduce", "filename": "/opt/train/mappings.py", "line": n}, *BELOW] for n in range(7)]
"""PyTorch writes each distinct frame of a process once, however many stacks refer to it."""


def groups_of(rank: int, world: int) -> list[tuple[str, str, list[int]]]:
    """The groups of a rank: name, description and members, for tensor parallel 8 and pipeline parallel 4."""
    tensor, stage = 8, max(1, world // 4)
    tp, first = rank // tensor, rank // stage * stage
    dp = list(range(first + (rank - first) % tensor, first + stage, tensor))
    pp = list(range(rank % stage, world, stage))
    return [
        ("0", "default_pg", list(range(world))),
        (str(1 + tp), "TENSOR_MODEL_PARALLEL_GROUP", list(range(tp * tensor, (tp + 1) * tensor))),
        (str(100_000 + dp[0]), "DATA_PARALLEL_GROUP", dp),
        (str(200_000 + pp[0]), "PIPELINE_MODEL_PARALLEL_GROUP", pp),
    ]


def dump_of(rank: int, world: int, entries: int) -> bytes:
    """The dump of one healthy rank, as PyTorch 2.9 would write it."""
    return pickle.dumps(content_of(rank, world, entries), protocol=2)


def content_of(rank: int, world: int, entries: int) -> dict[str, Any]:
    """What stands in it."""
    groups = groups_of(rank, world)
    seqs = [0] * len(groups)
    rows = []
    for number in range(entries):
        which = 0 if number % 100 == 99 else 2 if number % 10 == 9 else 1
        uid, desc, _ = groups[which]
        seqs[which] += 1
        size = [4096, 1, 8192] if which == 1 else [1 << 24] if which == 2 else [1]
        rows.append(
            {
                "frames": list(STACKS[number % 7]),
                "record_id": number,
                "pg_id": which,
                "process_group": (uid, desc),
                "collective_seq_id": seqs[which],
                "p2p_seq_id": 0,
                "op_id": seqs[which],
                "profiling_name": "nccl:all_reduce",
                "time_created_ns": 1_780_000_000_000_000_000 + number * 3_000_000 + rank * 1_000,
                "input_sizes": [size],
                "input_dtypes": ["BFloat16"],
                "output_sizes": [list(size)],
                "output_dtypes": ["BFloat16"],
                "state": "completed",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": 1_780_000_000_000_000_000 + number * 3_000_000 + 2_000_000,
                "retired": True,
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
        )
    config = {uid: {"name": uid, "desc": desc, "ranks": as_text(tuple(members))} for uid, desc, members in groups}
    counters = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
    status = {str(n): dict(zip(counters, (seq, -1, seq), strict=True)) for n, seq in enumerate(seqs)}
    return {
        "version": "2.10",
        "pg_config": config,
        "pg_status": status,
        "comm_lib_version": "2.27.5",
        "entries": rows,
    }


@lru_cache(maxsize=1000)
def as_text(members: tuple[int, ...]) -> str:
    """A list of ranks as PyTorch writes it."""
    return str(list(members))


def measure(command: list[str]) -> tuple[float, int]:
    """Wall seconds and peak memory in bytes of a command and all its children (Linux)."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(resident, tree(process.pid))))
        time.sleep(0.02)
    wall = time.perf_counter() - start
    errors = process.stderr.read() if process.stderr else b""
    if process.returncode not in (0, 1, 3):  # 1: diagnosed; 3: not enough to judge
        sys.exit(f"{command[:3]} failed: {errors[-500:].decode()}")
    return wall, peak


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    out = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                out.extend(tree(int(child)))
        except OSError:
            continue
    return out


def resident(pid: int) -> int:
    """Resident bytes of a process, 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def run(name: str, command: list[str]) -> tuple[float, int]:
    """Run a command, print what it took, return processor seconds and peak bytes."""
    before = os.times()
    wall, peak = measure(command)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{name:<24} {cpu:7.2f} CPU-s  {wall:7.2f} s  {peak / 1e6:8.0f} MB")
    return cpu, peak


def main() -> None:
    """Write the dumps, run both, print the ratios."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ranks", type=int, default=256)
    options.add_argument("--entries", type=int, default=2000)
    options.add_argument("--load", action="store_true", help="measure the loading alone, not the whole command")
    options.add_argument("--skip-torch", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch, "dumps"))
        Path(folder).mkdir()
        for rank in range(given.ranks):
            (Path(folder) / f"nccl_trace_rank_{rank}").write_bytes(dump_of(rank, given.ranks, given.entries))
        report = str(Path(scratch, "report.html"))
        command = [sys.executable, "-m", "nccldoctor", "analyze", folder, "-o", report]
        if given.load:
            command = [sys.executable, "-c", LOAD, folder]
        print(f"{given.ranks} ranks x {given.entries} entries")
        plain, _ = run("pickle.loads", [sys.executable, "-c", PLAIN, folder])
        cpu, peak = run("nccldoctor", command)
        print(f"{cpu / plain:.2f} times the processor time of pickle.loads")
        if not given.skip_torch:
            module = "torch.distributed.flight_recorder.fr_trace"
            prefix = ["-p", "nccl_trace_rank_"]
            torch_cpu, torch_peak = run("torchfrtrace", [sys.executable, "-m", module, *prefix, folder])
            print(
                f"torchfrtrace takes {torch_cpu / cpu:.1f} times the processor time and {torch_peak / peak:.1f} times the memory"
            )


if __name__ == "__main__":
    main()
