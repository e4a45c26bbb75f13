"""Tells other programs of a verdict: a command of the user gets what logs say as variables alone."""

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


def verdict_values(incident: Incident) -> dict[str, str]:
    """What other programs are told of a verdict: its class, confidence, ranks, hosts and headline."""
    verdict = incident.verdict
    hosts = dict.fromkeys(row.host for row in incident.unquoted.ranks if row.rank in verdict.ranks and row.host)
    return {
        "class": verdict.cause.value,
        "confidence": verdict.confidence.value,
        "ranks": str(verdict.blamed),
        "hosts": ",".join(line(host, 120) for host in hosts),
        "headline": line(verdict.headline),
    }


def hook_variables(incident: Incident, path: str, exit_code: int) -> dict[str, str]:
    """The values of a verdict as ``NCCLDOCTOR_CLASS`` and so on, with ``NCCLDOCTOR_PATH`` and ``NCCLDOCTOR_EXIT``."""
    values = verdict_values(incident) | {"path": path, "exit": str(exit_code)}
    return {f"NCCLDOCTOR_{name.upper()}": value for name, value in values.items()}


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
