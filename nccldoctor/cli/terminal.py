"""Prints results to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
import time
import traceback
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress, TaskID

    from nccldoctor.model.errors import NccldoctorError

WIDTHS = (60, 200)
"""Summaries are laid out for terminals between these widths."""

PATIENCE = 1.0
"""Seconds before progress is shown on a terminal."""


BROKEN = 70
"""A mistake of the program itself (EX_SOFTWARE of sysexits.h)."""


class ReportingGroup(click.Group):
    """The one place where errors become text."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; end with the exit code of what went wrong."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(130)  # what a shell reports for Ctrl-C; 1 would say that a stall was diagnosed
        except (click.exceptions.Exit, click.Abort, click.ClickException):
            raise
        except Exception as error:
            from nccldoctor.model.errors import NccldoctorError

            if isinstance(error, NccldoctorError):
                tell(error)
                ctx.exit(error.exit_code)
            from nccldoctor.words.secrets import masked

            click.echo(masked(traceback.format_exc()), err=True)
            click.echo("error: nccldoctor itself failed; please report the lines above", err=True)
            ctx.exit(BROKEN)


def tell(error: NccldoctorError) -> None:
    """One clear line, and one with the way out where there is one, on stderr."""
    from nccldoctor.words.secrets import masked

    click.echo(f"error: {masked(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {masked(error.hint)}", err=True)


def out(text: str, *, encoding: str | None = None) -> None:
    """Write ``text`` to stdout, in ``encoding`` where given, else in that of the terminal.

    What the encoding cannot express is shown as an escape. A reader that went away (``| head``) is no error.
    Raises :class:`~nccldoctor.model.errors.OutputError` where stdout is closed or full.
    """
    from nccldoctor.model.errors import OutputError

    if sys.stdout is None:  # closed by the shell: nccldoctor ... >&-
        raise OutputError("stdout is closed", "redirect it to a file, or write a report with -o")
    code = encoding or getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        sys.stdout.buffer.write(text.encode(code, "backslashreplace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        # The interpreter flushes stdout once more when it ends; give it a place where that works.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"stdout can't be written: {error.strerror}", "is the disk full?") from None


def out_at(at: float, sentence: str) -> None:
    """Print a sentence behind the time of day at ``at``, seconds since the epoch."""
    out(f"{datetime.fromtimestamp(at):%H:%M:%S}  {sentence}\n")


def show_page(markdown: str) -> None:
    """Print CommonMark: rendered where stdout takes colours, else as plain text without marks."""
    from nccldoctor.reports.terminal import document

    out(document.rendered(markdown, width()) if has_color("auto") else document.unmarked(markdown))


def has_color(wish: str) -> bool:
    """True where stdout gets colours: ``always``, ``never``, or by NO_COLOR, FORCE_COLOR and the terminal."""
    if wish != "auto":
        return wish == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (
        sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    )


def has_unicode() -> bool:
    """True where stdout can show more than ASCII."""
    return "utf" in (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")


def width() -> int:
    """The columns to lay text out for."""
    import shutil

    low, high = WIDTHS
    return max(low, min(high, shutil.get_terminal_size((100, 24)).columns))


class Waiting:
    """Shows a bar with rate and remaining time where stderr is a terminal, once reading takes longer than a second.

    An instance is handed to the pipeline as ``on_progress(done, total)``, in bytes. ``clock`` gives seconds.
    """

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._clock = clock
        self._begin = clock()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` bytes are read; any thread may call."""
        if not self._is_shown or self._clock() - self._begin < PATIENCE:
            return
        if self._bar is None or self._task is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

            columns = ("reading", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            console = Console(stderr=True, highlight=False)
            self._bar = Progress(*columns, console=console, transient=True, get_time=self._clock)
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
