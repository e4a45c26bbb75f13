"""Looks at this machine: ``on_node.py`` runs here as on any node."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from nccldoctor.collect.bundle import Answer

PATIENCE = 30.0
"""Seconds that a node gets on top of its own limit to end its answer."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What is asked of a node: ``pid`` is ``all`` or process ids with commas.

    ``where`` are variables (NAME=VALUE) that a process must have.
    ``twice`` is the number of seconds between two looks, 0 for one look; ``seconds`` and ``limit_mb`` bound the whole answer.
    """

    pid: str = "all"
    where: tuple[str, ...] = ()
    twice: float = 0.0
    seconds: float = 90.0
    limit_mb: int = 512

    @property
    def words(self) -> tuple[str, ...]:
        """The options as words of a command line, behind ``python3 -``."""
        more = [word for pair in self.where for word in ("--where", pair)]
        limits = ("--seconds", f"{self.seconds:g}", "--limit-mb", str(self.limit_mb))
        return ("--pid", self.pid, *more, *(("--twice", f"{self.twice:g}") if self.twice else ()), *limits)

    @property
    def patience(self) -> float:
        """Seconds after which a node that has not ended its answer is given up."""
        return self.seconds + self.twice + PATIENCE


def program() -> bytes:
    """The source of ``on_node.py``, which is streamed to the Python of a node."""
    return files("nccldoctor.collect").joinpath("on_node.py").read_bytes()


def look_here(options: NodeOptions, folder: Path) -> Answer:
    """The answer of this machine; its stream is a file in ``folder``."""
    began = time.monotonic()
    stream = folder / "local.tar"
    with stream.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-I", "-", *options.words], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE
        )
        try:
            _, said = child.communicate(program(), options.patience)
            error = None if child.returncode == 0 else _last_line(said) or f"exit code {child.returncode}"
        except subprocess.TimeoutExpired:
            error = f"no end within {options.patience:.0f} s"
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    return Answer(socket.gethostname(), stream, error, time.monotonic() - began)


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "backslashreplace").strip().splitlines()
    return lines[-1][:300] if lines else ""
