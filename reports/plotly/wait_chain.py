"""The wait chain of the page as a figure; on hover a box shows what it has no room for."""

from __future__ import annotations

import plotly.graph_objects as go

from nccldoctor.model import Diagnosis
from nccldoctor.reports.charts import chain
from nccldoctor.reports.charts.text_width import fitting
from nccldoctor.reports.parts.tones import Tone
from nccldoctor.reports.plotly import look as looks

MARGIN = 14
TITLE = "Who waits for whom"


def wait_figure(diagnosis: Diagnosis, look: looks.Look) -> go.Figure:
    """Boxes of fixed size: a narrow cell of a notebook scrolls, no text leaves its box."""
    picture = chain.chain_picture(diagnosis.standings)
    if picture is None:
        return looks.empty(TITLE, "no rank waits for a named rank", look)
    figure = go.Figure()
    for arrow in picture.arrows:
        stroke = {"color": look.fill(arrow.tone), "width": 1.5, "dash": "solid" if arrow.is_recorded else "dot"}
        figure.add_shape(type="path", path=_spaced(arrow.path), layer="below", line=stroke)
        points = [point.replace(",", " ") for point in arrow.head.split()]
        head = f"M {' L '.join(points)} Z"
        figure.add_shape(type="path", path=head, layer="below", fillcolor=stroke["color"], line={"width": 0})
    for box in picture.boxes:
        fill = look.culprit_ground if box.tone is Tone.CULPRIT else look.ground
        corners = {"x0": box.x, "x1": box.x + picture.box_width, "y0": box.y, "y1": box.y + picture.box_height}
        stroke = {"color": look.fill(box.tone), "width": 1.5}
        figure.add_shape(type="rect", **corners, layer="below", fillcolor=fill, line=stroke)
    figure.add_trace(
        go.Scatter(
            mode="text",
            x=[box.x + picture.box_width / 2 for box in picture.boxes],
            y=[box.y + picture.box_height / 2 for box in picture.boxes],
            text=[_label(box, picture.box_width - 18) for box in picture.boxes],
            textfont={"size": 11},
            customdata=[box.key for box in picture.boxes],
            hovertext=[looks.hover(box.title, box.tone.value, *box.details) for box in picture.boxes],
            hoverinfo="text",
            showlegend=False,
        )
    )
    figure.update_xaxes(visible=False, range=[-2, picture.width + 2], fixedrange=True)
    figure.update_yaxes(visible=False, range=[picture.height, 0], fixedrange=True)
    looks.finished(figure, TITLE, 3, look)
    sides = {"l": MARGIN, "r": MARGIN, "t": 54, "b": MARGIN}
    return figure.update_layout(width=picture.width + 2 * MARGIN + 4, height=picture.height + 54 + MARGIN, margin=sides)


def _label(box: chain.Box, room: int) -> str:
    lines = [fitting(detail, 11, room) for detail in box.details]
    return "<br>".join((f"<b>{looks.safe(fitting(box.title, 13, room))}</b>", *map(looks.safe, lines)))


def _spaced(path: str) -> str:
    """Path data as plotly reads it: its parser wants each command and number apart."""
    return "".join(f" {c} " if c in "MHV" else c for c in path).strip()
