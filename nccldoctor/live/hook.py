"""Runs a command of the user when there is a verdict; what logs say reaches it as variables alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from nccldoctor.incident import Incident
from nccldoctor.words.sanitize import line

PATIENCE_S = 300.0
"""Seconds that the command may take."""


def hook_variables(incident: Incident, path: str, exit_code: int) -> dict[str, str]:
    """What the command is told: ``NCCLDOCTOR_CLASS``, ``_RANKS``, ``_HOSTS``, ``_HEADLINE``, ``_CONFIDENCE``, ``_PATH``, ``_EXIT``."""
    verdict = incident.verdict
    hosts = dict.fromkeys(row.host for row in incident.diagnosis.ranks if row.rank in verdict.ranks and row.host)
    return {
        "NCCLDOCTOR_CLASS": verdict.cause.value,
        "NCCLDOCTOR_CONFIDENCE": verdict.confidence.value,
        "NCCLDOCTOR_RANKS": str(verdict.blamed),
        "NCCLDOCTOR_HOSTS": ",".join(line(host, 120) for host in hosts),
        "NCCLDOCTOR_HEADLINE": line(verdict.headline),
        "NCCLDOCTOR_PATH": path,
        "NCCLDOCTOR_EXIT": str(exit_code),
    }


def run_hook(command: str, variables: Mapping[str, str], patience: float = PATIENCE_S) -> str:
    """Run the user's shell line; why it failed, or "". Its output goes to stderr, because stdout has the report."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,
    )
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        return f"no end within {patience:.0f} s"
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"exit code {code}" if code else ""
