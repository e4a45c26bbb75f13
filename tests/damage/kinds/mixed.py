"""What hosts, other jobs, older runs and people mix into the files of a job."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from datetime import datetime, timedelta

from damage.kinds.folders import rank_in
from damage.kinds.forms import CLOCK, FIRST_TIME, moved
from damage.kinds.registry import Files, NotApplicable, of_files, texts

MIXED = "mixed"

_KERNEL = re.compile(r"dmesg|kern|journal|messages", re.I)
_APART = (1, 7, 40, 150, 900, 3600, 8 * 3600)
"""Seconds by which clocks of hosts are found apart: a bad NTP server, a daemon that never ran, another zone."""


def _texts_of_a_host(rng: random.Random, files: Files) -> list[str]:
    """The texts of half or of a quarter of the ranks, which follow each other as those of a host do."""
    ranks = sorted({rank for path in texts(files) if (rank := rank_in(path)) is not None})
    if len(ranks) < 2:
        raise NotApplicable
    many = max(1, len(ranks) // rng.choice((2, 4)))
    first = rng.randrange(0, len(ranks), many)
    return [path for path in texts(files) if rank_in(path) in ranks[first : first + many]]


def _with_moved(files: Files, chosen: list[str], by: timedelta) -> Files:
    out = {path: moved(content, by) if path in chosen else content for path, content in files.items()}
    if out == files:
        raise NotApplicable
    return out


@of_files(CLOCK)
def a_hosts_clock_ahead(rng: random.Random, files: Files) -> Files:
    """The clock of one host is ahead, by a second to eight hours."""
    return _with_moved(files, _texts_of_a_host(rng, files), timedelta(seconds=rng.choice(_APART)))


@of_files(CLOCK)
def a_hosts_clock_behind(rng: random.Random, files: Files) -> Files:
    """The clock of one host is behind, by a second to eight hours."""
    return _with_moved(files, _texts_of_a_host(rng, files), timedelta(seconds=-rng.choice(_APART)))


@of_files(CLOCK)
def a_host_in_another_zone(rng: random.Random, files: Files) -> Files:
    """One host writes the times of another zone."""
    hours = rng.choice((-9, -8, -5, -2, -1, 1, 2, 5.5, 8, 9))
    return _with_moved(files, _texts_of_a_host(rng, files), timedelta(hours=hours))


@of_files(CLOCK)
def kernel_logs_in_another_zone(rng: random.Random, files: Files) -> Files:
    """The logs of the kernel have the times of another zone."""
    chosen = [path for path in texts(files) if _KERNEL.search(path)]
    return _with_moved(files, chosen, timedelta(hours=rng.choice((-9, -8, -5, -2, -1, 1, 2, 5.5, 8, 9))))


def _last_time(files: Files) -> datetime:
    found = []
    for hit in (hit for path in texts(files) for hit in FIRST_TIME.finditer(files[path].decode("utf-8", "replace"))):
        with suppress(ValueError):  # a number of a script's own
            found.append(datetime.fromisoformat(f"{hit['day']} {hit['clock']}"))
    if not found:
        raise NotApplicable
    return max(found)


def _ranks(files: Files) -> range:
    """As many ranks as the job has, as far as its names and lines tell, and four at least."""
    named = [rank for path in files if (rank := rank_in(path)) is not None]
    told = [int(hit) for path in texts(files) for hit in re.findall(rb"\[[Rr]ank ?(\d{1,4})\]", files[path])]
    return range(max(4, 1 + max([*named, *told], default=0)))


def _steps(rank: int, start: datetime, first: int, count: int) -> str:
    lines = (
        f"{start + timedelta(minutes=n):%Y-%m-%d %H:%M:%S},{rank:03d} INFO [rank{rank}] step {first + n} loss {2.5 - n / 900:.3f}\n"
        for n in range(count)
    )
    return "".join(lines)


def _finished(rank: int, start: datetime, first: int, count: int) -> str:
    end = start + timedelta(minutes=count)
    return _steps(rank, start, first, count) + f"{end:%Y-%m-%d %H:%M:%S},000 INFO [rank{rank}] training finished\n"


def _failed(rank: int, start: datetime, missing: int) -> str:
    """An older run: ``missing`` stops, and the others give up on its all-reduce ten minutes later."""
    text = _steps(rank, start, 1, 30 - (rank == missing))
    if rank == missing:
        return text
    end = start + timedelta(minutes=30, seconds=600)
    return text + (
        f"[rank{rank}]:[E{end:%m%d %H:%M:%S}.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation"
        f" timeout: WorkNCCL(SeqNum=211, OpType=ALLREDUCE, NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) ran for 600041"
        f" milliseconds before timing out.\n"
    )


@of_files(MIXED)
def a_finished_job_in_a_folder_beside(rng: random.Random, files: Files) -> Files:
    """The folder of another job, which ran at the same time and finished, lies beside."""
    start = _last_time(files) - timedelta(minutes=17)
    other = {f"eval-0417/rank_{r}.log": _finished(r, start, 1, 42).encode() for r in _ranks(files)}
    return {**{f"train-0416/{path}": content for path, content in files.items()}, **other}


@of_files(MIXED)
def a_finished_job_in_the_same_folder(rng: random.Random, files: Files) -> Files:
    """The logs of another job, which ran at the same time and finished, lie in the same folder by other names."""
    start = _last_time(files) - timedelta(minutes=17)
    return {**files, **{f"eval_rank{r}.log": _finished(r, start, 9000, 42).encode() for r in _ranks(files)}}


@of_files(MIXED)
def a_failed_job_of_yesterday_beside(rng: random.Random, files: Files) -> Files:
    """The folder of a job that hung the day before lies beside."""
    start, missing = _last_time(files) - timedelta(days=1), rng.randrange(4)
    other = {f"run-1/rank_{r}.log": _failed(r, start, missing).encode() for r in range(4)}
    return {**{f"run-2/{path}": content for path, content in files.items()}, **other}


def _older_texts(rng: random.Random, files: Files) -> dict[str, str]:
    """The lines of a run of the day before, by the path of each rank's text."""
    of_ranks = {path: rank for path in texts(files) if (rank := rank_in(path)) is not None and not _KERNEL.search(path)}
    if len(set(of_ranks.values())) < 3:
        raise NotApplicable
    start, missing = _last_time(files) - timedelta(days=1), rng.choice(sorted(set(of_ranks.values())))
    logs = {path: rank for path, rank in of_ranks.items() if "stack" not in path and "pyspy" not in path}
    return {path: _failed(rank, start, missing) for path, rank in logs.items()}


