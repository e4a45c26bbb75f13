"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Any], Any]


def choice_option(name: str, *choices: str, help: str, to: str | None = None) -> Decorator:
    """An option that takes one of ``choices``, the first by default; ``to`` is the parameter it is passed as."""
    names = (name, to) if to else (name,)
    return click.option(*names, type=click.Choice(choices), default=choices[0], show_default=True, help=help)


def format_option(*choices: str, help: str = "What goes to stdout.") -> Decorator:
    """``--format``, passed as ``form``."""
    return choice_option("--format", *choices, help=help, to="form")


paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH...")

rank_from_option = click.option(
    "--rank-from",
    metavar="REGEX",
    help="Pattern with the global rank in a file's path, such as 'worker-(?P<rank>\\d+)'.",
)

workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    help="Readers at work side by side (default: one per core, at most 16).",
)
