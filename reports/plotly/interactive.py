"""The report with plotly panels that can be zoomed: one file, offline, and the plain page where scripts are blocked.

The plotly.js of the installed package stands in the page compressed; a script of ours unpacks it. The policy lists
the hash of
the unpacked text, so that nothing else can take its place. Plotly sets styles of its own, hence the one relaxation.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache

from nccldoctor.model import Diagnosis
from nccldoctor.reports import html
from nccldoctor.reports.plotly import figures

_TITLES = {
    "timeline": "Timeline",
    "lateness": "Run-up",
    "progress": "Progress by rank",
    "wait_graph": "Who waits for whom",
    "streams": "Calls side by side",
}


def page(diagnosis: Diagnosis) -> str:
    """The whole report with its panels; a file of its own, ends with a newline."""
    drawn = figures.all_figures(diagnosis)
    if not drawn:
        return html.page(diagnosis)
    library, library_hash = _library()
    plain = {name: json.loads(figure.to_json()) for name, figure in drawn.items()}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    panels = html.Panels(tuple((name, _TITLES[name]) for name in drawn), text, library)
    return html.filled(diagnosis, panels, library_hash)


@cache
def _library() -> tuple[str, str]:
    """The plotly.js of the installed package, compressed without a date, and the hash of its unpacked text."""
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs().encode("utf-8")
    return base64.b64encode(gzip.compress(source, 9, mtime=0)).decode("ascii"), html.digest(source)
