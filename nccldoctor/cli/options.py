"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from nccldoctor.cli.completion import complete_list, redacted_kinds

Decorator = Callable[[Any], Any]


def choice_option(name: str, *choices: str, help: str, to: str | None = None) -> Decorator:
    """An option that takes one of ``choices``, the first by default; ``to`` is the parameter it is passed as."""
    names = (name, to) if to else (name,)
    return click.option(*names, type=click.Choice(choices), default=choices[0], show_default=True, help=help)


def format_option(*choices: str, help: str = "What goes to stdout.") -> Decorator:
    """``--format``, passed as ``form``."""
    return choice_option("--format", *choices, help=help, to="form")


def all_of(*options: Decorator) -> Decorator:
    """Several options, in their order."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


INPUT = click.Path(readable=False)
"""A path, pattern, URL or ``-``: only the shell's completion asks what it is."""

paths_argument = click.argument("paths", nargs=-1, required=True, type=INPUT, metavar="PATH...")

rank_from_option = click.option(
    "--rank-from",
    metavar="REGEX",
    help="Pattern with the global rank in a file's path, such as 'worker-(?P<rank>\\d+)'.",
)

workers_option = click.option(
    "--workers", type=click.IntRange(1, 1024), help="Readers at work side by side (default: one per core, at most 16)."
)

redact_option = click.option(
    "--redact",
    metavar="WHAT,...",
    shell_complete=complete_list(redacted_kinds),
    help="Replace hosts, users, paths and addresses by stand-ins.",
)

report_options = all_of(
    format_option(
        *("text", "json", "attribution", "github", "jira", "slack", "md"),
        help="What goes to stdout: the summary, JSON, hosts to leave out as JSON, or a ticket text.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Also write a report: FILE.html, .json, .md, or .zip with all three.",
    ),
    click.option("--force", is_flag=True, help="Replace the file named by -o."),
    redact_option,
    rank_from_option,
    click.option(
        "--catalogue",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        multiple=True,
        help="Folder of remedies for your site.",
    ),
    click.option("--exit-zero", is_flag=True, help="End with 0 where the exit code would be 1 or 3."),
    click.option("-q", "--quiet", is_flag=True, help="Print only the verdict line."),
    click.option("-v", "--verbose", is_flag=True, help="Print the proof, the ranks and the doubts too."),
    choice_option("--color", "auto", "always", "never", help="Colours on stdout."),
)
"""The options of every command that diagnoses a job and reports it."""
