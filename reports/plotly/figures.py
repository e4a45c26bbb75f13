"""Plotly figures of an incident: the values of the page's drawings, to zoom and to hover. None shows itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import IssuedCall, TimeRow
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts import symbols, wait_graph
from nccldoctor.reports.plotly import look
from nccldoctor.reports.plotly.heat import lateness_figure, progress_figure
from nccldoctor.words import names, times

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
        """The time around the stall, a row for each rank to look at."""
        return timeline_figure(self.diagnosis)

    def lateness(self) -> go.Figure:
        """The lateness of each rank in the last calls."""
        return lateness_figure(self.diagnosis)

    def wait_graph(self) -> go.Figure:
        """The wait-for graph."""
        return wait_graph_figure(self.diagnosis)

    def streams(self) -> go.Figure:
        """The calls of a culprit and of a peer, side by side."""
        return streams_figure(self.diagnosis)


def all_figures(diagnosis: Diagnosis) -> dict[str, go.Figure]:
    """The figures that have something to show, by the name of their method."""
    makers: tuple[tuple[str, object, Callable[[Diagnosis], go.Figure]], ...] = (
        ("timeline", diagnosis.timeline, timeline_figure),
        ("lateness", diagnosis.run_up, lateness_figure),
        ("progress", diagnosis.ranks, progress_figure),
        ("wait_graph", any(finding.chain for finding in diagnosis.findings), wait_graph_figure),
        ("streams", diagnosis.streams, streams_figure),
    )
    return {name: make(diagnosis) for name, there, make in makers if there}


def timeline_figure(diagnosis: Diagnosis) -> go.Figure:
    """Bars and symbols by rank over time; to be zoomed."""
    import plotly.graph_objects as go

    time = diagnosis.timeline
    if time is None:
        return look.empty("Timeline", "nothing that was read has a time")
    figure = go.Figure()
    named = [(_row_name(row), row) for row in time.rows]
    for kind in ("work", "call", "waiting", "outside"):
        bars = [(name, s, (s.end - s.start) * 1000) for name, row in named for s in row.stretches if s.kind == kind]
        if bars:
            figure.add_bar(
                orientation="h",
                name=kind,
                y=[name for name, *_ in bars],
                x=[ms for *_, ms in bars],
                base=[_moment(stretch.start) for _, stretch, _ in bars],
                marker_color=look.COLORS[kind],
                width=0.5 if kind == "call" else 0.7,
                hovertext=[f"{name}<br>{kind} for {times.duration(ms)}" for name, _, ms in bars],
                hoverinfo="text",
            )
    for kind, symbol in MARKERS.items():
        marks = [(name, mark) for name, row in named for mark in row.marks if mark.kind == kind]
        if marks:
            outline = {"color": "#ffffff", "width": 1}
            figure.add_scatter(
                mode="markers",
                name=kind,
                y=[name for name, _ in marks],
                x=[_moment(mark.at) for _, mark in marks],
                marker={"symbol": symbol, "size": 10, "color": symbols.FILLS[kind], "line": outline},
                hovertext=[look.hover(name, mark.text, mark.where) for name, mark in marks],
                hoverinfo="text",
            )
    legend = {"orientation": "h", "y": 1.0, "yanchor": "bottom"}
    figure.update_layout(barmode="overlay", xaxis_type="date", showlegend=True, legend=legend)
    figure.update_yaxes(categoryorder="array", categoryarray=[name for name, _ in named])
    return look.finished(figure, f"Timeline ({time.zone or 'times without a zone'})", len(named))


def _row_name(row: TimeRow) -> str:
    """``rank 5``, ``ranks 0-3``; ``hosts`` for a row of no rank."""
    return names.ranks_phrase(row.ranks, 2) if row.ranks else "hosts"


def _moment(seconds: float) -> str:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        at = epoch + timedelta(seconds=round(seconds, 6))
    except OverflowError:
        at = epoch
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")


def wait_graph_figure(diagnosis: Diagnosis) -> go.Figure:
    """The boxes and arrows of the page."""
    import plotly.graph_objects as go

    culprits = Ranks(r for f in diagnosis.findings for r in f.ranks)
    suspects = Ranks(r for f in diagnosis.findings for r in f.suspects) - culprits
    chain = tuple(dict.fromkeys(link for finding in diagnosis.findings for link in finding.chain))
    graph = wait_graph.wait_graph(chain, culprits, suspects)
    if graph is None:
        return look.empty("Who waits for whom", "no rank is known to wait for another")
    figure = go.Figure()
    width, height = wait_graph.WIDTH, wait_graph.HEIGHT
    for arrow in graph.arrows:
        dash = "dash" if arrow.kind == "cycle" else "solid"
        stroke = {"color": "#52606f" if arrow.kind == "plain" else "#d55e00", "width": 2, "dash": dash}
        figure.add_shape(type="path", path=_spaced(arrow.path), layer="below", line=stroke)
        figure.add_annotation(x=arrow.x, y=arrow.y, text=look.safe(arrow.label), showarrow=False, font={"size": 11})
    for box in graph.boxes:
        fill = {"call": "#fdf5e3", "culprit": "#fdf0e7", "more": "#eef1f5"}.get(box.kind, "#e9f5fd")
        stroke = {"color": "#d55e00" if box.kind == "culprit" else "#c98a12", "width": 2}
        corners = {"x0": box.x, "x1": box.x + width, "y0": box.y, "y1": box.y + height}
        figure.add_shape(type="rect", **corners, layer="below", fillcolor=fill, line=stroke)
    figure.add_scatter(
        mode="text",
        x=[box.x + width / 2 for box in graph.boxes],
        y=[box.y + height / 2 for box in graph.boxes],
        text=[f"<b>{look.safe(b.title)}</b><br>{look.safe(b.middle)}<br>{look.safe(b.detail)}" for b in graph.boxes],
        hovertext=[look.safe(box.full) for box in graph.boxes],
        hoverinfo="text",
        showlegend=False,
    )
    figure.update_xaxes(visible=False, range=[0, graph.width])
    figure.update_yaxes(visible=False, range=[graph.height, 0])
    return look.finished(figure, "Who waits for whom", graph.height // 40)


def _spaced(path: str) -> str:
    """Path data as plotly reads it: its parser wants each command and number apart."""
    return "".join(f" {c} " if c in "MHV" else c for c in path).strip()


def streams_figure(diagnosis: Diagnosis) -> go.Figure:
    """Both streams as a table; what differs is coloured."""
    import plotly.graph_objects as go

    pair = diagnosis.streams
    if pair is None:
        return look.empty("Calls side by side", "no recorded calls of a rank at fault and of a peer")
    columns = zip(*((_in_words(row.left), row.kind, _in_words(row.right)) for row in pair.rows), strict=True)
    colors = [["#ffffff" if row.kind == "same" else "#fdf0e7" for row in pair.rows]] * 3
    table = go.Table(
        header={"values": [f"rank {pair.left}", "", f"rank {pair.right}"], "fill_color": "#eef1f5", "align": "left"},
        cells={"values": [list(c) for c in columns], "fill_color": colors, "align": "left", "height": 26},
        columnwidth=[5, 1, 5],
    )
    return look.finished(go.Figure(table), "Calls side by side", len(pair.rows) + 2)


def _in_words(call: IssuedCall | None) -> str:
    if call is None:
        return "not issued"
    parts = (names.call_title(call.op, call.seq), call.group, call.site, "completed" if call.done else "not completed")
    return look.safe(" · ".join(part for part in parts if part))
