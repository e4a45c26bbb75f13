"""Heat maps as plotly figures: where ranks stand in the last calls, and how late they were in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import LEVEL_UNKNOWN, NEVER, SEVERITY, UNKNOWN, Lateness, level
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts import cells, progress, symbols
from nccldoctor.reports.parts import rank_rows, wording
from nccldoctor.reports.plotly import look
from nccldoctor.words import names, times

if TYPE_CHECKING:
    import plotly.graph_objects as go

BINS = 128
"""Rows of a heat map of all ranks at most; the worst of those that share a row shows."""

LEVEL_NAMES = ("below 5 ms", "5 to 50 ms", "50 to 250 ms", "0.25 to 1 s", "above 1 s", "never issued", "not recorded")


def progress_figure(diagnosis: Diagnosis) -> go.Figure:
    """One row for each line of *progress by rank*, one cell for each of six calls."""
    import plotly.graph_objects as go

    everyone = rank_rows.single(diagnosis)
    strips = progress.strips(everyone, diagnosis.ranks)
    rows = [(row, _six(cells)) for row, cells in zip(everyone, strips, strict=True) if cells]
    if not rows:
        return look.empty("Progress by rank", "no front of any rank is known")
    heat = go.Heatmap(
        z=[[progress.STATES.index(cell.state) for cell in cells] for _, cells in rows],
        zmin=-0.5,
        zmax=len(progress.STATES) - 0.5,
        x=[f"call {n}" for n in range(1, progress.CELLS + 1)],
        y=[look.safe(names.ranks_phrase(row.ranks, 4)) for row, _ in rows],
        text=[[f"{_standing(row, diagnosis)}<br>#{cell.seq}: {cell.state}" for cell in cells] for row, cells in rows],
        hoverinfo="text",
        xgap=3,
        ygap=3,
        colorscale=look.steps([look.COLORS[state] for state in progress.STATES]),
        colorbar=look.bar(progress.STATES),
    )
    return look.finished(go.Figure(heat), "Progress by rank: six calls of each group", len(rows))


def _six(strip: Sequence[progress.Cell]) -> list[progress.Cell]:
    """Always six: a group that has issued fewer calls began with them."""
    return [*[progress.Cell(-1, "done")] * (progress.CELLS - len(strip)), *strip]


def _standing(row: rank_rows.Row, diagnosis: Diagnosis) -> str:
    parts = (
        names.ranks_phrase(row.ranks, 4),
        wording.role_word(row.role, diagnosis.verdict.cause),
        ", ".join(row.hosts[:3]),
        row.group,
        f"done {row.completed}, enqueued {row.enqueued}",
        row.waits_in,
        row.last_sign,
        str(row.where or ""),
    )
    return "<br>".join(look.safe(part) for part in parts if part)


def lateness_figure(diagnosis: Diagnosis) -> go.Figure:
    """Levels of lateness; in a large job ranks share a row, which shows the worst of them."""
    import plotly.graph_objects as go

    lateness = diagnosis.run_up
    if lateness is None:
        return look.empty("Run-up", "no times of recorded calls of several ranks")
    rows, step = cells.merged(_level_rows(lateness), BINS, SEVERITY)
    ranks = list(lateness.ranks)
    members = [Ranks(ranks[n * step : (n + 1) * step]) for n in range(len(rows))]
    heat = go.Heatmap(
        z=[[None if level == LEVEL_UNKNOWN else level for level in row] for row in rows],
        x=[f"#{seq}" for seq in lateness.seqs],
        y=[names.ranks_phrase(inside, 2) for inside in members],
        text=[_late_row(lateness, inside, row, step == 1) for inside, row in zip(members, rows, strict=True)],
        hoverinfo="text",
        zmin=-0.5,
        zmax=5.5,
        colorscale=look.steps([*symbols.HEAT[:5], look.COLORS["never"]]),
        colorbar=look.bar(LEVEL_NAMES[:6]),
        xgap=1,
        ygap=1 if len(rows) <= 64 else 0,
    )
    title = f"Run-up: lateness in the last calls of {look.safe(lateness.group)}"
    return look.finished(go.Figure(heat), title, len(rows))


def _level_rows(lateness: Lateness) -> list[bytes]:
    """The levels of each rank, one byte a call."""
    columns = len(lateness.seqs)
    return [lateness.levels[n : n + columns] for n in range(0, len(lateness.levels), columns)]


def _late_row(lateness: Lateness, inside: Ranks, levels: bytes, is_small: bool) -> list[str]:
    """A hover text for each call: milliseconds in a small job, else the level."""
    exact = next((row.late_ms for row in lateness.rows if is_small and row.rank in inside), None)
    words = [_late(value) for value in exact] if exact else [LEVEL_NAMES[level] for level in levels]
    who = names.ranks_phrase(inside, 2)
    return [f"{who}<br>#{seq}: {word}" for seq, word in zip(lateness.seqs, words, strict=True)]


def _late(value: float) -> str:
    return LEVEL_NAMES[level(value)] if value in (NEVER, UNKNOWN) else f"{times.duration(value)} late"
