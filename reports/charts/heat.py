"""The run-up as a heat map: one row for each rank to look at, one column for each call; all ranks of a large job
below.
"""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model.figures import LEVEL_NEVER, LEVEL_UNKNOWN, NEVER, SEVERITY, LateRow, RunUp, level
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts import cells
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line

LEFT, TOP, CELL, STEP, NOTE = 96, 26, 30, 22, 130
"""Room for the ranks, room for the numbers, width and height of a cell with its gap, room for the note at the right."""

DARK = 3
"""From this level on a cell holds its number."""

BINS = 128
"""Rows of the picture of all ranks at most."""


@dataclass(frozen=True, slots=True)
class Label:
    """A text in the drawing; ``kind`` is rank, culprit, tick, value, never or unknown."""

    x: float
    y: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of the legend."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All ranks, some to a row: the worst of them shows."""

    width: float
    height: float
    paths: tuple[tuple[int, str], ...]
    labels: tuple[Label, ...]
    step: int


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The drawing in numbers: a path for each level, the texts, and what it shows in words."""

    width: float
    height: float
    paths: tuple[tuple[int, str], ...]
    labels: tuple[Label, ...]
    keys: tuple[Key, ...]
    text: str
    group: str
    clocks: str
    overview: Overview | None


def heat_map(picture: RunUp | None, culprits: Ranks) -> HeatMap | None:
    """The drawing of a run-up; None where there is none."""
    if picture is None or not picture.rows:
        return None
    levels = [bytes(level(value) for value in row.late_ms) for row in picture.rows]
    drawn = cells.paths(levels, LEFT, TOP, CELL, STEP, gap=2)
    seen = {value for row in levels for value in row}
    return HeatMap(
        width=LEFT + len(picture.seqs) * CELL + NOTE,
        height=TOP + len(picture.rows) * STEP + 4,
        paths=tuple(drawn.items()),
        labels=tuple(_labels(picture, culprits)),
        keys=tuple(Key(n, text) for n, text in enumerate(_KEYS) if n < LEVEL_NEVER or n in seen),
        text=_text(picture, culprits),
        group=line(picture.group, 80),
        clocks=_clocks(picture),
        overview=_overview(picture) if len(picture.ranks) > len(picture.rows) else None,
    )


_KEYS = ("< 5 ms", "5-50 ms", "50-250 ms", "0.25-1 s", "> 1 s", "✕ never arrived", "? not recorded")


def _labels(picture: RunUp, culprits: Ranks) -> list[Label]:
    out = [
        Label(LEFT + n * CELL + (CELL - 2) / 2, TOP - 10, f"#{seq}", "tick")
        for n, seq in enumerate(picture.seqs)
        if (len(picture.seqs) - 1 - n) % _every(picture) == 0
    ]
    for number, row in enumerate(picture.rows):
        y = TOP + number * STEP + 14
        out.append(Label(LEFT - 10, y, f"rank {row.rank}", "culprit" if row.rank in culprits else "rank"))
        for column, value in enumerate(row.late_ms):
            shown = _cell(value)
            if shown is not None:
                out.append(Label(LEFT + column * CELL + (CELL - 2) / 2, y, *shown))
        note = _note(row, len(picture.seqs))
        if note:
            kind = "culprit-note" if row.rank in culprits else "note"
            out.append(Label(LEFT + len(picture.seqs) * CELL + 6, y, note, kind))
    return out


def _every(picture: RunUp) -> int:
    """Numbers are as wide as some cells: so many columns from one to the next."""
    return max(-(-(len(f"#{picture.seqs[-1]}") * 7 + 6) // CELL), 1)


def _cell(value: float) -> tuple[str, str] | None:
    if value == NEVER:
        return "✕", "never"
    kind = level(value)
    if kind == LEVEL_UNKNOWN:
        return "?", "unknown"
    if kind < DARK:
        return None
    seconds = value / 1000
    if seconds < 10:
        return f"{seconds:.1f}", "value"
    return (f"{seconds:.0f}" if seconds < 1000 else ">999"), "value"


def _note(row: LateRow, calls: int) -> str:
    return f"last in {row.last} of {calls}" if row.last * 3 > calls else ""


def _clocks(picture: RunUp) -> str:
    largest = f" (largest correction {wording.duration(picture.correction_ms)})" if picture.correction_ms else ""
    return line(picture.corrected, 160) + largest


def _text(picture: RunUp, culprits: Ranks) -> str:
    """What a reader who does not see the drawing needs: who was late, how often last, who never came."""
    out = []
    for row in picture.rows:
        never = [seq for seq, value in zip(picture.seqs, row.late_ms, strict=True) if value == NEVER]
        worst = max(row.late_ms)
        if row.rank in culprits or never or row.last * 3 > len(picture.seqs):
            came = f", never issued #{never[0]}" if never else ""
            most = wording.duration(worst) if worst >= 0 else "not recorded"
            out.append(f"rank {row.rank}: at most {most} late, last in {row.last} of {len(picture.seqs)} calls{came}")
    return "; ".join(out[:8]) or "no rank stands out"


def _overview(picture: RunUp) -> Overview:
    """Ranks from top to bottom, calls from left to right."""
    columns = len(picture.seqs)
    rows = [picture.levels[n : n + columns] for n in range(0, len(picture.levels), columns)]
    few, step = cells.merged(rows, BINS, SEVERITY)
    height = 3.0 if len(few) > 64 else 6.0
    ranks = list(picture.ranks)
    marks = sorted({0, len(few) // 2, len(few) - 1})
    labels = tuple(Label(LEFT - 10, n * height + 10, f"rank {ranks[n * step]}", "rank") for n in marks)
    return Overview(
        width=LEFT + columns * CELL + 6,
        height=len(few) * height + 14,
        step=step,
        labels=labels,
        paths=tuple(cells.paths(few, LEFT, 4, CELL, height).items()),
    )
