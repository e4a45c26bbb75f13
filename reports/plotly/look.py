"""The look of all figures: the colours of the page, on a light or a dark ground."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from msgspec import Struct, convert

from nccldoctor.reports.parts.tones import Tone
from nccldoctor.words.sanitize import line

HATCHES = {Tone.WAITING: "/", Tone.BLOCKED: "\\", Tone.CROWD: "-", Tone.SUSPECT: "x"}
"""The hatch of a tone: colour alone shows nothing to some readers."""

HEADROOM, ROW = 130, 26
"""Pixels of title, axis and legend together, and of one row."""


class Look(Struct, frozen=True):
    """Colours of a figure: the tokens of the page."""

    ground: str
    surface: str
    rule: str
    ink: str
    culprit: str
    culprit_ground: str
    waiting: str
    blocked: str
    done: str
    late: tuple[str, ...]

    def fill(self, tone: Tone) -> str:
        """The colour of a tone."""
        return {
            Tone.CULPRIT: self.culprit,
            Tone.SUSPECT: self.culprit,
            Tone.WAITING: self.waiting,
            Tone.BLOCKED: self.blocked,
        }.get(tone, self.done)


_COLOURS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LIGHT, DARK = convert(_COLOURS["light"], Look), convert(_COLOURS["dark"], Look)


def hatch(tone: Tone, look: Look) -> dict[str, object]:
    """The pattern of a bar: lines in the colour of the ground over its own."""
    return {"shape": HATCHES.get(tone, ""), "fillmode": "overlay", "fgcolor": look.ground, "fgopacity": 0.7, "size": 8}


def safe(text: str) -> str:
    """Text of strangers in a figure: plotly reads a few tags, so none may stand in it."""
    return line(text, 160).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def hover(*texts: str) -> str:
    """A hover text of several lines; empty ones are left out."""
    return "<br>".join(safe(text) for text in texts if text)


def steps(colors: Sequence[str]) -> list[list[object]]:
    """A colour scale of steps instead of shades."""
    share = 1 / len(colors)
    return [[edge, color] for n, color in enumerate(colors) for edge in (n * share, (n + 1) * share)]


def bar(names: Sequence[str], title: str) -> dict[str, object]:
    """A legend for such a scale: a name for each step."""
    ticks = {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": list(names)}
    return {**ticks, "outlinewidth": 0, "title": {"text": title}}


def empty(title: str, why: str, look: Look) -> go.Figure:
    """A figure that says why it shows nothing."""
    figure = go.Figure()
    figure.add_annotation(x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, text=f"Not available: {why}")
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return finished(figure, title, 4, look)


def finished(figure: go.Figure, title: str, rows: int, look: Look) -> go.Figure:
    """The figure with its title, template and height; nothing is registered with plotly."""
    axis = {"gridcolor": look.rule, "linecolor": look.rule, "zeroline": False}
    template = go.layout.Template(
        layout={
            "font": {"family": "Segoe UI, Roboto, Helvetica, Arial, sans-serif", "size": 13, "color": look.ink},
            "title": {"font": {"size": 16}},
            "paper_bgcolor": look.ground,
            "plot_bgcolor": look.ground,
            "margin": {"l": 110, "r": 30, "t": 54, "b": 54},
            "hoverlabel": {"align": "left", "bgcolor": look.surface, "font": {"color": look.ink}},
            "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1.0, "xanchor": "right"},
            "xaxis": {**axis, "automargin": True},
            "yaxis": {**axis, "automargin": True},
        }
    )
    height = min(max(rows, 3), 32) * ROW + HEADROOM
    figure.update_layout(template=template, title={"text": title, "x": 0.01}, height=height)
    return figure
