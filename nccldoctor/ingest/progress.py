"""Counts the bytes that are read of all inputs, and ends the reading on Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

Tell = Callable[[int, int], None]
"""Called with the bytes read and of all inputs, from any thread, one call at a time."""


class ReadingProgress:
    """The bytes read of all inputs. Once :meth:`give_up` was called, watched streams end in all threads."""

    def __init__(self, sizes: Iterable[int], tell: Tell | None) -> None:
        self.total = sum(sizes)
        self.done = 0
        self.is_given_up = False
        self._tell = tell
        self._lock = Lock()

    def count_bytes(self, count: int) -> None:
        """Count bytes of an input."""
        with self._lock:
            self.done = min(self.done + count, self.total)
            if self._tell is not None:
                self._tell(self.done, self.total)

    def give_up(self) -> None:
        """End the reading: somebody pressed Ctrl-C."""
        self.is_given_up = True


class InputProgress:
    """The bytes read of one input. One that unpacks to more counts as its size, one that is left early as a whole."""

    def __init__(self, size: int, all_inputs: ReadingProgress) -> None:
        self._left = size
        self._all = all_inputs

    def __enter__(self) -> InputProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.count_bytes(self._left)

    def watched(self, stream: Any) -> WatchedStream:
        """The stream, with its reading counted."""
        return WatchedStream(stream, self)

    def count_bytes(self, count: int) -> None:
        """Count bytes; those beyond the size count nothing."""
        count = min(count, self._left)
        if count:
            self._left -= count
            self._all.count_bytes(count)

    @property
    def is_given_up(self) -> bool:
        """True once nobody waits for the result."""
        return self._all.is_given_up


class WatchedStream:
    """A stream that counts what is read of it, and ends once the reading is stopped."""

    def __init__(self, stream: Any, progress: InputProgress) -> None:
        self._stream = stream
        self._progress = progress

    def readinto(self, target: Any) -> int:
        """Fill ``target``; 0 at the end, and once the reading is stopped."""
        if self._progress.is_given_up:
            return 0
        got = int(self._stream.readinto(target) or 0)
        self._progress.count_bytes(got)
        return got
