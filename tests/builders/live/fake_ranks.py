"""Processes that look like ranks of a training job to the collector: Python scripts with a launcher's variables, and no torch."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nccldoctor.collect.one_file import collector_source

SOURCE = collector_source()
"""The collector, as nodes get it."""

MARK = "NCCLDOCTOR_TEST"
"""The variable by which the collector finds the processes of one test alone."""

WAIT = "import sys, os\ndef wait_for_peer():\n    print('ready', flush=True)\n    sys.stdin.read()\nwait_for_peer()\n"
"""A rank that says that it is there, and then reads from a pipe that stays open."""

PARENT = (
    "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {script!r}], stdin=sys.stdin, stdout=subprocess.PIPE,"
    " env={env})\nprint(child.stdout.readline().decode().strip(), child.pid, flush=True)\nchild.wait()\n"
)
"""A process that starts ``script`` and passes on its first line, with its pid."""


PYSPY = ("if [ \"$1\" = dump ]; then echo \"Process $3: python train.py\"; echo; echo \"Thread $3 (idle): \\\"MainThread\\\"\";"
         " echo \"    wait_for_peer (train.py:3)\"; fi",)  # fmt: skip
"""The lines of a py-spy that answers for every process."""


@dataclass
class Ranks:
    """The processes of one test; ``mark`` is the value of their common variable."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self, rank: int | None, world: int = 2, script: str = WAIT, args: Sequence[str] = (), **env: str
    ) -> tuple[int, str]:
        """Start a process and wait until it has printed a line; its pid, and the line."""
        process = self._spawn(["-c", script, *args], rank, world, env)
        assert process.stdout is not None
        return process.pid, process.stdout.readline().decode().strip()

    def start_all(self, world: int, script: Path, args: Sequence[str] = (), **env: str) -> None:
        """Start a script as every rank of a job, and wait until each says that it is ready."""
        for process in [self._spawn([str(script), *args], rank, world, env) for rank in range(world)]:
            assert process.stdout is not None
            assert any(line.strip() == b"ready" for line in process.stdout)

    def _spawn(
        self, words: Sequence[str], rank: int | None, world: int, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)} if rank is not None else {}
        plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env={**plain, **numbers, MARK: self.mark, **env},
        )
        self.processes.append(process)
        return process

    def stop(self, pid: int) -> None:
        """Stop a process by a signal, and wait until it stands."""
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)

    def collect(self, *options: str, source: str | None = None, python: str = sys.executable, **env: str) -> Stream:
        """What the collector writes about the processes of this test."""
        done = subprocess.run(
            [python, "-I", "-", "--where", f"{MARK}={self.mark}", *options],
            input=(source or SOURCE).encode(),
            capture_output=True,
            env={**os.environ, **env},
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return Stream(done.stdout)


@dataclass
class Stream:
    """What came from a node."""

    data: bytes

    def files(self) -> dict[str, bytes]:
        """The members; of several with one name the last."""
        with tarfile.open(fileobj=io.BytesIO(self.data)) as archive:
            return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]

    def told(self) -> dict[str, Any]:
        """The last ``node.json``."""
        return json.loads(self.files()["node.json"])

    def why(self, what: str) -> str:
        """Why things whose name holds ``what`` are missing."""
        return " | ".join(row["why"] for row in self.told()["missing"] if what in row["what"])


def changed(**values: object) -> str:
    """The collector with other constants."""
    source = SOURCE
    for name, value in values.items():
        before = source
        source = source.replace(f"\n{name} = ", f"\n{name} = {value!r}  # ", 1)
        assert source != before, name
    return source


@contextmanager
def fake_ranks(folder: Path) -> Iterator[Ranks]:
    """Fake ranks that end with the test."""
    ranks = Ranks(folder)
    try:
        yield ranks
    finally:
        for process in ranks.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def state(pid: int) -> str:
    """R, S, T and so on; "" of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def tool(folder: Path, name: str, lines: Iterable[str]) -> Path:
    """A stack tool that is a shell script; the folder to put on the path."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / name
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    script.chmod(0o755)
    return folder
