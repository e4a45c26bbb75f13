"""Bundles of a job that hangs, as the collector writes them, with stacks made up."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

WAITS = (
    "all_reduce (torch/distributed/distributed_c10d.py:2810)",
    "train_step (train.py:60)",
    "<module> (train.py:90)",
)
EVALUATES = ("forward (model.py:12)", "evaluate (train.py:24)", "<module> (train.py:88)")


def stack(pid: int, frames: Sequence[str], command: str = "python train.py") -> bytes:
    """What py-spy prints of a process with one thread."""
    lines = [
        f"Process {pid}: {command}",
        "Python v3.11.7 (/usr/bin/python3.11)",
        "",
        f'Thread {pid} (idle): "MainThread"',
    ]
    return "\n".join([*lines, *(f"    {frame}" for frame in frames)]).encode() + b"\n"


def pack(target: Path, files: Mapping[str, bytes]) -> Path:
    """A packed archive with these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    target.write_bytes(zstandard.compress(out.getvalue()))
    return target


@dataclass
class Bundle:
    """The files of a bundle, and the rows of its manifest; rank R on host H has pid 1000 + R."""

    files: dict[str, bytes] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, host: str, path: str, kind: str, data: bytes, rank: int | None = None, **more: Any) -> None:
        """One file of a node."""
        self.files[f"nodes/{host}/{path}"] = data
        pid = 1000 + rank if rank is not None else None
        row = {"path": f"nodes/{host}/{path}", "node": host, "host": host, "kind": kind, "rank": rank, "pid": pid}
        self.rows.append({**row, **more})

    def look(self, host: str, frames: Mapping[int, Sequence[str]], look: int = 1, world: int = 4) -> None:
        """Stacks and states of the ranks of a host."""
        moment = f"2026-05-01T10:00:{10 * look:02}+00:00"
        table = ["PID PPID STAT WCHAN ELAPSED COMMAND"]
        for rank, lines in frames.items():
            self.add(
                host, f"rank-{rank}/stack-{look}.txt", "stack", stack(1000 + rank, lines), rank, look=look, time=moment
            )
            if look == 1:
                variables = f"RANK={rank}\nWORLD_SIZE={world}\n".encode()
                self.add(host, f"rank-{rank}/environment.txt", "environment", variables, rank)
            table.append(f"{1000 + rank} 1 S futex_do_wait 00:10:00 python train.py")
        self.add(host, f"node/processes-{look}.txt", "processes", "\n".join(table).encode(), look=look, time=moment)

    def write(self, target: Path) -> Path:
        """The archive."""
        document = {"version": 1, "tool": "nccldoctor collect", "nodes": self.nodes, "files": self.rows, "missing": []}
        return pack(target, {**self.files, "manifest.json": json.dumps(document).encode()})
