"""Runs one command with a limit of time, and measures the processor time of its process tree (Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

MOST_OUTPUT = 1 << 24
"""Bytes of each stream that are read; the rest of what a tool prints is left out."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended: its exit code, None where its time ran out; what it printed; processor seconds."""

    code: int | None
    stdout: str
    stderr: str
    cpu_s: float


def run_command(command: list[str], scratch: Path, limit_s: float) -> Finished:
    """Run a command to its end, or kill it with its children after ``limit_s`` seconds. Raises OSError where it cannot start."""
    out, err = scratch / "stdout", scratch / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=scratch, start_new_session=True
        )
    is_late = threading.Event()

    def kill() -> None:
        is_late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit_s, kill)
    timer.start()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # not reaped yet: the timer can hit no other process
    timer.cancel()
    timer.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    code = None if is_late.is_set() else process.returncode
    return Finished(code, _text(out), _text(err), usage.ru_utime + usage.ru_stime)


def _text(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(MOST_OUTPUT).decode("utf-8", "replace")
