"""Runs ``nccldoctor watch``: prints what changes, and the report when the job is stuck.

Where a command, a receiver or a scraper is told, it goes on behind an alarm: a job that moves again may get stuck later.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from nccldoctor.cli import terminal
from nccldoctor.live.clock import Clock, WallClock
from nccldoctor.live.hook import hook_variables, run_hook
from nccldoctor.live.metrics import metrics_page, metrics_server
from nccldoctor.live.remarks import RELIEF, Remarks, stuck_sentence
from nccldoctor.live.sources import Watched, WatchedFolder, WatchedRas, ras_address
from nccldoctor.live.watch import Observation, State, Wishes, until_stuck, watch_job
from nccldoctor.live.webhook import Webhook
from nccldoctor.prescribe.missing_files import LOOK_HERE, look_at_slurm
from nccldoctor.words.sanitize import line

CODES = {State.ENDED: 0, State.STUCK: 1, State.LOST: 3}
"""How the command exits when it stops watching."""

WIDEST = 360
"""Characters of a headline at most."""

NOT_TOLD = 4
"""The exit code of a watch that ended while the job was stuck or failed, and whose ``--exec`` or ``--webhook`` failed."""


def watch_source(
    source: str,
    *,
    every: float,
    behind: float,
    stall: float,
    color: str,
    hook: str | None = None,
    metrics: str | None = None,
    webhook: str | None = None,
    clock: Clock | None = None,
) -> int:
    """Watch a folder or RAS until the job ends, or until it is stuck and nobody is told.

    It gives the exit code. ``hook`` is a shell command, ``metrics`` an address to listen at, ``webhook`` a URL to post to.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where there is nothing to watch, or one of these can't be used.
    """
    clock = clock or WallClock()
    wishes = Wishes(every, behind, stall)
    alarm = Alarm(source, hook, Webhook(webhook, source, clock) if webhook else None, color)
    remarks = Remarks(wishes)
    with ExitStack() as stack, _ended_by_signals():
        server = stack.enter_context(metrics_server(metrics)) if metrics else None
        looks = watch_job(_to_watch(source, stack, clock), clock, wishes)
        for seen in looks if hook or metrics or webhook else until_stuck(looks):
            if server is not None:
                server.page = metrics_page(seen, wishes)
            for sentence in remarks.about(seen):
                terminal.out_at(seen.at, sentence)
            alarm.hear(seen)
    return alarm.exit_code


class Alarm:
    """Raised when the job gets stuck, and over when it moves again.

    ``hook`` runs each time that it is raised, and the ``webhook`` is told what is new of it.
    """

    def __init__(self, source: str, hook: str | None, webhook: Webhook | None, color: str) -> None:
        self._source, self._hook, self._webhook, self._color = source, hook, webhook, color
        self._is_raised = False
        self._failed: set[str] = set()
        self._state = State.RUNNING

    def hear(self, seen: Observation) -> None:
        """Take one look into account."""
        self._state = seen.state
        is_new = seen.state is State.STUCK and not self._is_raised
        if is_new:
            self._is_raised = True
            _show_report(seen, self._color)
            if self._hook is None and not seen.is_verdict:
                # the stacks of all ranks show who is missing: of the job of Slurm that this runs in, else of this host
                here = f"{LOOK_HERE}  (on the job's host; for several hosts --slurm, --k8s or --ssh)"
                job = os.environ.get("SLURM_JOB_ID")
                click.echo(f"next: {look_at_slurm(job) if job else here}", err=True)
        elif seen.state in RELIEF and self._is_raised:
            self._is_raised = False
            terminal.out_at(seen.at, RELIEF[seen.state])
        elif seen.state is State.LOST:
            terminal.out("RAS doesn't answer any more: the job ended, or its node is down.\n")
        if (webhook := self._webhook) is not None and (event := webhook.news(seen)):
            self._tell(f"the post to {webhook.host}", lambda: webhook.post(event, seen))
        if (hook := self._hook) is not None and is_new:
            variables = hook_variables(seen.incident, self._source, CODES[State.STUCK])
            self._tell("the command of --exec", lambda: run_hook(hook, variables))

    def _tell(self, how: str, deliver: Callable[[], str]) -> None:
        """Call ``deliver``, which says why it failed. It counts as failed until it ended well: a signal may end the watch first."""
        self._failed.add(how)
        if problem := deliver():
            click.echo(f"error: {how} failed with {problem}", err=True)
        else:
            self._failed.discard(how)

    @property
    def exit_code(self) -> int:
        """How the command ends: an alarm that stands counts before a service that answers no more."""
        if self._is_raised:
            return NOT_TOLD if self._failed else CODES[State.STUCK]
        return CODES.get(self._state, 0)


class _Stopped(BaseException):
    """SIGTERM or Ctrl-C. No Exception: what keeps a broken file from costing the others must let it pass."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave the block at SIGTERM and Ctrl-C. One is enough: a batch system and its script may both send theirs."""

    def stop(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise _Stopped

    before: dict[int, Any] = {}
    for caught in (signal.SIGTERM, signal.SIGINT):
        before[caught] = signal.signal(caught, stop)
    try:
        yield
    except _Stopped:
        click.echo("the watch was stopped", err=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _to_watch(source: str, stack: ExitStack, clock: Clock) -> Watched:
    if "://" not in source:
        return WatchedFolder(Path(source))
    host, port = ras_address(source)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nccldoctor-ras-"))
    return WatchedRas(host, port, Path(folder), clock)


def _show_report(last: Observation, color: str) -> None:
    """The report of a job that is stuck.

    Without a verdict it is the headline alone: a look at the job comes first.
    """
    if not last.is_verdict:
        terminal.out(f"{stuck_sentence(last)}\n{line(last.incident.verdict.headline, WIDEST)}\n")
        return
    has_color, ascii_only = terminal.has_color(color), not terminal.has_unicode()
    terminal.out("\n" + last.incident.to_text(width=terminal.width(), color=has_color, ascii_only=ascii_only))
