"""How far ranks came in their group, as a figure: one cell a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nccldoctor.model import Diagnosis
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import rank_rows, wording
from nccldoctor.reports.plotly import look as looks
from nccldoctor.reports.plotly import progress_strips
from nccldoctor.words import names

if TYPE_CHECKING:
    import plotly.graph_objects as go

TITLE = "Progress by rank"


def progress_figure(
    diagnosis: Diagnosis, look: looks.Look, ranks: Iterable[int] | None = None, group: str | None = None
) -> go.Figure:
    """Six calls of each group, all of them or of some ``ranks`` and one ``group`` (its label)."""
    import plotly.graph_objects as go

    asked = None if ranks is None else Ranks(ranks)
    everyone = rank_rows.single(diagnosis)
    strips = progress_strips.strips(everyone, diagnosis.ranks)
    rows = [
        (row, [*[progress_strips.Cell(-1, "done")] * (progress_strips.CELLS - len(strip)), *strip])
        for row, strip in zip(everyone, strips, strict=True)
        if strip and (asked is None or Ranks(row.ranks) & asked) and (group is None or row.group == group)
    ]
    if not rows:
        return looks.empty(TITLE, "no rank's sequence numbers", look)
    fills = (look.done, look.blocked, look.waiting, look.rule, look.culprit)
    heat = go.Heatmap(
        z=[[progress_strips.STATES.index(cell.state) for cell in strip] for _, strip in rows],
        zmin=-0.5,
        zmax=len(progress_strips.STATES) - 0.5,
        x=[*[f"{n} before" for n in range(progress_strips.CELLS - 1, 0, -1)], "last"],
        y=[looks.safe(" · ".join(filter(None, (names.ranks_phrase(row.ranks, 3), _group(row))))) for row, _ in rows],
        text=[[_hover_text(row, cell, diagnosis) for cell in strip] for row, strip in rows],
        hoverinfo="text",
        xgap=3,
        ygap=3,
        colorscale=looks.steps(fills),
        colorbar=looks.bar(progress_strips.STATES, "call"),
    )
    figure = go.Figure(heat)
    figure.update_xaxes(type="category", title_text="calls of the group of each row")
    figure.update_yaxes(type="category", autorange="reversed")
    return looks.finished(figure, TITLE, len(rows), look)


def _group(row: rank_rows.Row) -> str:
    return names.group_title(row.group) if row.group else ""


def _hover_text(row: rank_rows.Row, cell: progress_strips.Cell, diagnosis: Diagnosis) -> str:
    return looks.hover(
        f"{names.ranks_phrase(row.ranks, 4)}, {wording.role_word(row.role, diagnosis.verdict.cause)}",
        ", ".join(row.hosts[:3]),
        f"{_group(row)} #{cell.seq}: {cell.state}".strip() if cell.seq >= 0 else "",
        f"completed #{row.completed}, enqueued #{row.enqueued}",
        row.last_sign,
        str(row.where or ""),
    )
