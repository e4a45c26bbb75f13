"""How far ranks came in their group, as a figure: one cell a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import plotly.graph_objects as go
from msgspec import Struct

from nccldoctor.model import Diagnosis, RankState
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import rank_rows, wording
from nccldoctor.reports.parts.rank_rows import Row
from nccldoctor.reports.plotly import look as looks
from nccldoctor.words import names

TITLE = "Progress by rank"


def progress_figure(
    diagnosis: Diagnosis, look: looks.Look, ranks: Iterable[int] | None = None, group: str | None = None
) -> go.Figure:
    """Six calls of each group, all of them or of some ``ranks`` and one ``group`` (its label)."""
    asked = None if ranks is None else Ranks(ranks)
    everyone = rank_rows.single(diagnosis)
    rows = [
        (row, [*[Cell(-1, "done")] * (CELLS - len(strip)), *strip])
        for row, strip in zip(everyone, strips(everyone, diagnosis.ranks), strict=True)
        if strip and (asked is None or Ranks(row.ranks) & asked) and (group is None or row.group == group)
    ]
    if not rows:
        return looks.empty(TITLE, "no rank's sequence numbers", look)
    fills = (look.done, look.blocked, look.waiting, look.rule, look.culprit)
    heat = go.Heatmap(
        z=[[STATES.index(cell.state) for cell in strip] for _, strip in rows],
        zmin=-0.5,
        zmax=len(STATES) - 0.5,
        x=[*[f"{n} before" for n in range(CELLS - 1, 0, -1)], "last"],
        y=[looks.safe(" · ".join(filter(None, (names.ranks_phrase(row.ranks, 3), _group(row))))) for row, _ in rows],
        text=[[_hover_text(row, cell, diagnosis) for cell in strip] for row, strip in rows],
        hoverinfo="text",
        xgap=3,
        ygap=3,
        colorscale=looks.steps(fills),
        colorbar=looks.bar(STATES, "call"),
    )
    figure = go.Figure(heat)
    figure.update_xaxes(type="category", title_text="calls of the group of each row")
    figure.update_yaxes(type="category", autorange="reversed")
    return looks.finished(figure, TITLE, len(rows), look)


def _group(row: Row) -> str:
    return names.group_title(row.group) if row.group else ""


def _hover_text(row: Row, cell: Cell, diagnosis: Diagnosis) -> str:
    return looks.hover(
        f"{names.ranks_phrase(row.ranks, 4)}, {wording.role_word(row.role, diagnosis.verdict.cause)}",
        ", ".join(row.hosts[:3]),
        f"{_group(row)} #{cell.seq}: {cell.state}".strip() if cell.seq >= 0 else "",
        f"completed #{row.completed}, enqueued #{row.enqueued}",
        row.last_sign,
        str(row.where or ""),
    )


CELLS = 6

STATES = ("done", "queued", "waiting", "unknown", "never")
"""From harmless to odd: of several ranks in one cell the last one shows."""


class Cell(Struct, frozen=True):
    """One call: ``state`` is one of :data:`STATES`."""

    seq: int
    state: str


def strips(rows: Sequence[Row], states: Sequence[RankState] = ()) -> tuple[tuple[Cell, ...], ...]:
    """Six calls of its group for each row; empty where the progress of the ranks is not known."""
    shown = _windows((*rows, *states))
    return tuple(
        tuple(Cell(seq, _state(row.completed, row.enqueued, seq)) for seq in shown[row.group])
        if row.completed is not None or row.enqueued is not None
        else ()
        for row in rows
    )


def _windows(everyone: Iterable[Row | RankState]) -> dict[str | None, range]:
    """The sequence numbers shown of each group: the last six, or those around the call that stalls.

    Where hosts enqueued up to #30 and most waiting ranks completed #12, the strip shows #12 to #17.
    """
    ends: dict[str | None, int] = {}
    stuck: dict[str | None, Counter[int]] = {}
    for standing in everyone:
        done, issued = standing.completed, standing.enqueued
        front = max((n for n in (done, issued) if n is not None), default=None)
        if front is not None:
            ends[standing.group] = max(ends.get(standing.group, front), front)
        if done is not None and issued is not None and done < issued:
            stuck.setdefault(standing.group, Counter())[done] += 1
    return {group: _window(end, stuck.get(group, Counter())) for group, end in ends.items()}


def _window(end: int, stuck: Counter[int]) -> range:
    last = max(end - CELLS + 1, 0)
    first = min(stuck, key=lambda seq: (-stuck[seq], seq), default=last)
    begin = min(last, max(first, 1))
    return range(begin, min(begin + CELLS, end + 1))


def _state(done: int | None, issued: int | None, seq: int) -> str:
    if seq < 0 or (done is not None and seq <= done):
        return "done"
    if issued is not None and seq > issued:
        return "never"
    if issued is None or done is None:
        return "unknown"
    return "waiting" if seq == done + 1 else "queued"
