"""The terminal summary: what to know and to do in a dozen lines, or all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import StringIO

from nccldoctor.model import Diagnosis
from nccldoctor.reports.terminal import brief, help_text, verdict
from nccldoctor.reports.terminal.layout import Line
from nccldoctor.reports.terminal.rank_table import rank_table

NARROWEST = 60
_PLAIN = str.maketrans({"\u2014": "-", "\u2013": "-", "…": "...", "→": "->", "·": "-", "“": '"', "”": '"'})

Blocks = Sequence[Sequence[Callable[[Diagnosis, int], Iterator[Line]]]]
"""Blocks of a summary, with a blank line between two."""

_OTHER = (verdict.also_found, verdict.notices, verdict.checked)
BRIEF: Blocks = (
    (verdict.headline, brief.first_place, brief.what_is_known, *_OTHER, help_text.brief_steps, brief.more),
)
"""What to know and to do."""

WHOLE: Blocks = (
    (verdict.headline, verdict.notices, verdict.proof, verdict.facts, verdict.checked),
    (verdict.also_found,),
    (rank_table,),
    (help_text.steps, help_text.warnings),
)
"""The summary with its proof, the ranks and the doubts."""


def plain(diagnosis: Diagnosis, *, width: int, ascii_only: bool, blocks: Blocks = WHOLE) -> str:
    """The summary without colour; imports nothing of weight. ``ascii_only`` is for terminals without UTF-8."""
    rows = ("".join(span.text for span in spans).rstrip() for spans in lines(diagnosis, width, blocks))
    text = "".join(f"{row}\n" for row in rows)
    return _ascii(text) if ascii_only else text


def colored(diagnosis: Diagnosis, *, width: int, ascii_only: bool, blocks: Blocks = WHOLE) -> str:
    """The summary with ANSI colours of the 16 that every terminal has."""
    from rich.console import Console
    from rich.text import Text

    shown = Text()
    for spans in lines(diagnosis, width, blocks):
        for span in spans:
            shown.append(_ascii(span.text) if ascii_only else span.text, style=span.style or None)
        shown.append("\n")
    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", highlight=False, no_color=False)
    console.print(shown, soft_wrap=True, end="")
    return out.getvalue()


def lines(diagnosis: Diagnosis, width: int, blocks: Blocks) -> list[Line]:
    """The summary as styled lines of at most ``width`` characters (60 at least), commands excepted."""
    width = max(width, NARROWEST)
    out: list[Line] = []
    for block in blocks:
        rows = [row for part in block for row in part(diagnosis, width)]
        out += [(), *rows] if rows and out else rows
    return out


def _ascii(text: str) -> str:
    return text.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")
