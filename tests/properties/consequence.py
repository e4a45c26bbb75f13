"""What comes after the first alarm explains nothing: lines of ranks that are not at fault, behind their own alarm, change no verdict."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random

from damage.kinds.folders import rank_in
from damage.kinds.registry import Files
from properties import stamps
from properties.jobs import Job
from properties.verdicts import Pair

ALARM = re.compile(
    rb"^(?P<front>[^\n]{0,120}?)\[rank(?P<rank>\d+)\]:[^\n]{0,200}(?:Watchdog caught|Received a dump signal)", re.M
)

_COLLECTED = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d")

LINES: dict[str, str] = {
    name: row["text"]
    for name, row in tomllib.loads(Path(__file__).with_name("consequences.toml").read_text(encoding="utf-8")).items()
}


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """Two kinds of lines, of one rank and of all; and other signals in the records of the launcher."""
    if not job.truth.is_failure or job.truth.rank_sets is None or job.is_well:
        return
    at_fault = set().union(*job.truth.rank_sets)
    alarmed = {rank: place for rank, place in alarms(job.files).items() if rank not in at_fault}
    if alarmed:
        for number, name in enumerate(rng.sample(sorted(LINES), 2)):
            ranks = [rng.choice(sorted(alarmed))] if number == 0 else sorted(alarmed)
            who = f"rank {ranks[0]}" if number == 0 else f"{len(ranks)} ranks"
            yield Pair(f"{name} on {who}", _with(job.files, LINES[name], {r: alarmed[r] for r in ranks}), job.truth)
    other = {path: _segfaults(job.files[path], set(alarmed)) for path in job.logs}
    if any(job.files[path] != text for path, text in other.items()):
        yield Pair("SIGSEGV for SIGABRT in the launcher's records", job.files | other, job.truth)


def alarms(files: Files) -> dict[int, tuple[str, bytes, bool]]:
    """The ranks that gave an alarm: the file, what stands before a line, and whether the file is theirs alone."""
    out: dict[int, tuple[str, bytes, bool]] = {}
    for path, content in files.items():
        hits = {int(hit["rank"]): hit["front"] for hit in ALARM.finditer(content)}
        for rank, front in hits.items():
            alone = len(hits) == 1 and (
                rank_in(path) == rank or b"\n[rank" not in content.replace(b"\n[rank%d]" % rank, b"")
            )
            out.setdefault(rank, (path, re.sub(rb"\x1b\[\d+m", b"", front), alone))
    return out


def _with(files: Files, lines: str, places: dict[int, tuple[str, bytes, bool]]) -> Files:
    out = dict(files)
    for rank, (path, front, alone) in places.items():
        content = out[path]
        times = stamps.dated(content)
        clock = f"{times[-1].month:02}{times[-1]:%d %H:%M:%S}" if times else "0101 00:00:00"
        text = lines.format(r=rank, glog=clock)
        if hit := _COLLECTED.search(front):
            front = front.replace(hit[0], max(_COLLECTED.findall(content)))
        if not alone and not front.strip():  # in a file of many ranks each line says whose it is
            text = "\n".join(row if row.startswith("[rank") else f"[rank{rank}]: {row}" for row in text.split("\n"))
        rows = b"".join(front + row.encode() + b"\n" for row in text.split("\n"))
        out[path] = content + (b"" if content.endswith(b"\n") else b"\n") + rows
    return out


def _segfaults(text: bytes, ranks: set[int]) -> bytes:
    """The records of torchrun and srun in which these ranks ended by another signal of the same abort."""
    pids = {
        hit[2]
        for hit in re.finditer(rb"rank +: (\d+) \(local_rank: \d+\)\n *exitcode +: -6 \(pid: (\d+)\)", text)
        if int(hit[1]) in ranks
    }
    for pid in pids:
        text = re.sub(rb"exitcode( *): -6 \(pid: %s\)" % pid, rb"exitcode\1: -11 (pid: %s)" % pid, text)
        text = re.sub(rb"\(exitcode: -6\)( local_rank: \d+ \(pid: %s\))" % pid, rb"(exitcode: -11)\1", text)
        text = text.replace(
            b"Signal 6 (SIGABRT) received by PID %s" % pid, b"Signal 11 (SIGSEGV) received by PID %s" % pid
        )
        text = re.sub(rb"(-11 \(pid: %s\) +)\(SIGABRT\)" % pid, rb"\1(SIGSEGV)", text)
    for rank in ranks:
        text = re.sub(rb"task %d: Aborted" % rank, b"task %d: Segmentation fault" % rank, text)
    return text
