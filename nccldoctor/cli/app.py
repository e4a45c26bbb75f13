"""Declares the commands: quick to start, because each imports its work when it runs."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import click

from nccldoctor.cli import catalogue, completion, env, history, terminal
from nccldoctor.cli.completion import completing
from nccldoctor.cli.live import commands as live
from nccldoctor.cli.options import (
    choice_option,
    format_option,
    paths_argument,
    rank_from_option,
    redact_option,
    report_options,
    workers_option,
)
from nccldoctor.version import __version__

EXIT_CODES = """\b
Exit codes:
  0  the job ended well
  1  a hang or failure was diagnosed
  2  usage error, or nothing readable
  3  not enough to judge, or the cause is unknown"""


@click.group(
    cls=terminal.ReportingGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 79}
)
@click.version_option(__version__, message=f"nccldoctor %(version)s (Python {sys.version.split()[0]})")
def cli() -> None:
    """Say which rank hung a distributed PyTorch job, and what to do.

    \b
    Try it on a bundled incident, then on your own logs and dumps:
      nccldoctor demo
      nccldoctor analyze logs/
      nccldoctor analyze logs/ -o report.html
    """


@cli.command(epilog=EXIT_CODES)
@paths_argument
@report_options
@workers_option
@click.option("--scheduler", metavar="ADDRESS", help="Read on a cluster: tcp://host:8786, ray://host:10001 or ray.")
def analyze(paths: tuple[str, ...], **options: Any) -> None:
    """Name the rank at fault, who waited for it, why, and what to do.

    PATH is a folder, a file, an archive, a quoted pattern or - for stdin: logs,
    flight-recorder dumps, stacks, kernel logs, launch scripts in any mix.

    \b
    Examples:
      nccldoctor analyze logs/
      nccldoctor analyze slurm-4711.out /scratch/nccl_trace_rank_* -o report.html
      nccldoctor analyze logs/ -o report.zip --redact hosts,users,paths
      kubectl logs -l job=train --prefix --tail=-1 | nccldoctor analyze -
    """
    from nccldoctor.cli.analyze import Options, analyze_paths

    click.get_current_context().exit(analyze_paths(paths, Options(**options)))


@cli.command()
@paths_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The part to write: FILE.nd, named for its node.",
)
@click.option("--force", is_flag=True, help="Replace the file named by -o.")
@workers_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def reduce(paths: tuple[str, ...], output: Path, force: bool, workers: int | None, quiet: bool) -> None:
    """Read the files of one node and write what they hold to a small part.

    Run it on every node, then merge the parts: the verdict is that of one analyze
    over all files. A part holds lines of the logs as they are.

    \b
    Examples:
      nccldoctor reduce /tmp/nccl_traces -o /shared/parts/$(hostname).nd
      srun --overlap sh -c 'nccldoctor reduce /tmp/logs -o $(hostname).nd'
    """
    from nccldoctor.cli.parts import reduce_paths

    reduce_paths(paths, output, force, workers, quiet)


@cli.command(name="merge", epilog=EXIT_CODES)
@paths_argument
@report_options
def merge_command(paths: tuple[str, ...], **options: Any) -> None:
    """Put parts together and diagnose the job, as analyze does.

    PATH is a part that reduce wrote, or a folder of parts. With -o FILE.nd the
    parts are only joined, to be merged with others later.

    \b
    Examples:
      nccldoctor merge parts/ -o report.html
      nccldoctor merge node0.nd node1.nd --format json
      nccldoctor merge rack1/*.nd -o rack1.nd
    """
    from nccldoctor.cli.analyze import Options
    from nccldoctor.cli.parts import merge_paths

    click.get_current_context().exit(merge_paths(paths, Options(workers=None, **options)))


@cli.command()
@paths_argument
@format_option("text", "json")
@rank_from_option
@workers_option
@click.option(
    "--entry", type=click.IntRange(0), metavar="N", help="Print entry N of one flight recorder dump, counted from 0."
)
@click.option("--tracks", is_flag=True, help="Print what each rank did, in order, and when.")
def inspect(
    paths: tuple[str, ...], form: str, rank_from: str | None, workers: int | None, entry: int | None, tracks: bool
) -> None:
    """Show what was recognised in the input, without a verdict.

    One row per file: its kind, rank and host, the events and relevant lines parsed,
    the time it covers; then the first line of each file that was not parsed.

    \b
    Examples:
      nccldoctor inspect logs/
      nccldoctor inspect logs/ --format json
      nccldoctor inspect dumps/ --rank-from 'gpu(?P<rank>\\d+)'
      nccldoctor inspect dumps/fr_trace_1 --entry 21
      nccldoctor inspect logs/ --tracks
    """
    from nccldoctor import pipeline
    from nccldoctor.cli import recorded_entry
    from nccldoctor.reports import inspect, json_document
    from nccldoctor.reports.terminal.inspected import inspected_text
    from nccldoctor.reports.terminal.tracks import tracks_text
    from nccldoctor.summarise.standings import track_rows

    with terminal.Waiting() as waiting:
        case = pipeline.read(paths, rank_from=rank_from, workers=workers, on_progress=waiting)
    if entry is not None:
        found = recorded_entry.recorded_entry(case, entry)
        if form == "json":
            terminal.out(recorded_entry.to_json(found), encoding="utf-8")
        else:
            terminal.out(recorded_entry.to_text(found))
    elif tracks:
        rows = list(track_rows(case))
        shown = (
            json_document.written(inspect.tracks_document(rows))
            if form == "json"
            else tracks_text(rows, terminal.width())
        )
        terminal.out(shown, encoding="utf-8")
    elif form == "json":
        terminal.out(inspect.to_json(case), encoding="utf-8")
    else:
        terminal.out(inspected_text(case, terminal.width()))


@cli.command()
@paths_argument
def settle(paths: tuple[str, ...]) -> None:
    """Print the smallest run that tells apart what an open verdict leaves.

    It is a script of the shell. Run it, then analyze the same PATH again: the line
    that it writes beside the logs is read as evidence.

    \b
    Examples:
      nccldoctor settle logs/ > settle.sh
      sh settle.sh                      # an all-reduce without the program
      sh settle.sh torchrun train.py    # or the job, changed once
    """
    from nccldoctor import pipeline
    from nccldoctor.prescribe.settle import settling_script

    incident, at = pipeline.analyze(paths), Path(paths[0]).resolve()
    terminal.out(settling_script(incident.verdict, incident.case, at if at.is_dir() else at.parent))


@cli.command()
@paths_argument
@choice_option(
    "--for", "pytorch", "nccl", "vllm", "verl", "deepspeed", "hpc-desk", to="form", help="Whose form to fill."
)
@redact_option
def report(paths: tuple[str, ...], form: str, redact: str | None) -> None:
    """Fill the issue form of a project, or of the desk of your cluster.

    It is Markdown, ready to paste field by field. What no file holds is a box to
    tick, with the command that finds it. Read it before you send it: hosts, users
    and paths stand in it, unless --redact replaces them; secrets are masked.

    \b
    Examples:
      nccldoctor report logs/ --for pytorch > issue.md
      nccldoctor report logs/ --for nccl --redact hosts,users,paths,addresses
    """
    from nccldoctor import pipeline
    from nccldoctor.cli import exit_codes
    from nccldoctor.reports.parts import redact as redaction

    wanted = redaction.wanted(redact or "")
    with terminal.Waiting() as waiting:
        incident = pipeline.analyze(paths, on_progress=waiting)
    if exit_codes.exit_code(incident.unquoted) == exit_codes.NOTHING_READABLE:
        raise exit_codes.unreadable(paths, incident.case.gaps)
    terminal.out((incident.redacted(wanted) if wanted else incident).to_form(form))


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument(
    "words", nargs=-1, required=True, metavar="TEXT...", shell_complete=completing(completion.explained_names)
)
def explain(words: tuple[str, ...]) -> None:
    """Explain a message, an Xid, a setting, a class of causes or a remedy.

    \b
    Examples:
      nccldoctor explain not-arrived
      nccldoctor explain xid 79
      nccldoctor explain NCCL_TIMEOUT
      nccldoctor explain "Watchdog caught collective operation timeout"
    """
    from nccldoctor.cli.explain import explanation

    terminal.show_page(explanation(" ".join(words)))


@cli.command()
@click.argument("name", required=False, shell_complete=completing(completion.incident_names))
@click.option("--list", "listing", is_flag=True, help="List the bundled incidents and stop.")
@click.option(
    "--live",
    "fault",
    metavar="FAULT",
    shell_complete=completing(completion.fault_names),
    help="Run a real job with FAULT instead (list shows them; needs torch).",
)
@click.option("--no-open", is_flag=True, help="Do not open the report of --live in a browser.")
@click.option(
    "--to", type=click.Path(file_okay=False, path_type=Path), help="Folder for the files (default: incident/NAME)."
)
@click.option("--force", is_flag=True, help="Replace any other file of the report's name.")
@click.pass_context
def demo(
    ctx: click.Context, name: str | None, listing: bool, fault: str | None, no_open: bool, to: Path | None, force: bool
) -> None:
    """Write a bundled incident to a folder and analyse it. Needs no network.

    The report goes beside that folder, as NAME.html; that of an earlier run is
    replaced.

    \b
    Examples:
      nccldoctor demo --list
      nccldoctor demo
      nccldoctor demo rank0-sampling --to /tmp/rank0
      nccldoctor demo --live deadlock
    """
    if fault is not None:
        _demo_live(ctx, fault, to, force, no_open)
    from nccldoctor.cli import demo as bundled
    from nccldoctor.cli.report_file import is_report

    if listing:
        terminal.out("".join(f"{s.name:<24} {s.kind:<10} {s.about}\n" for s in bundled.samples()))
        return
    name = name or bundled.DEFAULT
    folder, written = bundled.demo(name, to), bundled.contents(name)
    report = folder.with_name(f"{folder.name}.html")
    again = shlex.join(("nccldoctor", "analyze", str(folder), "-o", str(report), "--force"))
    click.echo(f"{len(written)} files are in {folder}; the same as: {again}\n", err=True)
    ctx.invoke(analyze, paths=(str(folder),), output=report, force=force or is_report(report))


def _demo_live(ctx: click.Context, fault: str, to: Path | None, force: bool, no_open: bool) -> None:
    from nccldoctor.cli.live import rehearsing
    from nccldoctor.rehearsal.faults import FAULTS

    if fault == "list":
        terminal.out("".join(f"{fault.name:<16} {fault.about}\n" for fault in FAULTS))
        ctx.exit()
    codes: list[int] = []

    def analyze_job(folder: Path, report: Path, is_replaced: bool) -> None:
        try:
            ctx.invoke(analyze, paths=(str(folder),), output=report, force=is_replaced)
        except click.exceptions.Exit as end:
            codes.append(end.exit_code)

    report = rehearsing.run_rehearsal(fault, to, force, analyze_job)
    if not no_open and sys.stdout.isatty():
        click.launch(str(report))
    ctx.exit(*codes[:1])


@cli.command(name="mcp")
@click.argument("roots", nargs=-1, required=True, type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER...")
def mcp_command(roots: tuple[Path, ...]) -> None:
    """Serve diagnoses to agents, over the Model Context Protocol on stdin and stdout.

    Read-only, below FOLDER alone: files, diagnoses with evidence, saved reports, explain.
    Needs the extra mcp.

    \b
    Example:
      nccldoctor mcp /shared/logs
    """
    from nccldoctor.cli.agents.server import server_over

    server_over(roots).run("stdio")


cli.add_command(catalogue.catalogue)
cli.add_command(env.env)
cli.add_command(history.history)
cli.add_command(history.diff)
cli.add_command(live.collect_command)
cli.add_command(live.live_command)
cli.add_command(live.watch_command)


def _terminated(number: int, _: object) -> None:
    """SIGTERM ends a command as Ctrl-C does: what is half written is removed."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command; the entry point of the console script.

    A process of its own needs neither the threads that numpy starts for linear algebra, nor a search for cycles when it ends.
    """
    gc.set_threshold(200_000)  # new objects before a search for cycles: an import of everything makes less
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, _terminated)
    try:
        cli(prog_name="nccldoctor")
    finally:
        gc.freeze()
