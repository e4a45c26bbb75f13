"""The calls of a rank at fault and of a peer, side by side, as a figure."""

from __future__ import annotations

import plotly.graph_objects as go

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import CallDiffRow, IssuedCall
from nccldoctor.reports.plotly import look as looks
from nccldoctor.words import names

KINDS = {"same": "", "differs": "≠", "left-only": "◀ only here", "right-only": "only here ▶"}
"""The middle column: how a row differs."""

LINE, CALL = 28, 48
TITLE = "Calls side by side"


def streams_figure(diagnosis: Diagnosis, look: looks.Look, last: int | None = None) -> go.Figure:
    """A table of both streams with the differing rows marked; ``last`` keeps that many rows around the first of them."""
    pair = diagnosis.streams
    if pair is None:
        return looks.empty(TITLE, "no flight recorder dumps of a rank at fault and of a peer", look)
    rows = _around_difference(pair.rows, last)
    fills = [look.ground if row.kind == "same" else look.culprit_ground for row in rows]
    inks = [look.ink if row.kind == "same" else look.culprit for row in rows]
    header = {"values": [f"rank {pair.left}", "", f"rank {pair.right}"], "fill_color": look.surface}
    table = go.Table(
        header={**header, "align": "left", "font": {"color": look.ink}, "line_color": look.rule, "height": LINE},
        cells={
            "values": [
                [_in_words(row.left) for row in rows],
                [KINDS.get(row.kind, row.kind) for row in rows],
                [_in_words(row.right) for row in rows],
            ],
            "fill_color": [fills] * 3,
            "font": {"color": [inks] * 3},
            "line_color": look.rule,
            "align": "left",
            "height": CALL,
        },
        columnwidth=[9, 2, 9],
    )
    figure = looks.finished(go.Figure(table), f"{TITLE}: rank {pair.left} and rank {pair.right}", len(rows) + 1, look)
    return figure.update_layout(margin={"l": 10, "r": 10}, height=len(rows) * CALL + LINE + looks.HEADROOM)


def _around_difference(rows: tuple[CallDiffRow, ...], last: int | None) -> tuple[CallDiffRow, ...]:
    """All rows, or the ``last`` of them that still hold the first difference."""
    if last is None or last >= len(rows):
        return rows
    first = next((n for n, row in enumerate(rows) if row.kind != "same"), len(rows) - 1)
    begin = max(min(first - 1, len(rows) - last), 0)
    return rows[begin : begin + max(last, 1)]


def _in_words(call: IssuedCall | None) -> str:
    if call is None:
        return "not called"
    name, group = names.call_title(call.op, call.seq), names.group_title(call.group) if call.group else ""
    parts = (name, group, call.sizes, call.site, "completed" if call.done else "not completed")
    return looks.safe(" · ".join(part for part in parts if part))
