"""Starts the ranks of a rehearsal, waits until the fault shows, and ends all that it started."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from nccldoctor.rehearsal.faults import WORLD, Fault

STALL_S = 4.0
"""Seconds without progress after which the ranks look; a demonstration cannot wait for a third of a real timeout."""

LOOKS = 2
STILL_S, SETTLING_S = 2.0, 15.0
"""Seconds without a new stack, dump or state after which a look is whole, and the most that this may take."""

SIDECAR_S = 5.0
"""Seconds in which a sidecar ends after its rank."""

_SCRIPT = Path(__file__).with_name("train.py")


class Rehearsal(Struct, frozen=True):
    """A job that runs: the folder with ``capture/`` and ``logs/``, and its processes by rank."""

    folder: Path
    processes: dict[int, subprocess.Popen[bytes]]

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the ranks that still live."""
        return tuple(process.pid for process in self.processes.values() if process.poll() is None)

    def looks(self) -> list[Path]:
        """The folders of the looks that were taken, the oldest first."""
        with suppress(OSError):
            return sorted((self.folder / "capture" / "stacks").iterdir())
        return []

    def has_shown(self, fault: Fault) -> bool:
        """True once the job was looked at twice, or has made the steps in which a slow rank shows."""
        beats = self._heartbeats()
        if fault.steps:
            return any(f"heartbeat: step={fault.steps}" in line for line in beats)
        if not beats and fault.name != "never-starts":
            return False  # a busy machine may take long to import torch: that is no stall
        last = "".join(c for c in beats[-1][:19] if c.isdecimal()) if beats else ""
        return sum("".join(c for c in look.name if c.isdecimal()) > last for look in self.looks()) >= LOOKS

    def _heartbeats(self) -> list[str]:
        """The heartbeat lines of rank 0, which begin with a time in UTC as the names of looks do."""
        with suppress(OSError):
            log = (self.folder / "capture" / "rank_0.log").read_text()
            return [line for line in log.splitlines() if "heartbeat: step=" in line]
        return []

    def is_shown_within(self, fault: Fault, seconds: float) -> bool:
        """Wait until the job has ended or its fault has shown; False where neither came in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.pids:
                return True
            if self.has_shown(fault):
                if fault.steps:  # the job goes on: ask its ranks for a look
                    os.kill(self.pids[0], signal.SIGUSR1)
                self._let_settle()
                return True
            time.sleep(0.1)
        return False

    def _let_settle(self) -> None:
        """Wait until stacks, dumps and states of the ranks have all been written."""
        end = time.monotonic() + SETTLING_S
        seen, since = self._written(), time.monotonic()
        while time.monotonic() < min(end, since + STILL_S):
            time.sleep(0.1)
            if (now := self._written()) != seen:
                seen, since = now, time.monotonic()

    def _written(self) -> set[tuple[str, int]]:
        """What the looks have left: paths and times."""
        found = set()
        for part in ("stacks", "dumps", "processes"):
            for path in (self.folder / "capture" / part).rglob("*"):
                with suppress(OSError):
                    found.add((str(path), path.stat().st_mtime_ns))
        return found


@contextmanager
def rehearsed(fault: Fault, folder: Path) -> Iterator[Rehearsal]:
    """Run a job with ``fault`` in ``folder``, an empty one; when the block is left, none of its processes is."""
    (folder / "logs").mkdir(parents=True)
    work = Path(tempfile.mkdtemp(prefix="nccldoctor-work-"))
    processes: dict[int, subprocess.Popen[bytes]] = {}
    port = _free_port()
    try:
        for rank in range(WORLD):
            if fault.name != "never-starts" or rank != fault.rank:
                processes[rank] = _started(fault, rank, port, folder, work)
        yield Rehearsal(folder, processes)
    finally:
        _end_all(processes.values())
        shutil.rmtree(work, ignore_errors=True)


def _end_all(processes: Collection[subprocess.Popen[bytes]]) -> None:
    """Kill the ranks, and wait for their sidecars, which see that and end."""
    sidecars = []
    for pid in sidecars_of([process.pid for process in processes]):
        with suppress(OSError):
            sidecars.append(os.pidfd_open(pid))
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for process in processes:
        process.wait()
    for descriptor in sidecars:
        select.select([descriptor], [], [], SIDECAR_S)
        os.close(descriptor)


def sidecars_of(ranks: Collection[int]) -> Iterator[int]:
    """The pids of the sidecars of these processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            command = path.read_text(errors="replace")
            if "/capture/sidecar.py\0" in command and any(f'"pid": {pid},' in command for pid in ranks):
                yield int(path.parent.name)


def _started(fault: Fault, rank: int, port: int, folder: Path, work: Path) -> subprocess.Popen[bytes]:
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(WORLD),
        "LOCAL_WORLD_SIZE": str(WORLD),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "nccldoctor.capture", "--to", str(folder / "capture")]
    command += [
        "--stall-after",
        f"{STALL_S:g}",
        str(_SCRIPT),
        fault.name,
        str(-1 if fault.rank is None else fault.rank),
    ]
    with (folder / "logs" / f"rank_{rank}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=work,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
