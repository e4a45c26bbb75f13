"""Writes the stacks of all threads: at once, on SIGUSR1, and by a timer that needs no interpreter lock."""

from __future__ import annotations

import faulthandler
import fcntl
import io
import math
import os
import signal
import weakref
from contextlib import suppress
from pathlib import Path

_HIGH = 1000
"""File numbers from here on are given to nobody who does not ask for them, and no loop over the first few hundred closes them."""


def write_stacks(path: Path) -> None:
    """Write the stacks of all threads of this process to ``path``, whole or not at all."""
    unfinished = path.with_name(f".{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished.open("w") as file:
        faulthandler.dump_traceback(file, all_threads=True)
    unfinished.replace(path)


class StackFile:
    """A file that C code writes stacks to by its number, on SIGUSR1 and by a timer.

    A rank that hangs in a C call answers, too. The job may close the number and give it to another file: :attr:`is_ours` is asked before
    each use. A handler of the job that is there already runs after ours; one that the job sets later takes the signal over.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        low = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self.number = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, min(_HIGH, os.sysconf("SC_OPEN_MAX") - 2))
        finally:
            os.close(low)
        self._same = path.stat()
        self._before = signal.getsignal(signal.SIGUSR1)
        is_handled = self._before not in (signal.SIG_DFL, signal.SIG_IGN)
        faulthandler.register(signal.SIGUSR1, self.number, all_threads=True, chain=is_handled)

    @property
    def is_ours(self) -> bool:
        """True while the number stands for this file."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self.number), self._same)
        return False

    def was_written(self) -> bool:
        """True once after something was written."""
        with suppress(OSError):
            if self._path.stat().st_size:
                os.truncate(self._path, 0)
                return True
        return False

    def close(self) -> None:
        """Give signal and number back, unless the job has taken them."""
        if signal.getsignal(signal.SIGUSR1) == self._before:
            faulthandler.unregister(signal.SIGUSR1)
        if self.is_ours:
            os.close(self.number)


class LateStacks:
    """A timer of C code that writes the stacks if the interpreter lock is held.

    ``faulthandler`` has one such timer for each process, and keeps the file of whoever set it last. When it no longer holds our file,
    the job has set or stopped the timer, and nothing here touches it again. ``is_free`` is False where the job may have set it before.
    """

    def __init__(self, file: StackFile, is_free: bool) -> None:
        self._file = file
        self._is_taken = not is_free
        self._kept: weakref.ref[io.FileIO] | None = None
        self.fires = -math.inf

    def wind(self, seconds: float, now: float) -> None:
        """Let the timer fire in ``seconds`` or somewhat later, unless it is wound again before."""
        if now < self.fires - seconds:
            return
        file = io.FileIO(self._file.number, "a", closefd=False)
        kept, before = weakref.ref(file, self._let_go), self._kept
        if not self._is_taken:  # no call stands between here and the timer: no other thread runs meanwhile
            self._kept = kept
            faulthandler.dump_traceback_later(seconds * 1.25, file=file)
        self.fires = math.inf if self._is_taken else now + seconds * 1.25
        del before

    def _let_go(self, kept: weakref.ref[io.FileIO]) -> None:
        self._is_taken = self._is_taken or kept is self._kept

    def disarm(self) -> None:
        """Stop the timer if it is ours; it can be wound again."""
        before, self._kept = self._kept, None
        if before is not None and not self._is_taken:
            faulthandler.cancel_dump_traceback_later()
        self.fires = -math.inf
