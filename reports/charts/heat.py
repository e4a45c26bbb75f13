"""A heat map of lateness in the last calls: one for the ranks to look at, one for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nccldoctor.model.figures import LEVEL_NEVER, LEVEL_UNKNOWN, NEVER, SEVERITY, Lateness, level
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts import cells
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line

LEFT, TOP, CELL, STEP, NOTE = 96, 26, 30, 22, 130
"""Room for ranks and numbers, width and height of a cell with its gap, room for the note."""

DARK = 3
"""From this level on a cell holds its number."""

BINS = 128
"""Rows of the picture of all ranks at most."""

Paths = tuple[tuple[int, str], ...]
"""SVG path data by level."""


@dataclass(frozen=True, slots=True)
class Label:
    """A text in the drawing; ``kind`` is rank, culprit, tick, value, never, unknown, note or culprit-note."""

    x: float
    y: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All ranks, ``step`` of them to a row: the worst of them shows."""

    width: float
    height: float
    paths: Paths
    labels: tuple[Label, ...]
    step: int


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The drawing in numbers; ``keys`` is its legend, ``text`` says it in words."""

    width: float
    height: float
    paths: Paths
    labels: tuple[Label, ...]
    keys: Paths
    text: str
    group: str
    clocks: str
    overview: Overview | None


def heat_map(lateness: Lateness | None, culprits: Ranks) -> HeatMap | None:
    """The drawing of the last calls; None where their times are not known."""
    if lateness is None or not lateness.rows:
        return None
    levels = [bytes(level(value) for value in row.late_ms) for row in lateness.rows]
    seen = {value for row in levels for value in row}
    correction = wording.duration(lateness.correction_ms)
    largest = f" (largest correction {correction})" if lateness.correction_ms else ""
    return HeatMap(
        width=LEFT + len(lateness.seqs) * CELL + NOTE,
        height=TOP + len(lateness.rows) * STEP + 4,
        paths=tuple(cells.paths(levels, LEFT, TOP, CELL, STEP, gap=2).items()),
        labels=(*_ticks(lateness), *_row_labels(lateness, culprits)),
        keys=tuple((n, text) for n, text in enumerate(_KEYS) if n < LEVEL_NEVER or n in seen),
        text=_in_words(lateness, culprits),
        group=line(lateness.group, 80),
        clocks=line(lateness.corrected, 160) + largest,
        overview=_overview(lateness) if len(lateness.ranks) > len(lateness.rows) else None,
    )


_KEYS = ("< 5 ms", "5-50 ms", "50-250 ms", "0.25-1 s", "> 1 s", "✕ never arrived", "? not recorded")


def _middle(column: int) -> float:
    return LEFT + column * CELL + (CELL - 2) / 2


def _ticks(lateness: Lateness) -> Iterator[Label]:
    """Sequence numbers above the columns; they are wider than a cell, so only every second, third … has one."""
    every = max(-(-(len(f"#{lateness.seqs[-1]}") * 7 + 6) // CELL), 1)
    for column, seq in enumerate(lateness.seqs):
        if (len(lateness.seqs) - 1 - column) % every == 0:
            yield Label(_middle(column), TOP - 10, f"#{seq}", "tick")


def _row_labels(lateness: Lateness, culprits: Ranks) -> Iterator[Label]:
    calls = len(lateness.seqs)
    for number, row in enumerate(lateness.rows):
        y, is_culprit = TOP + number * STEP + 14, row.rank in culprits
        yield Label(LEFT - 10, y, f"rank {row.rank}", "culprit" if is_culprit else "rank")
        for column, value in enumerate(row.late_ms):
            text, kind = _cell(value)
            if text:
                yield Label(_middle(column), y, text, kind)
        if row.last * 3 > calls:
            note = f"last in {row.last} of {calls}"
            yield Label(LEFT + calls * CELL + 6, y, note, "culprit-note" if is_culprit else "note")


def _cell(value: float) -> tuple[str, str]:
    """The text of a cell ("" where its colour says enough) and its kind."""
    if value == NEVER:
        return "✕", "never"
    if level(value) == LEVEL_UNKNOWN:
        return "?", "unknown"
    seconds = value / 1000
    number = f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}" if seconds < 1000 else ">999"
    return (number if level(value) >= DARK else ""), "value"


def _in_words(lateness: Lateness, culprits: Ranks) -> str:
    """The ranks that stand out, for a reader who does not see the drawing."""
    calls, rows = len(lateness.seqs), []
    for row in lateness.rows:
        never = [seq for seq, value in zip(lateness.seqs, row.late_ms, strict=True) if value == NEVER]
        worst = max(row.late_ms)
        if row.rank in culprits or never or row.last * 3 > calls:
            most = wording.duration(worst) if worst >= 0 else "not recorded"
            absent = f", never issued #{never[0]}" if never else ""
            rows.append(f"rank {row.rank}: at most {most} late, last in {row.last} of {calls} calls{absent}")
    return "; ".join(rows[:8]) or "no rank stands out"


def level_rows(lateness: Lateness) -> list[bytes]:
    """The levels of each rank, one byte a call."""
    columns = len(lateness.seqs)
    return [lateness.levels[n : n + columns] for n in range(0, len(lateness.levels), columns)]


def _overview(lateness: Lateness) -> Overview:
    """Ranks from top to bottom, calls from left to right."""
    rows, step = cells.merged(level_rows(lateness), BINS, SEVERITY)
    height = 3.0 if len(rows) > 64 else 6.0
    ranks = list(lateness.ranks)
    marks = sorted({0, len(rows) // 2, len(rows) - 1})
    return Overview(
        width=LEFT + len(lateness.seqs) * CELL + 6,
        height=len(rows) * height + 14,
        paths=tuple(cells.paths(rows, LEFT, 4, CELL, height).items()),
        labels=tuple(Label(LEFT - 10, n * height + 10, f"rank {ranks[n * step]}", "rank") for n in marks),
        step=step,
    )
