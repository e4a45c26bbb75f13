"""A healthy job accuses nobody, whatever healthy jobs print, and whenever one looks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from damage.kinds.folders import rank_in
from damage.kinds.registry import Files, NotApplicable, is_dump
from properties import stamps
from properties.jobs import Job
from properties.verdicts import Pair

WARNINGS: list[str] = tomllib.loads(Path(__file__).with_name("warnings.toml").read_text(encoding="utf-8"))["lines"]

_FRONT = re.compile(rb"^(?: {0,3}\d{1,3}: |\[default\d+\]:|\[pod/\S+ \S+ )?")


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """Four warnings in a healthy job; the same job as it looked while it ran."""
    if not job.is_well or not job.logs:
        return
    drawn = rng.sample(range(len(WARNINGS)), 4)
    files: Files = dict(job.files)
    for number in drawn:
        path = rng.choice(job.logs)
        files[path] = _with(rng, files[path], WARNINGS[number], job, _rank_of(job, path))
    yield Pair(f"warnings {', '.join(map(str, sorted(drawn)))}", files, job.truth)
    with suppress(NotApplicable):
        if any(is_dump(content) for content in job.files.values()) or len(job.logs) != len(job.files):
            return  # what was taken at the end tells of the end
        begin, end = stamps.span(job.files)
        now = begin + (end - begin) * rng.uniform(0.3, 0.95)
        yield Pair("looked at while it runs", {p: stamps.until(c, now) for p, c in files.items()}, job.truth)


def _rank_of(job: Job, path: str) -> int | None:
    """The rank that alone writes a file, by its name, or by torchrun's folders of a host; None where nobody knows."""
    local = re.search(r"attempt_\d+/(\d+)/", path)
    if local is None:
        return rank_in(path)
    hosts = [ranks for host, ranks in job.hosts.items() if host in path.split("/") or len(job.hosts) == 1]
    return hosts[0][int(local[1])] if len(hosts) == 1 and int(local[1]) < len(hosts[0]) else None


def _with(rng: Random, text: bytes, warning: str, job: Job, alone: int | None) -> bytes:
    """The text with a line more, which begins as its neighbour does, at the neighbour's time. ``alone`` is the rank that writes it."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1)
    times = stamps.dated(b"".join(lines[:at])) or stamps.dated(text)
    clock = times[-1] if times else None
    rank = rng.choice([rank for ranks in job.hosts.values() for rank in ranks] or [0])
    near = lines[max(0, at - 1)] if lines else b""
    if own := re.search(rb"\[rank(\d+)\]:", near):
        rank = int(own[1])
    rank = rank if alone is None else alone
    row = warning.format(
        r=rank,
        l=rank % 8,
        glog=f"{clock:%m%d %H:%M:%S}" if clock else "0101 00:00:00",
        iso=f"{clock:%Y-%m-%d %H:%M:%S}" if clock else "2026-01-01 00:00:00",
    )
    front = _FRONT.match(near)
    return b"".join([*lines[:at], (front[0] if front else b"") + row.encode() + b"\n", *lines[at:]])
