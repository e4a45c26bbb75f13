"""Plotly figures of an incident: the drawings of the page, to zoom and to hover. None shows itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import plotly.graph_objects as go
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model import Diagnosis
from nccldoctor.reports.plotly import look as looks
from nccldoctor.reports.plotly.heat import lateness_figure
from nccldoctor.reports.plotly.progress import progress_figure
from nccldoctor.reports.plotly.streams import streams_figure
from nccldoctor.reports.plotly.timeline import timeline_figure


class Plots(Struct, frozen=True):
    """``inc.plot``: each method gives a figure of its own; ``inc.plot.dark`` gives them on a dark ground.

    HTML that nbconvert exports shows them where the notebook ran with ``PLOTLY_RENDERER=plotly_mimetype+notebook``.
    """

    diagnosis: Diagnosis
    look: looks.Look = looks.LIGHT

    @property
    def dark(self) -> Plots:
        """The same figures for a dark notebook."""
        return replace(self, look=looks.DARK)

    def timeline(self, ranks: Collection[int] | None = None) -> go.Figure:
        """The stall to scale: who waits for whom and for how long; ``ranks`` keeps their rows."""
        return timeline_figure(self.diagnosis, self.look, ranks)

    def progress(self, ranks: Iterable[int] | None = None, group: str | None = None) -> go.Figure:
        """Six calls of each group: done, waiting, queued or never called; of some ``ranks``, of one ``group``."""
        return progress_figure(self.diagnosis, self.look, ranks, group)

    def lateness(self, ranks: Iterable[int] | None = None, last: int | None = None) -> go.Figure:
        """How late each rank entered the last calls; of some ``ranks``, the ``last`` calls only."""
        return lateness_figure(self.diagnosis, self.look, ranks, last)

    def streams(self, last: int | None = None) -> go.Figure:
        """The calls of a rank at fault and of a peer; ``last`` rows around the first difference."""
        return streams_figure(self.diagnosis, self.look, last)
