"""Heat maps as plotly figures: where ranks stand in the last calls, and how late they were in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import NEVER, SEVERITY, UNKNOWN, RunUp
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts import cells, strip, symbols
from nccldoctor.reports.parts import rank_rows, wording
from nccldoctor.reports.plotly import look

if TYPE_CHECKING:
    import plotly.graph_objects as go

STATES = ("done", "queued", "waiting", "unknown", "never")
BINS = 128
"""Rows of a heat map of all ranks at most; the worst of those that share a row shows."""

LEVEL_NAMES = ("below 5 ms", "5 to 50 ms", "50 to 250 ms", "0.25 to 1 s", "above 1 s", "never issued", "not recorded")


def progress_figure(diagnosis: Diagnosis) -> go.Figure:
    """One row for each line of *progress by rank*, one cell for each of six calls."""
    import plotly.graph_objects as go

    rows = [(row, squares) for row, squares in zip(*_strips(diagnosis), strict=True) if squares]
    if not rows:
        return look.empty("Progress by rank", "no front of any rank is known")
    hover = [
        [_standing(row, diagnosis) + f"<br>#{cell.seq}: {cell.state}" for cell in _six(squares)]
        for row, squares in rows
    ]
    heat = go.Heatmap(
        z=[[STATES.index(cell.state) for cell in _six(squares)] for _, squares in rows],
        zmin=-0.5,
        zmax=len(STATES) - 0.5,
        x=[f"call {n}" for n in range(1, strip.CELLS + 1)],
        y=[look.safe(wording.ranks_phrase(row.ranks, 4)) for row, _ in rows],
        text=hover,
        hoverinfo="text",
        xgap=3,
        ygap=3,
        colorscale=look.steps([look.COLORS[s] for s in STATES]),
        colorbar=look.bar(STATES),
    )
    return look.finished(go.Figure(heat), "Progress by rank: six calls of each group", len(rows))


def _strips(diagnosis: Diagnosis) -> tuple[tuple[rank_rows.Row, ...], tuple[tuple[strip.Cell, ...], ...]]:
    rows = rank_rows.single(diagnosis)
    return rows, strip.strips(rows, diagnosis.ranks)


def _six(squares: Sequence[strip.Cell]) -> list[strip.Cell]:
    """Always six: a group that has issued fewer calls began with them."""
    return [*[strip.Cell(-1, "done")] * (strip.CELLS - len(squares)), *squares]


def _standing(row: rank_rows.Row, diagnosis: Diagnosis) -> str:
    parts = [
        wording.ranks_phrase(row.ranks, 4),
        wording.role_word(row.role, diagnosis.verdict.cause),
        ", ".join(row.hosts[:3]),
        row.group or "",
        f"done {row.completed}, enqueued {row.enqueued}",
        row.waits_in or "",
        row.last_sign,
        str(row.where) if row.where else "",
    ]
    return "<br>".join(look.safe(part) for part in parts if part)


def lateness_figure(diagnosis: Diagnosis) -> go.Figure:
    """Levels of lateness; a small job rank by rank with its numbers, a large one with the worst of those that share a
    row.
    """
    import plotly.graph_objects as go

    found = diagnosis.run_up
    if found is None:
        return look.empty("Run-up", "no times of recorded calls of several ranks")
    names, levels, hover = _late_rows(found)
    heat = go.Heatmap(
        z=[[None if v == len(LEVEL_NAMES) - 1 else v for v in row] for row in levels],
        x=[f"#{seq}" for seq in found.seqs],
        y=names,
        text=hover,
        hoverinfo="text",
        zmin=-0.5,
        zmax=5.5,
        colorscale=look.steps([*symbols.HEAT[:5], look.COLORS["never"]]),
        colorbar=look.bar(LEVEL_NAMES[:6]),
        xgap=1,
        ygap=1 if len(names) <= 64 else 0,
    )
    return look.finished(go.Figure(heat), f"Run-up: lateness in the last calls of {look.safe(found.group)}", len(names))


def _late_rows(found: RunUp) -> tuple[list[str], list[list[int]], list[list[str]]]:
    columns = len(found.seqs)
    rows = [found.levels[n : n + columns] for n in range(0, len(found.levels), columns)]
    few, step = cells.merged(rows, BINS, SEVERITY)
    ranks = list(found.ranks)
    exact = {row.rank: row.late_ms for row in found.rows}
    names, hover = [], []
    for number, row in enumerate(few):
        inside = Ranks(ranks[number * step : (number + 1) * step])
        names.append(wording.ranks_phrase(inside, 2))
        late = exact.get(min(inside)) if step == 1 else None
        hover.append(
            [
                f"{names[-1]}<br>#{seq}: {_late(late[n]) if late else LEVEL_NAMES[row[n]]}"
                for n, seq in enumerate(found.seqs)
            ]
        )
    return names, [list(row) for row in few], hover


def _late(value: float) -> str:
    return (
        "never issued" if value == NEVER else "not recorded" if value == UNKNOWN else f"{wording.duration(value)} late"
    )
