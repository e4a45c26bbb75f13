"""The command: thin, and quick to start. Each command imports its work when it runs."""

# click keeps the lines of a paragraph that begins with a real backspace; in a raw docstring it is two characters.
# ruff: noqa: D301

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nccldoctor.cli import catalogue, env, terminal
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.version import __version__

if TYPE_CHECKING:
    from nccldoctor.incident import Incident

SHOWN = 12
"""At most so many findings, and quotes of each, are printed by --verbose."""

EXIT_CODES = """\b
Exit codes:
  0  nothing wrong found
  1  a stall or failure was diagnosed
  2  usage error, or nothing readable
  3  something is wrong but it cannot be told what"""


def _version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        import platform

        click.echo(f"nccldoctor {__version__} (Python {platform.python_version()})")
        ctx.exit()


@click.group(cls=terminal.Talking, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 79})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
def cli() -> None:
    """Say which rank hung a distributed PyTorch job, and what to do.

    \b
    Try it on a bundled incident, then on your own logs and dumps:
      nccldoctor demo
      nccldoctor analyze logs/
      nccldoctor analyze logs/ -o report.html
    """


def _paths(command: Any) -> Any:
    return click.argument("paths", nargs=-1, required=True, metavar="PATH...")(command)


def _rank_from(command: Any) -> Any:
    text = "Pattern with the global rank in a file's path, such as 'worker-(?P<rank>\\d+)'."
    return click.option("--rank-from", metavar="REGEX", help=text)(command)


def _workers(command: Any) -> Any:
    text = "Readers at work side by side (default: one per core, at most 16)."
    return click.option("--workers", type=click.IntRange(1, 1024), help=text)(command)


@cli.command(epilog=EXIT_CODES)
@_paths
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md"]),
    default="text",
    show_default=True,
    help="What goes to stdout.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Also write a report: FILE.html, .json, .md, or .zip with all three.",
)
@click.option("--force", is_flag=True, help="Replace the file named by -o.")
@click.option("--interactive", is_flag=True, help="Add charts to zoom to the page named by -o (about 2 MB).")
@click.option(
    "--redact",
    metavar="WHAT,...",
    help="Leave out hosts, users, paths, addresses: stand-ins take their place.",
)
@_rank_from
@click.option(
    "--catalogue",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="Folder of your own remedies.",
)
@_workers
@click.option("--exit-zero", is_flag=True, help="End with 0 where the exit code would be 1 or 3.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict line alone.")
@click.option("-v", "--verbose", is_flag=True, help="Print the evidence too.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours on stdout.",
)
def analyze(
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    force: bool,
    interactive: bool,
    redact: str | None,
    rank_from: str | None,
    catalogue: tuple[Path, ...],
    workers: int | None,
    exit_zero: bool,
    quiet: bool,
    verbose: bool,
    color: str,
) -> None:
    """Name the rank at fault, who waited for it, why, and what to do.

    PATH is a folder, a file, an archive, a quoted pattern or - for stdin: logs,
    flight-recorder dumps, stacks, kernel logs, launch scripts in any mix.

    \b
    Examples:
      nccldoctor analyze logs/
      nccldoctor analyze slurm-4711.out /scratch/nccl_trace_rank_* -o report.html
      nccldoctor analyze logs/ -o report.zip --redact hosts,users,paths
      kubectl logs -l job=train --prefix | nccldoctor analyze - --format md
    """
    from nccldoctor import pipeline
    from nccldoctor.cli import exit_codes, write
    from nccldoctor.reports import json_document
    from nccldoctor.reports.parts.redact import wanted

    left_out = wanted(redact or "")
    if output is not None:
        write.check(output, force)
    try:
        with terminal.Waiting(quiet) as waiting:
            incident = pipeline.analyze(
                paths, rank_from=rank_from, workers=workers, catalogue=catalogue, on_progress=waiting
            )
    except Exception as error:
        if form == "json":
            hint = error.hint if isinstance(error, NccldoctorError) else ""
            terminal.out(json_document.to_json(exit_codes.failed(str(error), hint)), encoding="utf-8")
        raise
    if left_out:
        incident = incident.redacted(left_out)
    if form == "json":
        terminal.out(incident.to_json(), encoding="utf-8")
    elif form == "md":
        terminal.out(incident.to_markdown())
    else:
        _summarise(incident, quiet, verbose, terminal.colourful(color))
    if output is not None:
        size = write.write(write.Interactive(incident) if interactive else incident, output)
        click.echo(f"wrote {output} ({max(1, size // 1000):,} kB)", err=True)
    code = exit_codes.exit_code(incident.diagnosis)
    if code == exit_codes.NOTHING_READABLE:
        terminal.tell(exit_codes.unreadable(paths, incident.case.gaps))
    click.get_current_context().exit(
        0 if exit_zero and code in (exit_codes.DIAGNOSED, exit_codes.CANNOT_TELL) else code
    )


