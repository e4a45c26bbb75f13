"""Runs ``nccldoctor live``: collects, analyses, reports, and with ``--watch`` says what moved since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from nccldoctor import pipeline
from nccldoctor.cli import exit_codes, report_file, terminal
from nccldoctor.cli.live import collecting
from nccldoctor.collect.bundle import BundleResult
from nccldoctor.incident import Incident
from nccldoctor.live.clock import Clock, WallClock
from nccldoctor.live.fronts import compare_fronts, fronts
from nccldoctor.live.remarks import MovementRemarks
from nccldoctor.model.errors import InputError, OutputError


class _Round(Struct, frozen=True):
    """One collection and its analysis; ``at`` is when it was taken, in seconds since the epoch."""

    at: float
    bundle: BundleResult
    incident: Incident


def run_live(options: Mapping[str, Any], clock: Clock | None = None) -> int:
    """Collect and analyse, with ``--watch`` until no process of the job is left.

    Returns the exit code of the last diagnosis. Of a watched job, three rounds without an answer end the watch.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where no node can be asked, or a file cannot be written.
    """
    clock = clock or WallClock()
    way, node = collecting.chosen_way(options), collecting.node_options(options)
    if options["only_print"]:
        terminal.out("\n".join(collecting.plan(way, node, options["python"])) + "\n")
        return 0
    if options["watch"] and options["form"] != "text":
        raise InputError("--watch tells what moves in sentences", "leave out --format, or --watch")
    report: Path | None = options["report"]
    if report is not None:
        report_file.check_target(report, options["force"])
    target = collecting.bundle_path(options["output"], options["force"])

    def look(again: bool = False) -> _Round:
        bundle = collecting.ask_nodes(way, node, target, options["python"], failures_only=again)
        if not any(one.has_answered for one in bundle.nodes):
            raise InputError("no node answered", next((one.error for one in bundle.nodes if one.error), "") or "")
        return _Round(clock.now(), bundle, pipeline.analyze([target]))

    with exit_codes.failures_as(options["form"]):
        newest = look()
    _show(newest, options, report)
    if options["watch"]:
        for before, after in _rounds(newest, lambda: look(again=True), clock, options["watch"]):
            newest = after
            if collecting.has_processes(newest.bundle) and _verdict_of(before) != _verdict_of(newest):
                _show(newest, options, report)
    return exit_codes.exit_code(newest.incident.diagnosis)


def _rounds(newest: _Round, look: Callable[[], _Round], clock: Clock, pause: float) -> Iterator[tuple[_Round, _Round]]:
    """Each round with the one before it, until no process of the job is left. Prints what moved between them."""
    remarks, failures = MovementRemarks(), 0
    while collecting.has_processes(newest.bundle) and failures < 3:
        clock.sleep(pause)
        try:
            before, newest = newest, look()
        except InputError as error:
            failures += 1
            terminal.out_at(clock.now(), f"Nothing was collected: {error.message}.")
            continue
        failures = 0
        movement = compare_fronts(fronts(before.incident), fronts(newest.incident))
        for sentence in remarks.about(movement, before.at, newest.at):
            terminal.out_at(newest.at, sentence)
        yield before, newest
    terminal.out_at(clock.now(), "No answer in three rounds." if failures else "No process of the job is left.")


def _show(seen: _Round, options: Mapping[str, Any], report: Path | None) -> None:
    """What to know first, the whole report, and who did not answer."""
    heading = list(collecting.heading(seen.bundle))
    if options["form"] == "json":
        click.echo("\n".join(heading), err=True, nl=bool(heading))
        terminal.out(seen.incident.to_json(), encoding="utf-8")
    else:
        color, ascii_only = terminal.has_color(options["color"]), not terminal.has_unicode()
        terminal.out("".join(f"{row}\n" for row in heading))
        terminal.out(seen.incident.to_text(width=terminal.width(), color=color, ascii_only=ascii_only))
    click.echo("\n".join(collecting.summary(seen.bundle)), err=True)
    if report is not None:
        try:
            report_file.write_report(seen.incident, report, force=True)
        except OutputError as error:
            terminal.tell(error)
        else:
            click.echo(f"wrote {report}", err=True)


def _verdict_of(seen: _Round) -> tuple[object, ...]:
    verdict = seen.incident.verdict
    return verdict.cause, verdict.ranks, verdict.suspects, verdict.confidence_in
