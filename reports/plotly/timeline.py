"""The stall over time as a figure: bars of ranks, with the events of the incident on top."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import plotly.graph_objects as go

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import Mark
from nccldoctor.model.standings import Standing
from nccldoctor.reports.parts import standing_titles
from nccldoctor.reports.parts.tones import Tone, tone_of
from nccldoctor.reports.plotly import look as looks
from nccldoctor.words import names, times

MARKS = {
    "timeout": ("timed out", "diamond"),
    "exit": ("exited", "x"),
    "exception": ("exception", "triangle-up"),
    "trouble": ("fault", "star"),
    "dump": ("dump written", "triangle-down"),
    "stack": ("stack taken", "square"),
    "life": ("last line", "circle"),
}
"""The name and the symbol of each kind of event."""

TITLE = "The stall, to scale"


def timeline_figure(diagnosis: Diagnosis, look: looks.Look, ranks: Collection[int] | None = None) -> go.Figure:
    """Bars from the first arrival to the end; ``ranks`` keeps the rows that hold one of them."""
    involved = [s for s in diagnosis.standings if s.distance is not None]
    begun = [s.since for s in involved if s.since is not None and s.call is not None]
    ended = [s.until for s in involved if s.until is not None]
    rows = involved if ranks is None else [s for s in involved if s.ranks & ranks]
    marks = _events_since(diagnosis, rows, min(begun, default=0.0))
    if not begun or not (ended or marks):
        return looks.empty(TITLE, "no times after the stall began", look)
    end = max([*ended, *(mark.at for _, mark in marks)])
    figure = go.Figure()
    for tone in Tone:
        bars = [s for s in rows if tone_of(s) is tone]
        if bars:
            figure.add_trace(_bars(bars, tone, min(begun), end, look))
    for kind, (name, symbol) in MARKS.items():
        if found := [(row, mark) for row, mark in marks if mark.kind == kind]:
            figure.add_trace(_symbols(found, name, symbol, look))
    zone = diagnosis.timeline.zone if diagnosis.timeline is not None else ""
    figure.update_layout(barmode="overlay", bargap=0.35, showlegend=True)
    figure.update_xaxes(type="date", title_text=f"time ({zone or 'as logged, no time zone'})")
    order = [standing_titles.ranks_title(s.ranks) for s in rows]
    figure.update_yaxes(categoryorder="array", categoryarray=order[::-1], type="category")
    return looks.finished(figure, TITLE, len(rows), look)


def _events_since(diagnosis: Diagnosis, rows: Sequence[Standing], start: float) -> list[tuple[Standing, Mark]]:
    """The events since the stall began, each in the row of its ranks."""
    if diagnosis.timeline is None:
        return []
    return [
        (standing, mark)
        for time_row in diagnosis.timeline.rows
        for mark in time_row.marks
        if mark.at >= start
        for standing in rows
        if standing.ranks & time_row.ranks
    ]


def _bars(rows: Sequence[Standing], tone: Tone, start: float, end: float, look: looks.Look) -> go.Bar:
    spans = [(max(s.since or start, start), s.until if s.until is not None else end) for s in rows]
    return go.Bar(
        orientation="h",
        name=tone.value,
        y=[standing_titles.ranks_title(s.ranks) for s in rows],
        x=[max(until - since, 0.0) * 1000 for since, until in spans],
        base=[_moment(since) for since, _ in spans],
        marker={"color": look.fill(tone), "pattern": looks.hatch(tone, look)},
        text=[looks.safe(standing_titles.place_title(s)) for s in rows],
        textposition="inside",
        insidetextanchor="start",
        customdata=[str(s.ranks) for s in rows],
        hovertext=[_told(s, until - since) for s, (since, until) in zip(rows, spans, strict=True)],
        hoverinfo="text",
    )


def _told(standing: Standing, seconds: float) -> str:
    """What the ranks do, for whom they wait, and for how long."""
    waits = f"waits for {names.ranks_phrase(standing.waits_for)}" if standing.waits_for else ""
    frame = f"{standing.frame} ({standing.frame_at})" if standing.frame_at else standing.frame
    return looks.hover(
        names.ranks_phrase(standing.ranks),
        standing_titles.place_title(standing),
        frame,
        waits,
        times.duration(max(seconds, 0.0) * 1000),
        f"ended by {standing.end}" if standing.end else "",
    )


def _symbols(found: Sequence[tuple[Standing, Mark]], name: str, symbol: str, look: looks.Look) -> go.Scatter:
    return go.Scatter(
        mode="markers",
        name=name,
        y=[standing_titles.ranks_title(row.ranks) for row, _ in found],
        x=[_moment(mark.at) for _, mark in found],
        marker={"symbol": symbol, "size": 11, "color": look.ink, "line": {"color": look.ground, "width": 1}},
        customdata=[str(row.ranks) for row, _ in found],
        hovertext=[looks.hover(mark.text, _moment(mark.at), mark.where) for _, mark in found],
        hoverinfo="text",
    )


def _moment(seconds: float) -> str:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        at = epoch + timedelta(seconds=round(seconds, 6))
    except OverflowError:
        at = epoch
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")
