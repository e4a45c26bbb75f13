"""Plotly figures of an incident: the same values as the drawings of the page, to zoom and to hover. Nothing is ever
shown by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import TimeRow
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts import symbols, wait_graph
from nccldoctor.reports.parts import wording
from nccldoctor.reports.plotly import look
from nccldoctor.reports.plotly.heat import lateness_figure, progress_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

MARKERS = {
    "timeout": "diamond",
    "exit": "x",
    "exception": "triangle-up",
    "trouble": "star",
    "dump": "triangle-down",
    "stack": "square",
    "life": "circle",
}


@dataclass(frozen=True, slots=True)
class Plots:
    """``inc.plot``: each method gives a figure of its own, with one template."""

    diagnosis: Diagnosis

    def progress(self) -> go.Figure:
        """Where ranks stand in the last calls of their groups; ranks that stand alike share a row."""
        return progress_figure(self.diagnosis)

    def timeline(self) -> go.Figure:
        """What the ranks to look at did around the stall."""
        return timeline_figure(self.diagnosis)

    def lateness(self) -> go.Figure:
        """How late each rank issued each of the last calls."""
        return lateness_figure(self.diagnosis)

    def wait_graph(self) -> go.Figure:
        """Who waits for whom."""
        return wait_graph_figure(self.diagnosis)

    def streams(self) -> go.Figure:
        """The calls of a culprit beside a peer's."""
        return streams_figure(self.diagnosis)


def all_figures(diagnosis: Diagnosis) -> dict[str, go.Figure]:
    """The figures that have something to show, by the name of their method."""
    makers: tuple[tuple[str, object, Callable[[Diagnosis], go.Figure]], ...] = (
        ("timeline", diagnosis.timeline, timeline_figure),
        ("lateness", diagnosis.run_up, lateness_figure),
        ("progress", diagnosis.ranks, progress_figure),
        ("wait_graph", _chain(diagnosis), wait_graph_figure),
        ("streams", diagnosis.streams, streams_figure),
    )
    return {name: make(diagnosis) for name, there, make in makers if there}


def timeline_figure(diagnosis: Diagnosis) -> go.Figure:
    """Bars and symbols by rank over time; to be zoomed."""
    import plotly.graph_objects as go

    found = diagnosis.timeline
    if found is None:
        return look.empty("Timeline", "nothing that was read has a time")
    figure = go.Figure()
    names = [_name(row) for row in found.rows]
    for kind in ("work", "call", "waiting", "outside"):
        bars = [(name, s) for name, row in zip(names, found.rows, strict=True) for s in row.stretches if s.kind == kind]
        if bars:
            figure.add_bar(
                orientation="h",
                name=kind,
                y=[n for n, _ in bars],
                x=[(s.end - s.start) * 1000 for _, s in bars],
                base=[_time(s.start) for _, s in bars],
                marker_color=look.COLORS[kind],
                width=0.5 if kind == "call" else 0.7,
                hovertext=[f"{n}<br>{kind} for {wording.duration((s.end - s.start) * 1000)}" for n, s in bars],
                hoverinfo="text",
            )
    for kind, symbol in MARKERS.items():
        marks = [(name, m) for name, row in zip(names, found.rows, strict=True) for m in row.marks if m.kind == kind]
        if marks:
            figure.add_scatter(
                mode="markers",
                name=kind,
                y=[n for n, _ in marks],
                x=[_time(m.at) for _, m in marks],
                marker={
                    "symbol": symbol,
                    "size": 10,
                    "color": symbols.FILLS[kind],
                    "line": {"color": "#ffffff", "width": 1},
                },
                hovertext=[f"{n}<br>{look.safe(m.text)}<br>{look.safe(m.where)}" for n, m in marks],
                hoverinfo="text",
            )
    figure.update_layout(
        barmode="overlay",
        xaxis_type="date",
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"},
    )
    figure.update_yaxes(categoryorder="array", categoryarray=names)
    return look.finished(figure, f"Timeline ({found.zone or 'times without a zone'})", len(names))


