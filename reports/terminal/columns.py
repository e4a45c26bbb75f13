"""Tables that fit the terminal: columns that matter less give way, what tells rows apart stays."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.words.sanitize import shortened

GAP = 2
"""Blanks between two columns."""


class Column(Struct, frozen=True):
    """A column of a table.

    It is cut to ``least`` characters at most (0: never), and gives way in the order of ``yields`` (1 first, 0 never). ``is_number`` sets
    it flush right; ``keeps_end`` cuts at the start, as the end of a path says more.
    """

    head: str
    least: int = 0
    yields: int = 0
    is_number: bool = False
    keeps_end: bool = False


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> list[str]:
    """The head and the rows in lines of at most ``room`` characters; a column without content is left out.

    Without rows there is no head either.
    """
    if not rows:
        return []
    widths = _fitted_widths(columns, rows, room)
    heads = [column.head for column in columns]
    cells = ([_cell(*one) for one in zip(columns, texts, widths, strict=True) if one[2]] for texts in (heads, *rows))
    return [shortened((" " * GAP).join(row).rstrip(), room) for row in cells]


def heads_without_room(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> list[str]:
    """The heads of the columns that hold something, and that :func:`table_lines` leaves out at ``room``."""
    widths = _fitted_widths(columns, rows, room) if rows else []
    held = [any(texts) for texts in zip(*rows, strict=True)]
    return [column.head for column, width, is_held in zip(columns, widths, held, strict=False) if is_held and not width]


def _fitted_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """The width of each column; 0 for one that is empty or had to give way."""
    widths = [max(map(len, texts), default=0) for texts in zip(*rows, strict=True)]
    widths = [max(w, len(column.head)) if w else 0 for w, column in zip(widths, columns, strict=True)]
    for number in sorted(range(len(columns)), key=lambda n: columns[n].yields):
        column, over = columns[number], sum(w + GAP for w in widths if w) - GAP - room
        if over > 0 and column.yields and widths[number]:
            shorter = widths[number] - over
            widths[number] = shorter if column.least and shorter >= max(column.least, len(column.head)) else 0
    return widths


def _cell(column: Column, text: str, width: int) -> str:
    if column.keeps_end and len(text) > width:
        text = "…" + text[len(text) - width + 1 :]
    shown = shortened(text, width)
    return shown.rjust(width) if column.is_number else shown.ljust(width)
