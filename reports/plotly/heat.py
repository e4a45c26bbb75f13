"""How late ranks were in the last calls of their group, as a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import LEVEL_UNKNOWN, LEVELS, NEVER, SEVERITY, UNKNOWN, Lateness, level
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.plotly import look as looks
from nccldoctor.words import names, times

BINS = 128
"""Rows of a heat map of all ranks at most; the worst of those that share a row shows."""

LEVEL_NAMES = ("below 5 ms", "5 to 50 ms", "50 to 250 ms", "0.25 to 1 s", "above 1 s", "never called", "not recorded")

TITLE = "Lateness"


def lateness_figure(
    diagnosis: Diagnosis, look: looks.Look, ranks: Iterable[int] | None = None, last: int | None = None
) -> go.Figure:
    """How long after the first arrival each rank entered each call; ``ranks`` and the ``last`` calls may be chosen."""
    lateness = diagnosis.run_up
    if lateness is None:
        return looks.empty(TITLE, "no flight recorder dumps of several ranks with times", look)
    asked = lateness.ranks if ranks is None else lateness.ranks & ranks
    seqs = lateness.seqs[-last:] if last else lateness.seqs
    ends = range(len(lateness.seqs), len(lateness.levels) + 1, len(lateness.seqs) or 1)  # one byte a call of each rank
    levels = {rank: lateness.levels[end - len(seqs) : end] for rank, end in zip(lateness.ranks, ends, strict=True)}
    rows, step = merged([levels[rank] for rank in asked], BINS, SEVERITY)
    order = list(asked)
    members = [Ranks(order[n * step : (n + 1) * step]) for n in range(len(rows))]
    titles = [names.call_title(op, seq) for op, seq in zip(lateness.ops, lateness.seqs, strict=False)][-len(seqs) :]
    heat = go.Heatmap(
        z=[[None if value == LEVEL_UNKNOWN else value for value in row] for row in rows],
        x=[f"#{seq}" for seq in seqs],
        y=[names.ranks_phrase(inside, 2) for inside in members],
        text=[
            [looks.hover(names.ranks_phrase(inside, 2), call, late) for call, late in zip(titles, words, strict=True)]
            for inside, row in zip(members, rows, strict=True)
            for words in [_late_words(lateness, inside, row, step == 1)]
        ],
        hoverinfo="text",
        zmin=-0.5,
        zmax=len(LEVELS) + 1.5,
        colorscale=looks.steps(look.late),
        colorbar=looks.bar(LEVEL_NAMES[:6], "after the first rank"),
        xgap=1,
        ygap=1 if len(rows) <= 64 else 0,
    )
    figure = go.Figure(heat)
    figure.update_xaxes(type="category", title_text=f"call of {looks.safe(names.group_title(lateness.group))}")
    figure.update_yaxes(type="category", autorange="reversed")
    return looks.finished(figure, f"{TITLE} in the last {len(seqs)} calls", len(rows), look)


def _late_words(lateness: Lateness, inside: Ranks, levels: bytes, is_single: bool) -> list[str]:
    """The lateness in each call: milliseconds for a rank that is looked at one by one, else the level."""
    exact = next((row.late_ms for row in lateness.rows if is_single and row.rank in inside), None)
    if exact is None:
        return [LEVEL_NAMES[value] for value in levels]
    return [
        LEVEL_NAMES[level(value)] if value in (NEVER, UNKNOWN) else f"{times.duration(value)} late"
        for value in exact[-len(levels) :]
    ]


def merged(rows: Sequence[bytes], most: int, severity: bytes) -> tuple[list[bytes], int]:
    """At most ``most`` rows, each the worst of ``step`` neighbours; returns the rows and ``step``. ``severity`` ranks the
    levels.

    A single odd cell never vanishes: what is worse than its neighbours stays.
    """
    step = max(-(-len(rows) // most), 1)
    if step == 1:
        return list(rows), 1
    back = {severity[level]: level for level in range(len(severity))}
    out = []
    for start in range(0, len(rows), step):
        columns = zip(*rows[start : start + step], strict=True)
        out.append(bytes(back[max(severity[level] for level in column)] for column in columns))
    return out, step
