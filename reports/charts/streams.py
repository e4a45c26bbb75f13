"""Two ranks' calls side by side, with what one has and the other has not."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model.figures import CallDiff, IssuedCall
from nccldoctor.reports.charts.wait_graph import fitting
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line

WIDTH, HEIGHT, GAP, STEP, TOP = 390, 36, 120, 44, 30
"""Of a box, the gap between both columns, the step from row to row, the room for the ranks' names."""

INDENT = 6


@dataclass(frozen=True, slots=True)
class Box:
    """A call, or the hole where it is missing (``kind`` gap); ``kind`` else is same, differs, only."""

    kind: str
    x: float
    y: float
    title: str
    detail: str
    full: str


@dataclass(frozen=True, slots=True)
class StreamChart:
    """The drawing in numbers; ``signs`` stand between two boxes ("" where a line joins them), ``text`` is its legend."""

    pair: CallDiff
    width: float
    height: float
    boxes: tuple[Box, ...]
    signs: tuple[tuple[float, str], ...]
    text: str


_SIGNS = {"same": "", "differs": "≠", "left-only": "extra", "right-only": "missing"}


def stream_chart(pair: CallDiff | None) -> StreamChart | None:
    """The drawing; None where there is nothing to lay side by side."""
    if pair is None or not pair.rows:
        return None
    boxes: list[Box] = []
    for n, row in enumerate(pair.rows):
        kind = row.kind if row.kind in ("same", "differs") else "only"
        for call, x, rank in ((row.left, INDENT, pair.left), (row.right, INDENT + WIDTH + GAP, pair.right)):
            boxes.append(_box(call, kind, x, TOP + n * STEP, rank))
    return StreamChart(
        pair=pair,
        width=2 * WIDTH + GAP + 2 * INDENT,
        height=TOP + len(pair.rows) * STEP,
        boxes=tuple(boxes),
        signs=tuple((TOP + n * STEP + HEIGHT / 2, _SIGNS[row.kind]) for n, row in enumerate(pair.rows)),
        text=_first_difference(pair),
    )


def _box(call: IssuedCall | None, kind: str, x: float, y: float, rank: int) -> Box:
    if call is None:
        return Box("gap", x, y, f"✕ not issued by rank {rank}", "", f"rank {rank} did not issue it")
    title = f"{wording.call_name(call.op, call.seq)} · {line(call.group, 60)}"
    parts = [line(text, 80) for text in (call.site, call.sizes) if text]
    detail = " · ".join([*parts, "completed" if call.done else "not completed"])
    return Box(kind, x, y, fitting(title, 12.5, WIDTH - 20), fitting(detail, 11.5, WIDTH - 20), f"{title}: {detail}")


def _first_difference(pair: CallDiff) -> str:
    first = next((row for row in pair.rows if row.kind != "same"), None)
    if first is None:
        return f"rank {pair.left} and rank {pair.right} issued the same calls"
    names = [wording.call_name(c.op, c.seq) if c else "nothing" for c in (first.left, first.right)]
    return f"the first difference: rank {pair.left} issued {names[0]} where rank {pair.right} issued {names[1]}"
