"""The calls around a mismatch as a strip: a row for each side, a column for each sequence number."""

from __future__ import annotations

from dataclasses import dataclass

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
LEGEND = {"done": "completed", "stalled": "stalled", "queued": "queued", "differs": "differs"}


@dataclass(frozen=True, slots=True)
class StripBox:
    """One call: its text and its kind, one of :data:`LEGEND` or *none* where no rank of the row recorded it."""

    x: float
    y: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class StripHead:
    """The head of a column: the number of its calls, and their operation where the cells show something else."""

    x: float
    seq: str
    op: str
    is_stalled: bool


@dataclass(frozen=True, slots=True)
class StripPicture:
    """The drawing; ``labels`` name the rows with their y, ``says`` tells the same in words."""

    title: str
    subtitle: str
    heads: tuple[StripHead, ...]
    labels: tuple[tuple[float, str, str, bool], ...]
    boxes: tuple[StripBox, ...]
    box_width: float
    height: float
    legend: tuple[tuple[str, str], ...]
    says: str


def strip_picture(strip: CallStrip | None) -> StripPicture | None:
    """The drawing of a strip; None without one. The last row is the one at fault."""
    if strip is None:
        return None
    step = min((WIDTH - LEFT) / len(strip.seqs), WIDEST)
    width = step - GAP
    boxes, labels = [], []
    for number, row in enumerate(strip.rows):
        y = TOP + number * ROW
        labels.append((y, standing_titles.ranks_title(row.ranks), str(row.ranks), number == len(strip.rows) - 1))
        boxes += [
            StripBox(
                LEFT + at * step,
                y,
                fitting(line(cell.value, 60), SMALL, width - 8) if cell else "",
                _box_kind(cell, seq, strip),
            )
            for at, (seq, cell) in enumerate(zip(strip.seqs, row.cells, strict=True))
        ]
    heads = tuple(
        StripHead(
            LEFT + at * step,
            f"#{seq}",
            "" if strip.shown == "operation" else fitting(line(op, 60), SMALL, width),
            seq == strip.stalled,
        )
        for at, (seq, op) in enumerate(zip(strip.seqs, strip.ops, strict=True))
    )
    shown = {box.kind for box in boxes}
    return StripPicture(
        title=f"Calls around #{strip.stalled}",
        subtitle=_subtitle(strip),
        heads=heads,
        labels=tuple(labels),
        boxes=tuple(boxes),
        box_width=width,
        height=TOP + len(strip.rows) * ROW,
        legend=tuple((kind, text) for kind, text in LEGEND.items() if kind in shown),
        says=_strip_in_words(strip),
    )


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


def _strip_in_words(strip: CallStrip) -> str:
    told = (
        f"{standing_titles.ranks_title(row.ranks)}: "
        + ", ".join(f"#{seq} {cell.value}" for seq, cell in zip(strip.seqs, row.cells, strict=True) if cell is not None)
        for row in strip.rows
    )
    return line("; ".join(told), 1000) + "."
