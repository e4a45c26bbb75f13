"""Writes the log of a rank, with a UTC time before every line, into at most two files."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path


class RankLog:
    """Lines of one rank. ``say`` raises OSError where the disk is full or gone; the caller decides what that means.

    The file is opened for each batch of lines: another process may write the last line, and a network file system may forget
    a handle.
    """

    def __init__(self, path: Path, label: str, most: int) -> None:
        self._path, self._label, self._most = path, label, most
        self._lock = threading.Lock()

    def say(self, *lines: str) -> None:
        """Append lines with the time of now."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append("".join(f"{now} INFO {self._label} {part}\n" for line in lines for part in line.splitlines()))

    def quote(self, front: str, text: str) -> None:
        """Append a text that another program would have printed, with ``front`` before each of its lines."""
        self._append("".join(f"{front}{line}\n" for line in text.splitlines()))

    def _append(self, text: str) -> None:
        with self._lock:
            if self._path.exists() and self._path.stat().st_size + len(text) > self._most:
                self._path.replace(self._path.with_suffix(".1.log"))
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
