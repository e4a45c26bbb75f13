"""The calls around a mismatch as a strip: a row for each side, a column for each sequence number."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.model.figures import CallStrip, StripCell
from nccldoctor.reports.charts.text_width import fitting
from nccldoctor.reports.parts import standing_titles
from nccldoctor.words import names, numbers
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import capitalized

WIDTH, LEFT, TOP, ROW, HEIGHT, GAP = 1096, 130, 38, 32, 25, 6
WIDEST = 120.0
"""Pixels of a column at most: few calls do not need the whole page."""

SMALL = 11.5
LEGEND = (("done", "completed"), ("stalled", "stalled"), ("queued", "queued"), ("differs", "differs"))


class StripBox(Struct, frozen=True):
    """One call: its text and its kind, *done*, *stalled*, *queued*, *differs*, or *none* without a record."""

    x: float
    y: float
    text: str
    kind: str


class StripHead(Struct, frozen=True):
    """The head of a column: the number of its calls, and their operation where the cells show something else."""

    x: float
    seq: str
    op: str
    is_stalled: bool


class StripPicture(Struct, frozen=True):
    """The drawing, under a ``key`` of its own on the page.

    ``labels`` name the rows: y, text, ranks for the search, and whether they are at fault. ``says`` tells the same in words.
    """

    key: str
    title: str
    subtitle: str
    heads: tuple[StripHead, ...]
    labels: tuple[tuple[float, str, str, bool], ...]
    boxes: tuple[StripBox, ...]
    box_width: float
    height: float
    legend: tuple[tuple[str, str], ...]
    says: str

    @classmethod
    def in_grid(
        cls,
        key: str,
        title: str,
        subtitle: str,
        heads: tuple[StripHead, ...],
        rows: tuple[tuple[str, str, bool], ...],
        boxes: tuple[StripBox, ...],
        legend: Sequence[tuple[str, str]],
    ) -> StripPicture:
        """The drawing of boxes that stand in a grid; of the legend it keeps the kinds that occur."""
        shown = {box.kind for box in boxes}
        told = (
            f"{label}: "
            + ", ".join(f"{h.seq} {b.text}" for h, b in zip(heads, boxes[at * len(heads) :], strict=False) if b.text)
            for at, (label, _, _) in enumerate(rows)
        )
        return cls(
            key,
            title,
            subtitle,
            heads,
            tuple((TOP + at * ROW, *row) for at, row in enumerate(rows)),
            boxes,
            column_width(len(heads)) - GAP,
            TOP + len(rows) * ROW,
            tuple((kind, text) for kind, text in legend if kind in shown),
            line("; ".join(told), 1000) + ".",
        )


def column_width(columns: int) -> float:
    """Pixels from one column to the next."""
    return min((WIDTH - LEFT) / columns, WIDEST)


def grid(column: int, row: int, step: float) -> tuple[float, float]:
    """The left upper corner of a box."""
    return LEFT + column * step, TOP + row * ROW


def strip_picture(strip: CallStrip | None) -> StripPicture | None:
    """The drawing of a strip; None without one. The last row is the one at fault."""
    if strip is None:
        return None
    step = column_width(len(strip.seqs))
    boxes = tuple(
        StripBox(
            *grid(at, number, step),
            fitting(line(cell.value, 60), SMALL, step - GAP - 8) if cell else "",
            _box_kind(cell, seq, strip),
        )
        for number, row in enumerate(strip.rows)
        for at, (seq, cell) in enumerate(zip(strip.seqs, row.cells, strict=True))
    )
    heads = tuple(
        StripHead(
            grid(at, 0, step)[0],
            f"#{seq}",
            "" if strip.shown == "operation" else fitting(line(op, 60), SMALL, step - GAP),
            seq == strip.stalled,
        )
        for at, (seq, op) in enumerate(zip(strip.seqs, strip.ops, strict=True))
    )
    rows = tuple((standing_titles.ranks_title(row.ranks), str(row.ranks), row is strip.rows[-1]) for row in strip.rows)
    return StripPicture.in_grid("strip", f"Calls around #{strip.stalled}", _subtitle(strip), heads, rows, boxes, LEGEND)


def _box_kind(cell: StripCell | None, seq: int, strip: CallStrip) -> str:
    if cell is None:
        return "none"
    if cell.differs:
        return "differs"
    return "done" if cell.done else "stalled" if seq == strip.stalled else "queued"


def _subtitle(strip: CallStrip) -> str:
    """``Dtype of each call of TP 1. 1 of 9 calls differs.``"""
    columns = zip(*(row.cells for row in strip.rows), strict=True)
    count = sum(any(cell is not None and cell.differs for cell in column) for column in columns)
    title = names.group_title(strip.group) if strip.group else ""
    of = f" of {title}" if title not in ("", "default group") else ""
    verb = "differs" if count == 1 else "differ"
    return f"{capitalized(strip.shown)} of each call{of}. {count} of {numbers.plural(len(strip.seqs), 'call')} {verb}."
