"""Lines of styled text that fit a width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from nccldoctor.patterns import lazy

_BOUND = lazy(r"(?<=\d) (?=(?:ms|s|min|h|UTC)\b)|(?<=[A-Z]) (?=#\d)|(?<=\branks) (?=\d)|(?<=\brank) (?=\d)")
"""Blanks at which no line ends: ``8 s``, ``ALLREDUCE #9``, ``rank 3``."""
_HARD = "\N{NO-BREAK SPACE}"

KEY, DIM, COMMAND, POINTER = "bold", "dim", "cyan", "blue"
"""Styles, as rich names them: the name of a fact, what may be skipped, what can be copied, where a quote stands."""

NARROWEST = 24
"""Characters of text that a line holds at least."""


class Span(NamedTuple):
    """A stretch of one line and its style."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def paragraph(text: str, width: int, *, head: Line = (), indent: int = 0, style: str = "") -> Iterator[Line]:
    """``text`` behind ``head``; the lines after the first begin at ``indent``."""
    start = sum(len(span.text) for span in head)
    first, *rest = text.splitlines() or [""]
    pieces = _pieces(first, width, start, indent)
    yield (*head, Span(pieces[0][start:], style))
    for piece in (*pieces[1:], *(piece for part in rest for piece in _pieces(part, width, indent, indent))):
        yield (Span(" " * indent), Span(piece[indent:], style))


def plain_paragraph(text: str, width: int, *, head: str = "", indent: int = 0) -> Iterator[str]:
    """The lines of a paragraph without styles."""
    for spans in paragraph(text, width, head=(Span(head),) if head else (), indent=indent):
        yield "".join(span.text for span in spans)


def _pieces(text: str, width: int, start: int, indent: int) -> list[str]:
    """``text`` in lines, the first behind ``start`` characters and the others behind ``indent``."""
    room = max(width, start + NARROWEST, indent + NARROWEST)
    bound = _BOUND.sub(_HARD, text)
    lines = textwrap.wrap(
        bound, room, initial_indent=_HARD * start, subsequent_indent=_HARD * indent, break_on_hyphens=False
    )
    return [line.replace(_HARD, " ") for line in lines] or [" " * start]
