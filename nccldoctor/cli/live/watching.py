"""Runs ``nccldoctor watch``: prints what changes, and the report when the job is stuck."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import click

from nccldoctor.cli import terminal
from nccldoctor.live.clock import Clock, WallClock
from nccldoctor.live.hook import hook_variables, run_hook
from nccldoctor.live.remarks import Remarks, stuck_sentence
from nccldoctor.live.sources import Watched, WatchedFolder, WatchedRas, ras_address
from nccldoctor.live.watch import Observation, State, Wishes, watch_job

CODES = {State.ENDED: 0, State.STUCK: 1, State.LOST: 3}
"""How the command exits when it stops watching."""

LOOK = "nccldoctor live --pid all --twice 10"
"""What brings stacks of all ranks, which show who is missing."""

HOOK_FAILED = 4
"""The exit code of a watch that ended with a verdict and whose ``--exec`` failed."""


def watch_source(
    source: str, *, every: float, behind: float, stall: float, hook: str | None, color: str, clock: Clock | None = None
) -> int:
    """Watch a folder or RAS until the job is stuck or ends; the exit code.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where there is nothing to watch.
    """
    clock = clock or WallClock()
    wishes = Wishes(every, behind, stall)
    remarks, last = Remarks(wishes), None
    with ExitStack() as stack:
        for seen in watch_job(_to_watch(source, stack, clock), clock, wishes):
            for sentence in remarks.about(seen):
                terminal.out(f"{datetime.fromtimestamp(seen.at):%H:%M:%S}  {sentence}\n")
            last = seen
    assert last is not None
    _show_report(last, color)
    problem = _hook_problem(last, source, hook) if hook and last.state is State.STUCK else ""
    if problem:
        click.echo(f"error: the command of --exec failed with {problem}", err=True)
        return HOOK_FAILED
    return CODES[last.state]


def _to_watch(source: str, stack: ExitStack, clock: Clock) -> Watched:
    if "://" not in source:
        return WatchedFolder(Path(source))
    host, port = ras_address(source)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nccldoctor-ras-"))
    return WatchedRas(host, port, Path(folder), clock)


def _show_report(last: Observation, color: str) -> None:
    """The report of a job that is stuck, and what to do next."""
    if last.state is State.LOST:
        terminal.out("RAS doesn't answer any more: the job ended, or its node is down.\n")
        return
    if last.state is State.ENDED:
        return
    if not last.is_verdict:
        terminal.out(f"{stuck_sentence(last)}\n")
    has_color, ascii_only = terminal.has_color(color), not terminal.has_unicode()
    terminal.out("\n" + last.incident.to_text(width=terminal.width(), color=has_color, ascii_only=ascii_only))
    if not last.is_verdict:
        click.echo(f"next: {LOOK}  (on the job's host; for several hosts --slurm, --k8s or --ssh)", err=True)


def _hook_problem(last: Observation, source: str, hook: str) -> str:
    """Run the user's command; why it failed, or ""."""
    return run_hook(hook, hook_variables(last.incident, source, CODES[last.state]))
