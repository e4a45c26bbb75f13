"""Small jobs as files, for the remedies: what the ranks, their launcher, kernels and stack tools would leave.

A :class:`Job` is built up by chained calls and written to a folder; nothing here knows the catalogue.
"""

from __future__ import annotations

from pathlib import Path

from builders.jobs.cases import START, RecordedRank, Team, wall, world
from builders.logs.lines import caught

PER_HOST = 4
DEFAULT = "default_pg"


def site(function: str, file: str = "/opt/train/train.py", line: int = 90) -> list[dict[str, object]]:
    """The recorded stack of a call made in ``function``, below the training loop."""
    return [
        {"name": "all_reduce", "filename": "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", "line": 2800},
        {"name": function, "filename": file, "line": line},
        {"name": "main", "filename": "/opt/train/train.py", "line": 400},
    ]  # fmt: skip


class Job:
    """Eight ranks on two hosts that have made some steps; each rank has a log of its own."""

    def __init__(self, size: int = 8, steps: int = 500, per_host: int = PER_HOST) -> None:
        self.size, self.per_host = size, per_host
        self.lines: dict[str, list[str]] = {}
        self.bytes: dict[str, bytes] = {}
        self.clock = dict.fromkeys(range(size), 0)
        for rank in range(size):
            self.raw(
                self.log(rank),
                f"2026-11-20 09:00:00,000 INFO rank {rank}/{size} starting on node{self.node(rank)} pid={4000 + rank}",
            )
            for step in range(max(1, steps - 2), steps + 1):
                self.say(rank, f"step {step} loss 2.{step % 100:02d}")

    def node(self, rank: int) -> int:
        return rank // self.per_host

    def log(self, rank: int) -> str:
        return f"node{self.node(rank)}/rank_{rank}.log"

    def raw(self, name: str, *lines: str) -> Job:
        """Lines of a file, as they are."""
        self.lines.setdefault(name, []).extend(lines)
        return self

    def say(self, rank: int, *lines: str) -> Job:
        """Adds lines to the log of a rank, one second apart and before any timeout."""
        for line in lines:
            self.clock[rank] += 1
            self.raw(self.log(rank), f"2026-11-20 10:00:{self.clock[rank]:02d},000 INFO {line}")
        return self

    def native(self, rank: int, text: str, second: int = 0) -> Job:
        """A line of the watchdog, ten minutes later."""
        head = f"[rank{rank}]:[E1120 10:11:{second:02d}.{100 + rank}000000 ProcessGroupNCCL.cpp:685]"
        return self.raw(self.log(rank), f"{head} {text}")

    def gives_up(
        self,
        ranks: list[int],
        op: str = "ALLREDUCE",
        seq: int = 4321,
        numel: int = 65536,
        pg: str = DEFAULT,
        uid: str = "0",
    ) -> Job:
        """These ranks wait in the call until the limit."""
        name = f"[PG ID {uid} PG GUID {uid}({pg}) Rank "
        for rank in ranks:
            message = caught(rank, seq, op, numel=numel, ran_ms=600_020)
            self.native(rank, message.replace("[Rank ", name))
            self.native(
                rank,
                f"{name}{rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {seq - 1}",
            )
        return self

    def late(self, *ranks: int, seq: int = 4321, pg: str = DEFAULT, **call: object) -> Job:
        """Everybody but ``ranks`` is in the call; those answer the dump signal, so they live."""
        others = [r for r in range(self.size) if r not in ranks]
        self.gives_up(others, seq=seq, pg=pg, **call)
        for rank in ranks:
            self.native(
                rank,
                f"[PG ID 0 PG GUID 0({pg}) Rank {rank}] Received a dump signal due to a collective timeout from rank {others[0]} and we "
                f"will try our best to dump the debug info. Last enqueued NCCL work: {seq - 1}, last completed NCCL work: {seq - 1}.",
                1,
            )  # fmt: skip
        return self

    def stuck(self, **call: object) -> Job:
        """Everybody is in the call, and it does not end."""
        return self.gives_up(list(range(self.size)), **call)

    def stack(self, rank: int, *frames: str) -> Job:
        """py-spy's view of the main thread, innermost first."""
        head = [
            f"Process {4000 + rank}: python train.py",
            "Python v3.12.3 (/usr/bin/python3.12)",
            "",
            'Thread 4711 (idle): "MainThread"',
        ]
        return self.raw(
            f"stacks/stack_rank_{rank}.txt", *head, *(f"    {frame}" for frame in frames), "    main (train.py:400)"
        )

    def kernel(self, node: int, *lines: str) -> Job:
        return self.raw(
            f"dmesg-node{node}.log", *(f"[Fri Nov 20 10:00:{i + 5:02d} 2026] {line}" for i, line in enumerate(lines))
        )

    def nccl(self, rank: int, *lines: str) -> Job:
        """NCCL's own log: warnings, or INFO lines."""
        return self.raw(
            self.log(rank),
            *(f"node{self.node(rank)}:{4000 + rank}:{4900 + rank} [{rank % self.per_host}] {line}" for line in lines),
        )

    def versions(self, torch: str = "", nccl: str = "") -> Job:
        if torch:
            self.raw(self.log(0), f"2026-11-20 09:00:01,000 INFO PyTorch version: {torch}")
        if nccl:
            self.nccl(0, f"NCCL INFO NCCL version {nccl}+cuda12.4")
        return self

    def raises(self, rank: int, error: str, *frames: str, file: str = "/opt/train/train.py") -> Job:
        """An uncaught exception, with its traceback."""
        self.raw(self.log(rank), "Traceback (most recent call last):")
        for frame in ("main", *frames):
            self.raw(self.log(rank), f'  File "{file}", line 90, in {frame}', f"    {frame}()")
        return self.raw(self.log(rank), error)

    def logs_error(self, rank: int, error: str) -> Job:
        """An exception that the program caught, logged and went on from."""
        self.clock[rank] += 1
        self.raw(
            self.log(rank),
            f"2026-11-20 10:00:{self.clock[rank]:02d},000 - trainer - ERROR - Traceback (most recent call last):",
        )
        return self.raw(self.log(rank), '  File "/opt/train/train.py", line 91, in step', "    loss = model(x)", error)

    def ends(self, code: dict[int, int], node: int = 0) -> Job:
        """torchrun's table of the first failure."""
        words = {-6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV", -7: "SIGBUS", -15: "SIGTERM"}
        rows = []
        for at, (rank, value) in enumerate(code.items()):
            how = (
                f"Signal {-value} ({words[value]}) received by PID {4000 + rank}"
                if value < 0
                else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
            )
            rows += [f"[{at}]:", "  time      : 2026-11-20_10:00:20", f"  host      : node{self.node(rank)}", f"  rank      : {rank} (local_rank: {rank % self.per_host})",
                     f"  exitcode  : {value} (pid: {4000 + rank})", "  error_file: <N/A>", f"  traceback : {how}"]  # fmt: skip
        head = ["=" * 60, "train.py FAILED", "-" * 60, "Failures:"]
        root = ["-" * 60, "Root Cause (first observed failure):", *rows[:7], "=" * 60]
        return self.raw(f"launcher-node{node}.log", *head, *(rows[7:] or ["  <NO_OTHER_FAILURES>"]), *root)

    def launch(self, *lines: str) -> Job:
        return self.raw("launch.sh", "#!/bin/bash", *lines)

    def recorded_ranks(self, *recorded_ranks: RecordedRank) -> Job:
        """Recorder dumps, and the watchdog's line of each rank that waits in a collective."""
        for recorded in recorded_ranks:
            self.bytes[f"fr/nccl_trace_rank_{recorded.rank}"] = recorded.data()
            open_ = next((e for e in recorded.entries if e["state"] != "completed"), None)
            if open_ is not None:
                op = open_["profiling_name"].removeprefix("nccl:").split(" ")[0]
                name = (
                    f"_{op.strip('_').replace('_base', '').replace('_', '')}_base"
                    if op.startswith("_")
                    else op.replace("_", "")
                )
                numel = open_["input_sizes"][0][0]
                self.gives_up(
                    [recorded.rank],
                    name.upper(),
                    open_["collective_seq_id"],
                    numel,
                    open_["process_group"][1],
                    open_["process_group"][0],
                )
        return self

    def content(self) -> dict[str, bytes]:
        """Every file by its path."""
        return {name: "\n".join([*lines, ""]).encode() for name, lines in sorted(self.lines.items())} | self.bytes

    def write(self, folder: Path) -> Path:
        for name, data in self.content().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder


ALL = world(8)
__all__ = ["ALL", "START", "Job", "RecordedRank", "Team", "site", "wall", "world"]
