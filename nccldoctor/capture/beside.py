"""Starts the sidecar of a rank, tells it that the rank's threads still run, and sends it away."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from nccldoctor.capture.evidence import Evidence, Scratch
from nccldoctor.capture.identity import Identity

_SCRIPT = Path(__file__).with_name("sidecar.py")


class Beside:
    """The sidecar. It removes ``scratch`` where the rank cannot."""

    def __init__(self, evidence: Evidence, identity: Identity, scratch: Scratch, listing_s: float) -> None:
        config = {
            "pid": identity.pid,
            "label": identity.label,
            "stem": identity.stem,
            "command": f"python {Path(sys.argv[0]).name}",
            "log": str(evidence.log.absolute()),
            "state": str(evidence.state.absolute()),
            "late": str(scratch.late),
            "looks": str(evidence.looks.absolute()),
            "scratch": str(scratch.top),
            "listing_s": listing_s,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # Ctrl-C and a kill of the rank's process group are not for the sidecar
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)

    @property
    def pid(self) -> int:
        """The number of the sidecar's process."""
        return self._process.pid

    def beat(self) -> None:
        """Tell that the watcher runs; a sidecar that does not read costs the job nothing."""
        with suppress(OSError):
            os.write(self._pipe, b".")

    def end(self) -> None:
        """Send the sidecar away, and wait for it shortly."""
        with suppress(OSError):
            os.write(self._pipe, b"q")
        with suppress(OSError, subprocess.TimeoutExpired):
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(2.0)


def ask_torch_for_dump(scratch: Scratch, rank: int | None) -> None:
    """Write into the pipe that a thread of torch's NCCL process group serves, where there is one."""
    pipe = Path(f"{scratch.pipe_stem}{rank}.pipe")
    with suppress(OSError):
        if stat.S_ISFIFO(pipe.stat().st_mode):
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(descriptor, b"1")
            finally:
                os.close(descriptor)
