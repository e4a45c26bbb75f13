"""Lays the lines of a book out as files: one log, a file per rank, torchrun's tree, srun labels, pods."""

from __future__ import annotations

import datetime
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from simulator.lines.book import Book, Line, wall
from simulator.program import Job

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def _text(lines: Iterable[Line]) -> str:
    out: list[str] = []
    for line in lines:
        if line.text.startswith("\r"):
            out.append(line.text)  # a progress bar writes over itself and ends no line
            continue
        if out and out[-1].startswith("\r") and not line.text.startswith("["):
            out.append("\n")
        out.append(line.text + "\n")
    return "".join(out)


def pack(book: Book, run_id: str, rng: random.Random, until: float) -> dict[str, str]:
    """Path → text of every log file of the job; what lies after ``until`` was not collected."""
    job, knobs = book.job, book.job.knobs
    lines = [line for line in book.sorted() if line.time <= until]
    if knobs.lost_launcher:
        lines = [line for line in lines if line.rank is not None]
    if knobs.files in ("per_rank", "tree"):
        lines = [line for line in lines if line.rank not in knobs.lost_logs]
    if knobs.ansi:
        for line in lines:
            if (
                line.rank is not None
                and rng.random() < 0.2
                and "\n" not in line.text
                and not line.text.startswith("\r")
            ):
                line.text = f"{_RED}{line.text}{_PLAIN}"
    files = LAYOUTS[knobs.files](job, lines, run_id)
    if knobs.spliced and knobs.files == "merged":
        files = {name: _spliced(text, rng) for name, text in files.items()}
    return files


def _spliced(text: str, rng: random.Random) -> str:
    """Mixes two writers into one file: now and then a line lacks its end and the next follows at once."""
    lines = text.split("\n")
    return "".join(line + ("" if line.endswith("s") and rng.random() < 0.1 else "\n") for line in lines[:-1])


def _merged(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    return {"job.log": _text(lines)}


def _kept_ranks(job: Job) -> list[int]:
    return [rank for rank in range(job.knobs.world) if rank not in job.knobs.lost_logs]


def _per_rank(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    parts: dict[str, list[Line]] = defaultdict(list)
    for rank in _kept_ranks(job):
        parts[f"logs/rank_{rank}.log"] = []  # a rank that printed nothing has an empty file
    for line in lines:
        name = "launcher.log" if line.rank is None else f"rank_{line.rank}.log"
        parts["logs/" + name].append(line)
    return {name: _text(part) for name, part in parts.items()}


def _tree(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    """The folders are named for the LOCAL rank."""
    parts: dict[str, list[Line]] = defaultdict(list)
    for rank in _kept_ranks(job):
        folder = f"{job.host(rank)}/{run_id}/attempt_0/{job.local(rank)}"
        parts[f"{folder}/stdout.log"], parts[f"{folder}/stderr.log"] = [], []
    for line in lines:
        if line.rank is None:
            parts[f"{line.host}/agent.log"].append(line)
        else:
            stream = "stdout.log" if line.stream == "out" else "stderr.log"
            parts[f"{line.host}/{run_id}/attempt_0/{job.local(line.rank)}/{stream}"].append(line)
    return {name: _text(part) for name, part in parts.items()}


def _srun(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    width = len(str(job.knobs.world - 1))
    out: list[str] = []
    for line in lines:
        label = "" if line.rank is None else f"{line.rank:>{width}}: "
        out.extend(f"{label}{part}\n" for part in line.text.lstrip("\r").split("\n"))
    return {f"slurm-{run_id}.out": "".join(out)}


def _kube(job: Job, lines: list[Line], run_id: str) -> dict[str, str]:
    out: list[str] = []
    for line in lines:
        at = job.hosts.index(line.host)
        now = wall(job, line.time, line.host) - datetime.timedelta(hours=job.knobs.tz_hours)
        head = f"[pod/train-worker-{at}/pytorch] {now:%Y-%m-%dT%H:%M:%S}.{now.microsecond:06d}000Z "
        out.extend(f"{head}{part}\n" for part in line.text.lstrip("\r").split("\n"))
    return {"pods.log": "".join(out)}


LAYOUTS = {"merged": _merged, "per_rank": _per_rank, "tree": _tree, "srun": _srun, "kube": _kube}


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    """Write the files of a job below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in sorted(files.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