@of_files(MIXED)
def an_older_run_in_front(rng: random.Random, files: Files) -> Files:
    """Every rank appended its lines to the log of the day before, when another rank was missing."""
    older = _older_texts(rng, files)
    return {path: older.get(path, "").encode() + content for path, content in files.items()}


@of_files(MIXED)
def an_older_attempt_folder(rng: random.Random, files: Files) -> Files:
    """The folder of an earlier attempt, in which another rank was missing, lies beside."""
    older = {f"attempt_0/{path}": text.encode() for path, text in _older_texts(rng, files).items()}
    return {**older, **{f"attempt_1/{path}": content for path, content in files.items()}}


@of_files(MIXED)
def torn_bars(rng: random.Random, files: Files) -> Files:
    """A progress bar is drawn over the lines of the ranks, and some lines begin in the middle of it."""

    at = rng.randrange(100)
    bar = f"\rLoading shards: {at:3d}%|{'█' * (at // 10)}▌| {at}/100 [01:23<01:41,  5.41it/s]".encode()

    def drawn(line: bytes) -> bytes:
        return (bar if rng.random() < 0.2 else b"") + (b"\r" if rng.random() < 0.1 else b"") + line

    logs = [path for path in texts(files) if path.endswith((".log", ".out", ".err")) and not _KERNEL.search(path)]
    if not logs:
        raise NotApplicable
    bars = {path: b"\n".join(map(drawn, files[path].split(b"\n"))) for path in logs}
    return {**files, **bars}


_CHAT = """\
Anna Petrova  9:14 AM
is anybody else seeing hangs on the new nodes? last week it was
> RuntimeError: CUDA error: device-side assert triggered
and on Monday rank {other} died, exit code -9
Bo Lind  9:16 AM
we had NCCL WARN NET/IB : Got completion from peer with status=12 on node17, swapped the cable
try NCCL_P2P_DISABLE=1 first
Anna Petrova  9:20 AM
[rank{other}]: ValueError: bad sample 12    <- this was the old run, not this one
"""


@of_files(MIXED)
def a_pasted_chat_beside(rng: random.Random, files: Files) -> Files:
    """A chat in which people quote errors of other runs lies beside."""
    ranks = sorted({rank for path in files if (rank := rank_in(path)) is not None}) or [3]
    return {**files, "slack-thread.txt": _CHAT.format(other=rng.choice(ranks)).encode()}
