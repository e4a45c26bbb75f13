"""Writes the stacks of all threads: at once, on SIGUSR1, and by a timer that needs no interpreter lock."""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path
from typing import IO


def write_stacks(path: Path) -> None:
    """Write the stacks of all threads of this process to ``path``, whole or not at all."""
    unfinished = path.with_name(f".{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished.open("w") as file:
        faulthandler.dump_traceback(file, all_threads=True)
    unfinished.replace(path)


class SignalStacks:
    """Stacks on SIGUSR1, written by C code: a rank that hangs in a C call answers, too.

    A handler of the job that is there already runs afterwards; one that the job sets later takes the signal over.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] | None = path.open("ab")
        self._seen = 0
        is_handled = signal.getsignal(signal.SIGUSR1) not in (signal.SIG_DFL, signal.SIG_IGN)
        faulthandler.register(signal.SIGUSR1, self._file, all_threads=True, chain=is_handled)

    def was_asked(self) -> bool:
        """True once after each signal."""
        if self._file is None:
            return False
        size = os.fstat(self._file.fileno()).st_size
        is_new, self._seen = size > self._seen, size
        if size > 1 << 20:
            self._file.truncate(0)
            self._seen = 0
        return is_new

    def close(self) -> None:
        """Give the signal back."""
        if self._file is not None:
            faulthandler.unregister(signal.SIGUSR1)
            self._file.close()
            self._file = None


class LateStacks:
    """A timer of C code that writes the stacks if the interpreter lock is held.

    ``faulthandler`` has one such timer for each process. A job that arms it itself takes it over until the next ``wind``.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] | None = path.open("ab")

    def wind(self, seconds: float) -> None:
        """Start the time again."""
        if self._file is not None:
            faulthandler.dump_traceback_later(seconds, file=self._file)

    def clear(self) -> None:
        """Forget what was written while the lock was held; it is free again."""
        if self._file is not None and os.fstat(self._file.fileno()).st_size:
            self._file.truncate(0)

    def close(self) -> None:
        """Stop the timer."""
        if self._file is not None:
            faulthandler.cancel_dump_traceback_later()
            self._file.close()
            self._file = None
