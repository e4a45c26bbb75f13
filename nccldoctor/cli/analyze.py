"""Runs ``nccldoctor analyze``: diagnoses, prints, writes the report, and says how to exit."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import Struct

from nccldoctor import pipeline
from nccldoctor.cli import exit_codes, report_file, terminal
from nccldoctor.incident import Incident
from nccldoctor.ingest.ingest import collector_off
from nccldoctor.reports.parts import redact
from nccldoctor.words.sanitize import line

TICKETS = ("md", "github", "jira", "slack")
"""The formats that print the ticket text."""


WHOLE = 2_000
"""Characters of a headline at most, where it stands alone."""


class Options(Struct, frozen=True):
    """The options of the command by their long names; ``form`` is ``--format``."""

    form: str
    output: Path | None
    force: bool
    redact: str | None
    rank_from: str | None
    catalogue: tuple[Path, ...]
    workers: int | None
    exit_zero: bool
    quiet: bool
    verbose: bool
    color: str
    scheduler: str | None = None


@collector_off()
def analyze_paths(paths: tuple[str, ...], options: Options) -> int:
    """Analyse ``paths``, print the result and write the report; the exit code.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where nothing can be analysed or the report cannot be written.
    """
    redacted = redact.wanted(options.redact or "")
    if options.output is not None:
        report_file.check_target(options.output, options.force)
    with exit_codes.failures_as(options.form), terminal.Waiting(options.quiet) as waiting:
        incident = pipeline.analyze(
            paths,
            rank_from=options.rank_from,
            workers=options.workers,
            catalogue=options.catalogue,
            scheduler=options.scheduler,
            on_progress=waiting,
        )
    if redacted:
        incident = incident.redacted(redacted)
    size = 0
    try:
        if options.output is not None:  # before anything is printed: stdout may be closed or full
            size = report_file.write_report(incident, options.output, force=options.force)
    finally:
        code = exit_codes.exit_code(incident.unquoted)
        if code != exit_codes.NOTHING_READABLE or options.form != "text":
            _print(incident, options)
    if size:
        click.echo(f"wrote {options.output} ({max(1, size // 1000):,} kB)", err=True)
    if code == exit_codes.NOTHING_READABLE:
        terminal.tell(exit_codes.unreadable(paths, incident.case.gaps))
    return 0 if options.exit_zero and code in (exit_codes.DIAGNOSED, exit_codes.CANNOT_TELL) else code


def _print(incident: Incident, options: Options) -> None:
    verdict = incident.verdict
    if options.form in exit_codes.DOCUMENTS:  # for programs, which read UTF-8 whatever the terminal is
        terminal.out(exit_codes.DOCUMENTS[options.form](incident.unquoted), encoding="utf-8")
    elif options.form in TICKETS:
        terminal.out(incident.to_ticket(options.form))
    elif options.quiet:
        terminal.out(f"{line(verdict.headline, WHOLE)} [{verdict.cause}, confidence {verdict.confidence}]\n")
    else:
        color, ascii_only = terminal.has_color(options.color), not terminal.has_unicode()
        told = incident.to_full_text if options.verbose else incident.to_text
        terminal.out(told(width=terminal.width(), color=color, ascii_only=ascii_only))
