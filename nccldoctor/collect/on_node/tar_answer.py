"""Writes the answer: a tar stream, and what ``node.json`` says of it."""

from __future__ import annotations

import json
import socket
import sys
import tarfile
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from nccldoctor.collect.on_node.children import Stopped
from nccldoctor.collect.on_node.masking import hide_secrets, without_values
from nccldoctor.collect.on_node.process import Process

KINDS = ("stack", "threads", "processes", "environment", "log", "dump", "ras", "kernel log", "gpu", "versions", "node")
"""What a file is."""

MASKING_SECONDS = 10.0
"""What the search of one file for secrets may take: it must not cost the others their place."""


def now() -> str:
    """The time with the offset of this node's clock, as logs of this node print it."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="milliseconds")


class TarAnswer:
    """The stream, and what ``node.json`` says of it. Each member is out as soon as it is written."""

    def __init__(self, out: Any, limit: int, seconds: float) -> None:
        self.out = out
        self.left = limit
        self.until = time.monotonic() + seconds
        self.started = now()
        self.files: list[dict[str, Any]] = []
        self.processes: list[Process] = []
        self.missing: list[dict[str, str]] = []
        self.secrets: dict[str, list[bytes]] = {}

    def without_secrets(self, data: bytes, job: str | None) -> bytes:
        """The text without what looks like a secret, and without secret variables of the job; None stands for all jobs."""
        values = self.secrets.get(job, []) if job is not None else [v for found in self.secrets.values() for v in found]
        return hide_secrets(without_values(data, values), min(self.until, time.monotonic() + MASKING_SECONDS))

    def plain_text(self, text: str) -> str:
        """One line of ``node.json`` without secrets."""
        return self.without_secrets(text.encode("utf-8", "backslashreplace"), None).decode("utf-8", "backslashreplace")

    @property
    def seconds_left(self) -> float:
        """What is left of the whole time."""
        return max(0.0, self.until - time.monotonic())

    def why_late(self, who: str) -> str:
        """Why a child was too late: ``who`` did not answer, or the time for all of the answer is over."""
        return f"{who} did not answer in time" if self.seconds_left else "no time left (--seconds)"

    def lacks(self, what: str, why: str) -> None:
        """Say once what could not be had."""
        row = {"what": self.plain_text(what)[:300], "why": self.plain_text(why)[:600]}
        if row not in self.missing and len(self.missing) < 2000:
            self.missing.append(row)

    def add(
        self, path: str, kind: str, data: bytes, process: Process | None = None, look: int | None = None, **more: Any
    ) -> None:
        """Write one file; ``more`` goes to its row in ``node.json``."""
        if kind != "dump":
            lines = data.count(b"\n")
            data = self.without_secrets(data, more.get("job", process.job if process is not None else None))
            if data.count(b"\n") < lines // 2:
                self.lacks(f"the beginning of {path}", "no time left to search it for secrets")
        if len(data) > self.left:
            self.lacks(path, "over the limit of this answer (--limit-mb)")
            return
        self.left -= len(data)
        row: dict[str, Any] = {
            "path": path,
            "kind": kind,
            "rank": None,
            "local_rank": None,
            "pid": None,
            "time": now(),
            "look": look,
        }
        if process is not None:
            row.update(rank=process.rank, local_rank=process.local_rank, pid=process.pid, job=process.job)
            if process.of is not None:
                row["of"] = process.of
        row.update((key, self.plain_text(value) if key == "source" else value) for key, value in more.items())
        self.files.append(row)
        self._member(path, data)

    def _member(self, path: str, data: bytes) -> None:
        info = tarfile.TarInfo(path)
        info.size, info.mtime, info.mode = len(data), int(time.time()), 0o644
        self._write(
            info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"), data, b"\0" * (-len(data) % tarfile.BLOCKSIZE)
        )

    def _write(self, *blocks: bytes) -> None:
        """Write to the stream at once. Raises :class:`Stopped` where nobody reads it any more."""
        try:
            for block in blocks:
                self.out.write(block)
            self.out.flush()
        except OSError as error:
            raise Stopped(f"its answer cannot be written: {error.strerror}") from None

    def tell(self, over: bool = False) -> None:
        """Write ``node.json`` as it is now."""
        document = {
            "version": 1,
            "tool": "nccldoctor on_node",
            "host": socket.gethostname(),
            "started": self.started,
            "ended": now() if over else None,
            "python": sys.version.split()[0],
            "files": self.files,
            "processes": [
                {**row, "command": self.plain_text(row["command"])} for row in (p.row() for p in self.processes)
            ],
            "missing": self.missing,
        }
        data = json.dumps(document, indent=1).encode("ascii")
        self.left = max(0, self.left - len(data))
        self._member("node.json", data)

    def conclude(self) -> None:
        """Write the last ``node.json`` and the end of the archive."""
        self.tell(over=True)
        self._write(b"\0" * (2 * tarfile.BLOCKSIZE))


def text_of(lines: Iterable[str]) -> bytes:
    """The bytes of a text file with these lines."""
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")
