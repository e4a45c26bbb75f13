"""Keeps what was read of text files, so that a later analysis reads only those that changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from nccldoctor.discover.discover import Input
from nccldoctor.parsers.base import Parsed


class ReadBefore:
    """Content of plain files by their place among the inputs, size and time.

    What one round did not ask for is forgotten. Recorder dumps are not kept: a job writes them once, when the watch is about to end.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, Parsed] = {}
        self._now: dict[Hashable, Parsed] = {}

    def begin(self) -> None:
        """Begin the next round."""
        self._last, self._now = self._now, {}

    def parsed(self, one: Input, limits: Hashable, read: Callable[[Input], Parsed]) -> Parsed:
        """The content as the last round saw it under the same limits; else as ``read`` gives it. Threads may call this side by side."""
        if one.file is None:
            return read(one)
        try:
            found = one.file.stat()  # before the file is read: what is written meanwhile is new to the next round
        except OSError:
            return read(one)
        key = one.source, found.st_ino, found.st_size, found.st_mtime_ns, limits
        before = self._last.get(key)
        parsed = self._now[key] = before if before is not None else read(one)
        return parsed