def _summarise(incident: Incident, quiet: bool, verbose: bool, color: bool) -> None:
    verdict = incident.verdict
    if quiet:
        terminal.out(f"{verdict.headline} [{verdict.cause}, confidence {verdict.confidence}]\n")
        return
    terminal.out(incident.to_text(width=terminal.width(), color=color, ascii_only=not terminal.speaks_unicode()))
    if verbose:
        terminal.out("".join(_evidence(incident)))


def _evidence(incident: Incident) -> Iterator[str]:
    from nccldoctor.reports.parts.sanitize import line

    yield "\nEvidence\n"
    for finding in incident.diagnosis.findings[:SHOWN]:
        for item in finding.evidence[:SHOWN]:
            yield f"  {finding.id} {'+' if item.supports else '-'} {line(item.says)}\n"
            if item.where is not None:
                yield f"       {item.where}: {line(item.quote)}\n"


@cli.command()
@_paths
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What goes to stdout.",
)
@_rank_from
@_workers
def inspect(paths: tuple[str, ...], form: str, rank_from: str | None, workers: int | None) -> None:
    """Show what was recognised in the input, without judging it.

    One row per file: its kind, its rank and how that is known, lines understood,
    the time it covers, and the first line that was not understood.

    \b
    Examples:
      nccldoctor inspect logs/
      nccldoctor inspect logs/ --format json
      nccldoctor inspect dumps/ --rank-from 'gpu(?P<rank>\\d+)'
    """
    from nccldoctor import pipeline
    from nccldoctor.reports import inspect

    with terminal.Waiting() as waiting:
        case = pipeline.read(paths, rank_from=rank_from, workers=workers, on_progress=waiting)
    if form == "json":
        terminal.out(inspect.to_json(case), encoding="utf-8")
    else:
        terminal.out(inspect.to_text(case))


@cli.command()
@click.argument("name", metavar="ID")
def explain(name: str) -> None:
    """Explain a remedy, a cause class, a kind of event or a setting.

    \b
    Examples:
      nccldoctor explain dataloader-stall
      nccldoctor explain not-arrived
      nccldoctor explain NCCL_TIMEOUT
    """
    from nccldoctor.cli.explain import explanation

    terminal.out(explanation(name))


@cli.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="List the bundled incidents and stop.")
@click.option(
    "--to", type=click.Path(file_okay=False, path_type=Path), help="Folder for the files (default: incident/NAME)."
)
@click.option("--force", is_flag=True, help="Replace any other file of the report's name.")
@click.pass_context
def demo(ctx: click.Context, name: str | None, listing: bool, to: Path | None, force: bool) -> None:
    """Write a bundled incident to a folder and analyse it. Needs no network.

    The report goes beside that folder, as NAME.html; that of an earlier run is
    replaced.

    \b
    Examples:
      nccldoctor demo --list
      nccldoctor demo
      nccldoctor demo rank0-sampling --to /tmp/rank0
    """
    from nccldoctor.cli import demo as bundled
    from nccldoctor.cli import write

    if listing:
        terminal.out("".join(f"{s.name:<24} {s.kind:<10} {s.about}\n" for s in bundled.samples()))
        return
    name = name or bundled.DEFAULT
    folder = to or Path("incident", name)
    written = bundled.write(name, folder)
    report = folder.with_name(f"{folder.name}.html")
    click.echo(
        f"{len(written)} files are in {folder}; the same as: nccldoctor analyze {folder} -o {report}\n", err=True
    )
    ctx.invoke(analyze, paths=(str(folder),), output=report, force=force or write.is_report(report))


cli.add_command(catalogue.catalogue)
cli.add_command(env.env)


def main() -> None:
    """Run the command; the entry point of the console script."""
    cli(prog_name="nccldoctor")
