"""Runs what may block in a child process, with a time and a size of its own."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

MOST_OUTPUT = 4 << 20
"""Bytes taken of what one command prints."""

READ_SECONDS, TOOL_SECONDS = 5.0, 15.0
"""Seconds that a read, and a command, may take."""

LEAST_SECONDS = 0.25
"""Seconds that a read may take where many others hung, and that a reader has to end after a signal."""

MOST_REPORT = 64 << 20
"""Bytes taken of one recorder dump, and of one report from the network."""

AT_ONCE = 4
"""Stack tools that run side by side: each stops one process for a moment."""


class Work(Protocol):
    """What a forked reader does: it passes bytes on by ``write``."""

    def __call__(self, write: Callable[[bytes], None], /) -> None:
        """Read, and write what was read."""


class Stopped(BaseException):
    """The collector has to end now: a signal asks for it, or nobody reads its answer any more."""


ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that ask the collector to end."""


class Interruption:
    """Ends the collector at a signal, but never between the start of a child and its entry into a list."""

    def __init__(self) -> None:
        self.is_held = False
        self.signal = ""

    def heed(self) -> None:
        """Hear signals from now on."""
        for number in ENDING:
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: object) -> None:
        """A further signal changes nothing: children are being ended."""
        for ignored in ENDING:
            signal.signal(ignored, signal.SIG_IGN)
        self.signal = signal.Signals(number).name
        if not self.is_held:
            raise Stopped(self.signal)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Put a signal off to the end of the block. Raises :class:`Stopped` then."""
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False
        if self.signal:
            raise Stopped(self.signal)


INTERRUPTION = Interruption()
"""That of this process."""


class Child:
    """A command or a forked reader; ``data`` grows until it ends, is late, or has printed too much.

    ``tidy`` is called whenever it has ended, and ``then`` unless the collector has to end.
    """

    def __init__(self, pid: int, pipe: int, seconds: float, limit: int = MOST_OUTPUT) -> None:
        self.pid = pid
        self.pipe = pipe
        self.until = time.monotonic() + seconds
        self.limit = limit
        self.data = bytearray()
        self.late = False
        self.status: int | None = None
        self.tidy: Callable[[Child], None] = lambda child: None
        self.then: Callable[[Child], None] = lambda child: None

    def has_more(self) -> bool:
        """Take what is there; False at the end."""
        block = os.read(self.pipe, 1 << 16)
        self.data += block[: max(0, self.limit - len(self.data))]
        return bool(block) and len(self.data) < self.limit

    def end(self, patience: float = 2.0) -> None:
        """Close the pipe; a child that does not go by itself is ended. Only children of this program get signals."""
        os.close(self.pipe)
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + (patience if not self.late or number else 0)
            if number:
                send_signal(self.pid, number)
            while True:
                done, status = os.waitpid(self.pid, os.WNOHANG)
                if done:
                    self.status = status
                    return
                if time.monotonic() >= until:
                    break
                time.sleep(0.01)


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone already."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def command(words: list[str], seconds: float, limit: int = MOST_OUTPUT) -> Child:
    """Start a command without a shell. Raises :class:`OSError` where it cannot be started."""
    env = {
        **{key: value for key, value in os.environ.items() if key in ("PATH", "LD_LIBRARY_PATH", "HOME", "TZ")},
        "LC_ALL": "C",
    }
    got, put = os.pipe()
    try:
        started = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=put, stderr=subprocess.STDOUT, env=env, cwd="/"
        )
    except BaseException:
        os.close(got)
        raise
    finally:
        os.close(put)
    started.returncode = 0  # this program waits for it by itself
    return Child(started.pid, got, seconds, limit)


def reader(work: Work, seconds: float, limit: int = MOST_OUTPUT) -> Child:
    """Run ``work(write)`` in a fork: a file system that hangs then hangs the fork alone."""
    got, put = os.pipe()
    pid = os.fork()
    if pid:
        os.close(put)
        return Child(pid, got, seconds, limit)
    try:
        os.close(got)
        for number in (signal.SIGPIPE, *ENDING):
            signal.signal(number, signal.SIG_DFL)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # a fork that hangs for ever must not keep the answer open
            os.dup2(silent, stream)

        def write(data: bytes) -> None:
            view = memoryview(data)
            while len(view):
                view = view[os.write(put, view) :]

        work(write)
    except BaseException:
        os._exit(1)
    os._exit(0)


def run_all(starters: Iterable[Callable[[], Child | None]], at_once: int = AT_ONCE) -> None:
    """Run children side by side to their end; each starter returns the next child, or None."""
    waiting, running = deque(starters), selectors.DefaultSelector()

    def begin(start: Callable[[], Child | None]) -> None:
        with INTERRUPTION.held():
            child = start()
            if child is not None:
                running.register(child.pipe, selectors.EVENT_READ, child)

    def conclude(child: Child) -> None:
        with INTERRUPTION.held():
            running.unregister(child.pipe)
            child.end()
            child.tidy(child)
        child.then(child)

    try:
        while waiting or running.get_map():
            while waiting and len(running.get_map()) < at_once:
                begin(waiting.popleft())
            if not running.get_map():
                continue
            first = min(key.data.until for key in running.get_map().values())
            for key, _ in running.select(max(0.0, first - time.monotonic())):
                if not key.data.has_more():
                    conclude(key.data)
            late = [key.data for key in running.get_map().values() if key.data.until <= time.monotonic()]
            for child in late:  # all at once: each may take seconds to go
                child.late = True
                send_signal(child.pid, signal.SIGTERM)
            for child in late:
                conclude(child)
    finally:
        _end_early([key.data for key in running.get_map().values()])
        running.close()


def _end_early(children: list[Child]) -> None:
    """End children that still run, all at about the same time."""
    for child in children:
        child.late = True
        send_signal(child.pid, signal.SIGTERM)
    for child in children:
        child.end()
        child.tidy(child)


def each(items: list[Any], look: Callable[[Any], Any], seconds: float = READ_SECONDS) -> Iterator[tuple[Any, Any]]:
    """Pairs of an item and ``look(item)``, made in a fork.

    None stands for an item at which the fork hung: it costs only itself. Each that hangs shortens the patience with the next, so that
    many cost little more than a few.
    """
    at = hangs = 0
    while at < len(items):
        for seen in _looks_until_one_hangs(items[at:], look, max(seconds / (1 + hangs), LEAST_SECONDS)):
            yield items[at], seen
            at += 1
        if at < len(items):
            yield items[at], None
            at, hangs = at + 1, hangs + 1


def _looks_until_one_hangs(items: list[Any], look: Callable[[Any], Any], seconds: float) -> Iterator[Any]:
    """``look`` of each item, from one fork; it ends where the fork is silent for so many seconds."""

    def work(write: Callable[[bytes], None], /) -> None:
        for item in items:
            write(json.dumps(look(item)).encode() + b"\n")

    child = reader(work, seconds)
    polling = selectors.DefaultSelector()
    polling.register(child.pipe, selectors.EVENT_READ)
    line = b""
    child.late = True  # unless its end is read
    try:
        while polling.select(seconds):
            block = os.read(child.pipe, 1 << 16)
            if not block:
                child.late = False
                break
            *whole, line = (line + block).split(b"\n")
            for text in whole:
                yield json.loads(text)
    finally:
        polling.close()
        child.end(LEAST_SECONDS)
