"""The one look of all figures, and what they share: colours, scales of steps, text that holds no tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nccldoctor.words.sanitize import line

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLORS = {
    "done": "#6b7b8e",
    "waiting": "#f2c66d",
    "queued": "#9fd0ee",
    "never": "#d55e00",
    "unknown": "#dfe4ea",
    "work": "#b9c3cf",
    "call": "#2f7fbf",
    "outside": "#d55e00",
}
"""Of states and stretches, as in the drawings of the page."""


def safe(text: str) -> str:
    """Text of strangers in a figure: plotly reads a few tags, so none may stand in it."""
    return line(text, 160).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def hover(name: str, *texts: str) -> str:
    """A hover text: a name of ours, and texts of strangers below it."""
    return "<br>".join((name, *(safe(text) for text in texts)))


def steps(colors: Sequence[str]) -> list[list[object]]:
    """A colour scale of steps instead of shades."""
    share = 1 / len(colors)
    return [[edge, color] for n, color in enumerate(colors) for edge in (n * share, (n + 1) * share)]


def bar(names: Sequence[str]) -> dict[str, object]:
    """A legend for such a scale: a name for each step."""
    return {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": list(names), "outlinewidth": 0}


def empty(title: str, why: str) -> go.Figure:
    """A figure that says why it shows nothing."""
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.add_annotation(x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, text=f"Not known: {why}")
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return finished(figure, title, 4)


def finished(figure: go.Figure, title: str, rows: int) -> go.Figure:
    """The one look of all figures; nothing is registered with plotly."""
    import plotly.graph_objects as go

    look = go.layout.Template(
        layout={
            "font": {"family": "Segoe UI, Roboto, Helvetica, Arial, sans-serif", "size": 13, "color": "#18202a"},
            "paper_bgcolor": "#ffffff",
            "plot_bgcolor": "#ffffff",
            "margin": {"l": 110, "r": 30, "t": 54, "b": 50},
            "hoverlabel": {"align": "left"},
            "xaxis": {"gridcolor": "#dbe1e8"},
            "yaxis": {"gridcolor": "#eef1f5"},
        }
    )
    if any(trace.type == "heatmap" for trace in figure.data):
        figure.update_xaxes(type="category")  # "#18723" and "-5" are names, not numbers
    figure.update_layout(template=look, title={"text": title, "x": 0.01}, height=min(max(rows, 5), 40) * 24 + 160)
    if not any(trace.type in ("table",) for trace in figure.data) and figure.layout.yaxis.range is None:
        figure.update_yaxes(autorange="reversed")
    return figure
