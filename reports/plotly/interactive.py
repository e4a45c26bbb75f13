"""The report whose drawings can be zoomed: one file, offline, and the plain page where scripts are blocked.

The plotly.js of the installed package is in the page, compressed; a script of ours unpacks it and replaces each drawing in its place.
The policy lists the hash of the unpacked text, so that nothing else can run. Plotly sets styles of its own, hence the one relaxation.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from nccldoctor.model import Diagnosis
from nccldoctor.reports import html
from nccldoctor.reports.plotly.figures import IN_PLACE, Plots

if TYPE_CHECKING:
    import plotly.graph_objects as go


def page(diagnosis: Diagnosis) -> str:
    """The whole report with its figures; a file of its own, ends with a newline."""
    plots = Plots(diagnosis)
    drawn = {name: {"light": _data(make(plots)), "dark": _data(make(plots.dark))} for name, make in IN_PLACE.items()}
    library, library_hash = _library()
    text = json.dumps(drawn, sort_keys=True, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return html.filled(diagnosis, html.Figures(text, library), library_hash)


def _data(figure: go.Figure) -> dict[str, Any]:
    """A figure as plotly.js reads it, without its title: the page has a heading there."""
    data: dict[str, Any] = json.loads(figure.update_layout(title=None).to_json())
    return data


@cache
def _library() -> tuple[str, str]:
    """The plotly.js of the installed package, compressed without a date, and the hash of its unpacked text."""
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs().encode("utf-8")
    return base64.b64encode(gzip.compress(source, 9, mtime=0)).decode("ascii"), html.digest(source)
