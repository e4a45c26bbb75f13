"""What the shell may complete: names of remedies, classes and settings, of bundled incidents and faults, words to redact.

Each function imports its work when the shell asks, and gives nothing rather than an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(names: Callable[[], Iterable[str]]) -> Completer:
    """The names that begin with what was typed, in either case."""

    def complete(_ctx: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        try:
            known = list(names())
        except Exception:  # the shell shows whatever a completion prints, and an error helps nobody there
            return []
        return sorted(name for name in known if name.casefold().startswith(typed.casefold()))

    return complete


def complete_list(names: Callable[[], Iterable[str]]) -> Completer:
    """The same for a list with commas: its last word is completed, and no word is offered twice."""

    def complete(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        done, comma, word = typed.rpartition(",")
        taken = done.split(",")
        return [done + comma + name for name in completing(names)(ctx, parameter, word) if name not in taken]

    return complete


def explained_names() -> list[str]:
    """All that ``explain`` knows."""
    from nccldoctor.cli.explain import known_names

    return known_names()


def remedy_names() -> list[str]:
    """The remedies in use."""
    from nccldoctor.prescribe.catalogue.overlays import in_use

    return [entry.remedy.id for entry in in_use().catalogue.entries]


def incident_names() -> list[str]:
    """The bundled incidents."""
    from nccldoctor.cli.demo import samples

    return [sample.name for sample in samples()]


def fault_names() -> list[str]:
    """The faults of ``demo --live``."""
    from nccldoctor.rehearsal.faults import FAULTS

    return [fault.name for fault in FAULTS]


def redacted_kinds() -> list[str]:
    """The words that ``--redact`` takes."""
    from nccldoctor.reports.parts.redact import KINDS

    return list(KINDS)
