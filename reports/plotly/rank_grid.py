"""The map of ranks as a figure: the cells of the page, with what a rank does on hover."""

from __future__ import annotations

import plotly.graph_objects as go

from nccldoctor.model import Diagnosis
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts import rank_map
from nccldoctor.reports.parts import standing_titles
from nccldoctor.reports.parts.tones import Tone
from nccldoctor.reports.plotly import look as looks
from nccldoctor.words import names

TITLE = "Where it is"
MARGIN = 14


def grid_figure(diagnosis: Diagnosis, look: looks.Look) -> go.Figure:
    """One square a rank, or one a host in a very large job; only from 32 ranks up."""
    drawn = rank_map.rank_map(diagnosis)
    if drawn is None:
        return looks.empty(TITLE, f"a map needs {rank_map.FEWEST} ranks or more", look)
    doing = {rank: s for s in diagnosis.standings for rank in s.ranks}
    hosts = {state.rank: state.host or "" for state in diagnosis.ranks}
    figure = go.Figure()
    for tone in Tone:
        cells = [cell for cell in drawn.cells if cell.tone is tone]
        if not cells:
            continue
        members = [Ranks.parse(cell.ranks) for cell in cells]
        firsts = [next(iter(ranks), -1) for ranks in members]
        said = [standing_titles.place_title(doing[r]) if r in doing else "" for r in firsts]
        marker = {"symbol": looks.SYMBOLS.get(tone, "square"), "size": max(drawn.size - 2, 2), "color": look.fill(tone)}
        figure.add_trace(
            go.Scatter(
                mode="markers",
                name=tone.value,
                x=[cell.x + drawn.size / 2 for cell in cells],
                y=[cell.y + drawn.size / 2 for cell in cells],
                marker=marker,
                customdata=[cell.ranks for cell in cells],
                hovertext=[
                    looks.hover(names.ranks_phrase(ranks), hosts.get(first, ""), tone.value, says)
                    for ranks, first, says in zip(members, firsts, said, strict=True)
                ],
                hoverinfo="text",
            )
        )
    for label in drawn.labels:
        color = look.culprit if label.is_culprit else look.muted
        figure.add_annotation(
            x=label.x,
            y=label.y,
            text=looks.safe(label.text),
            showarrow=False,
            xanchor="left",
            font={"size": 11, "color": color},
        )
    figure.update_xaxes(visible=False, range=[0, rank_map.WIDTH])
    figure.update_yaxes(visible=False, range=[drawn.height, 0])
    looks.finished(figure, f"{TITLE}. {drawn.title}", 3, look)
    width, height = rank_map.WIDTH + 2 * MARGIN, int(drawn.height) + 100
    figure.update_layout(legend={"x": 0, "xanchor": "left"})
    return figure.update_layout(width=width, height=height, margin={"l": MARGIN, "r": MARGIN, "t": 86, "b": MARGIN})
