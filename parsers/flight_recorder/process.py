"""One child process that loads recorder dumps, and the clock that ends it when it takes too long.

On Linux the child limits its own memory and processor time (:mod:`nccldoctor.parsers.flight_recorder.child`). The clock works
everywhere. Elsewhere it is the only limit, of memory too: a file can make the child grow until its time is up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from nccldoctor.parsers.flight_recorder.child import APART, BOOTSTRAP
from nccldoctor.parsers.flight_recorder.dump import Dump
from nccldoctor.parsers.flight_recorder.wire import pack


class Limits(Struct, frozen=True):
    """The memory and time that one file may take.

    ``memory_bytes`` is the least room granted beyond what the child has; files above a twentieth of it get 20 times
    their size, and no child gets more than 2 GB. An honest dump needs about nine times its size. ``wall_seconds`` is
    the parent's clock; longer than ``cpu_seconds``, because a busy machine is slow without fault of the file.
    Small files get less than ``cpu_seconds``.
    """

    file_bytes: int = 200 << 20
    memory_bytes: int = 512 << 20
    cpu_seconds: int = 10
    wall_seconds: float = 30.0


def refusal(why: str) -> bytes:
    """A packed dump without entries that says why."""
    return pack(Dump("dict", problem=f"refused: {why}"))


class Clock:
    """One thread that kills the children whose time is up."""

    def __init__(self) -> None:
        self._deadlines: dict[subprocess.Popen[bytes], float] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.killed: set[subprocess.Popen[bytes]] = set()
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        """Kill this process in so many seconds."""
        with self._lock:
            self._deadlines[process] = time.monotonic() + seconds

    def clear(self, process: subprocess.Popen[bytes]) -> None:
        """It was in time."""
        with self._lock:
            self._deadlines.pop(process, None)

    def stop(self) -> None:
        """End the watch."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(0.1):
            now = time.monotonic()
            with self._lock:
                late = [process for process, deadline in self._deadlines.items() if deadline < now]
                for process in late:
                    del self._deadlines[process]
                    self.killed.add(process)
                    process.kill()


class Child:
    """A child process, started when the first file comes and again after one has broken it."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.limits = limits
        self.clock = clock
        self.process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._lock = threading.Lock()

    def pack_of(self, file: Path | bytes) -> bytes:
        """The packed dump in a file, or in its bytes; a packed refusal where it broke the child."""
        used = self.process is not None
        message = self._request([file])
        reply, why = self._ask(message)
        if reply is None and used and not why.startswith("took "):
            reply, why = self._ask(message)  # it may have died of what earlier files left behind
        return refusal(why) if reply is None else reply

    def pack_together(self, files: Sequence[Path | bytes]) -> bytes | None:
        """The packed dumps in several files; None where they cannot be read together, or broke the child."""
        reply, _ = self._ask(self._request(files))
        return None if reply == APART else reply

    def _request(self, files: Sequence[Path | bytes]) -> bytes:
        asked = [{"bytes": len(file)} if isinstance(file, bytes) else {"path": os.fspath(file)} for file in files]
        limits = {"most": self.limits.file_bytes, "memory": self.limits.memory_bytes, "cpu_s": self.limits.cpu_seconds}
        head = json.dumps({"files": asked, **limits}).encode() + b"\n"
        return b"".join((head, *(file for file in files if isinstance(file, bytes))))

    def _ask(self, message: bytes) -> tuple[bytes | None, str]:
        try:
            process = self._running()
        except OSError as error:
            return None, f"the reader could not be started ({type(error).__name__})"
        assert process.stdin is not None and process.stdout is not None
        self.clock.start(process, self.limits.wall_seconds)
        try:
            process.stdin.write(message)
            process.stdin.flush()
            length = int.from_bytes(process.stdout.read(8), "little")
            reply = process.stdout.read(length) if 0 < length < 1 << 30 else b""
        except OSError:
            length, reply = 0, b""
        self.clock.clear(process)
        if length and len(reply) == length:
            return reply, ""
        return None, self._end_child(process)

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, started where there is none. Raises :class:`OSError` where that fails, and once it was killed."""
        with self._lock:
            if self._is_killed:
                raise OSError("killed")
            self.process = self.process or self._start()
            return self.process

    def kill(self) -> None:
        """End the process whatever it does, and start none again; any thread may call."""
        with self._lock:
            self._is_killed = True
            process = self.process
        if process is not None:
            process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        import nccldoctor
        from nccldoctor import parsers

        folders = [next(iter(package.__path__)) for package in (nccldoctor, parsers)]
        # -S and -P: no site packages and no working folder on the path: modules lying beside the logs are not imported
        command = [sys.executable, "-E", "-S", "-P", "-c", BOOTSTRAP, *folders]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1 << 16
        )

    def _end_child(self, process: subprocess.Popen[bytes]) -> str:
        """Why the child is gone."""
        self.process = None
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if process in self.clock.killed:
            return f"took more than {self.limits.wall_seconds:g} s to load"
        if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
            return "took longer to load than a file of its size should"
        return "broke the process that loaded it"

    def close(self) -> None:
        """Let the child end."""
        if self.process is not None:
            self._end_child(self.process)