def _name(row: TimeRow) -> str:
    return wording.ranks_phrase(row.ranks, 2) if row.ranks else "hosts"


def _time(seconds: float) -> str:
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(seconds, 6))
    except OverflowError:
        at = datetime(1970, 1, 1, tzinfo=UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")


def wait_graph_figure(diagnosis: Diagnosis) -> go.Figure:
    """The boxes and arrows of the page."""
    import plotly.graph_objects as go

    culprits = Ranks(r for f in diagnosis.findings for r in f.ranks)
    graph = wait_graph.wait_graph(
        _chain(diagnosis), culprits, Ranks(r for f in diagnosis.findings for r in f.suspects) - culprits
    )
    if graph is None:
        return look.empty("Who waits for whom", "no rank is shown to wait for another one")
    figure = go.Figure()
    for arrow in graph.arrows:
        figure.add_shape(
            type="path",
            path=_spaced(arrow.path),
            layer="below",
            line={
                "color": "#52606f" if arrow.kind == "plain" else "#d55e00",
                "width": 2,
                "dash": "dash" if arrow.kind == "cycle" else "solid",
            },
        )
        figure.add_annotation(x=arrow.x, y=arrow.y, text=look.safe(arrow.label), showarrow=False, font={"size": 11})
    fills = {"call": "#fdf5e3", "culprit": "#fdf0e7", "more": "#eef1f5"}
    for box in graph.boxes:
        figure.add_shape(
            type="rect",
            x0=box.x,
            x1=box.x + wait_graph.WIDTH,
            y0=box.y,
            y1=box.y + wait_graph.HEIGHT,
            layer="below",
            fillcolor=fills.get(box.kind, "#e9f5fd"),
            line={"color": "#d55e00" if box.kind == "culprit" else "#c98a12", "width": 2},
        )
    figure.add_scatter(
        mode="text",
        x=[b.x + wait_graph.WIDTH / 2 for b in graph.boxes],
        y=[b.y + wait_graph.HEIGHT / 2 for b in graph.boxes],
        text=[f"<b>{look.safe(b.title)}</b><br>{look.safe(b.middle)}<br>{look.safe(b.detail)}" for b in graph.boxes],
        hovertext=[look.safe(b.full) for b in graph.boxes],
        hoverinfo="text",
        showlegend=False,
    )
    figure.update_xaxes(visible=False, range=[0, graph.width])
    figure.update_yaxes(visible=False, range=[graph.height, 0])
    return look.finished(figure, "Who waits for whom", graph.height // 40)


def _spaced(path: str) -> str:
    """Path data as plotly reads it: its parser wants each command and number apart."""
    return "".join(f" {c} " if c in "MHV" else c for c in path).strip()


def _chain(diagnosis: Diagnosis) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(link for finding in diagnosis.findings for link in finding.chain))


def streams_figure(diagnosis: Diagnosis) -> go.Figure:
    """Both streams as a table; what differs is coloured."""
    import plotly.graph_objects as go

    pair = diagnosis.streams
    if pair is None:
        return look.empty("Calls side by side", "no recorded calls of a rank at fault and of a peer")
    sides = [
        [_call(row.left) for row in pair.rows],
        [row.kind for row in pair.rows],
        [_call(row.right) for row in pair.rows],
    ]
    colors = [["#ffffff" if row.kind == "same" else "#fdf0e7" for row in pair.rows]] * 3
    table = go.Table(
        header={"values": [f"rank {pair.left}", "", f"rank {pair.right}"], "fill_color": "#eef1f5", "align": "left"},
        cells={"values": sides, "fill_color": colors, "align": "left", "height": 26},
        columnwidth=[5, 1, 5],
    )
    return look.finished(go.Figure(table), "Calls side by side", len(pair.rows) + 2)


def _call(call: Any) -> str:
    if call is None:
        return "not issued"
    parts = (wording.call_name(call.op, call.seq), call.group, call.site, "completed" if call.done else "not completed")
    return look.safe(" · ".join(part for part in parts if part))
