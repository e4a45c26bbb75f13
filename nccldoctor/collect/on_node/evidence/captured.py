"""Takes what ``nccldoctor.capture`` has left of each rank: its log, stacks, dump and state."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from typing import Any

from nccldoctor.collect.on_node.children import MOST_REPORT, READ_SECONDS, Child, reader, run_all
from nccldoctor.collect.on_node.inside import open_inside
from nccldoctor.collect.on_node.process import CaptureFolder, Process
from nccldoctor.collect.on_node.process_tree import ProcessTree, folder
from nccldoctor.collect.on_node.tar_answer import TarAnswer

MOST_LOOKS = 8
"""The newest looks whose stacks are taken; capture itself keeps two for each stall."""

_LOOK = re.compile(r"[0-9]{8}T[0-9]{6}Z")


def captured_files(pid: int, capture: CaptureFolder) -> Iterator[tuple[str, str, str | None]]:
    """Kind, path below the folder, and time of each file that a rank may have there.

    The time of a look is its name; None where that of the file counts.
    """
    stem = capture.stem
    yield "log", f"{stem}.1.log", None
    yield "log", f"{stem}.log", None
    yield "processes", f"processes/{stem}.txt", None
    yield "dump", f"dumps/fr_trace_{stem[len('rank_') :] if capture.rank is not None else stem}", None
    for look in _looks(pid, f"{capture.top}/stacks")[-MOST_LOOKS:]:
        date, _, clock = look.rstrip("Z").partition("T")
        at = f"{date[:4]}-{date[4:6]}-{date[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}+00:00"
        yield "stack", f"stacks/{look}/{stem}.txt", at


def _looks(pid: int, path: str) -> list[str]:
    """The names of the looks in a folder, the oldest first."""
    try:
        place = open_inside(pid, path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return []
    try:
        return sorted(name for name in os.listdir(place) if _LOOK.fullmatch(name))
    finally:
        os.close(place)


def _read_captured(pid: int, capture: CaptureFolder, write: Callable[[bytes], None], /) -> None:
    """Write each file: one line that describes it, and its bytes.

    A process may claim any path: only what its own user may open is read.
    """
    for kind, name, at in captured_files(pid, capture):
        path = f"{capture.top}/{name}"
        try:
            descriptor = open_inside(pid, path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_REPORT:
                continue
            data = file.read(MOST_REPORT)
            at = at or datetime.fromtimestamp(found.st_mtime, timezone.utc).isoformat(timespec="milliseconds")
            row = {"kind": kind, "name": name, "source": path, "time": at, "size": len(data)}
            write(json.dumps(row).encode() + b"\n" + data)


def _told_files(data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """What :func:`_read_captured` wrote; a file that is cut is left out."""
    while b"\n" in data:
        line, _, data = data.partition(b"\n")
        row = json.loads(line)
        if len(data) < row["size"]:
            return
        yield row, data[: row["size"]]
        data = data[row["size"] :]


def add_captured(answer: TarAnswer, tree: ProcessTree) -> None:
    """The files of each rank that is captured, below ``rank-3/capture/``."""
    hanging: set[str] = set()

    def start(rank: Process) -> Child | None:
        if rank.capture is None:
            return None
        if rank.capture.top in hanging:  # it would cost the same time for each rank
            _tell_missing(answer, rank, rank.capture, answer.why_late(WHO))
            return None
        read = partial(_read_captured, rank.pid, rank.capture)
        child = reader(read, min(READ_SECONDS, answer.seconds_left), 2 * MOST_REPORT)
        child.then = partial(end, rank, rank.capture)
        return child

    def end(rank: Process, capture: CaptureFolder, child: Child) -> None:
        files = list(_told_files(bytes(child.data)))
        for row, data in files:
            more = {"time": row["time"], "source": row["source"]}
            answer.add(f"{folder(rank, tree)}/capture/{row['name']}", row["kind"], data, rank, **more)
        if child.late:
            hanging.add(capture.top)
        if child.late or not files:
            _tell_missing(answer, rank, capture, answer.why_late(WHO) if child.late else "it cannot be read")

    run_all([partial(start, rank) for rank in tree.ranks], 1)


WHO = "its file system"
"""Who is late where a folder takes too long to read."""


def _tell_missing(answer: TarAnswer, rank: Process, capture: CaptureFolder, why: str) -> None:
    answer.lacks(f"the capture of {rank.name} in {capture.top}", why)
