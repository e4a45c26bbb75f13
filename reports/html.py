"""The report as one HTML page: templates filled with a :func:`view <nccldoctor.reports.page.view.build>`, and nothing loaded.

The page forbids itself everything but its one style block and its one script, by their hashes: text of a log that
got past the escaping would still do nothing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import CallDiff, IssuedCall
from nccldoctor.reports import json_document
from nccldoctor.reports.charts import call_strip, crossed, link
from nccldoctor.reports.charts.text_width import fitting
from nccldoctor.reports.page import proof, view
from nccldoctor.reports.parts import prose
from nccldoctor.words import names, sanitize
from nccldoctor.words.sentences import capitalized, sentence

TEMPLATES = Path(__file__).parent / "templates"


class Asset(Struct, frozen=True):
    """A style sheet or script to stand in the page, and the hash that the policy allows it by."""

    text: Markup
    hash: str


def page(diagnosis: Diagnosis) -> str:
    """The whole report; a file of its own, ends with a newline."""
    style, script = asset("page.css"), asset("page.js")
    # without a date; a job of 16,384 ranks takes half a megabyte
    content = json_document.to_json(diagnosis).encode("utf-8", "backslashreplace")
    return (
        environment()
        .get_template("page.html")
        .render(
            v=view.build(diagnosis),
            **_PICTURES,
            pid="",
            policy=Markup(f"style-src '{style.hash}'; script-src '{script.hash}'"),  # our own words and hashes
            style=style,
            script=script,
            document=Markup(base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")),
            strip_width=call_strip.WIDTH,
        )
        .rstrip("\n")
        + "\n"
    )


_PICTURES = {"link_width": link.WIDTH, "link_box": link.BOX, "crossed_width": crossed.WIDTH, "crossed_box": crossed.BOX}
"""The sizes that the templates of the first picture need."""


def card(diagnosis: Diagnosis) -> str:
    """The verdict for a notebook, with its picture. It has no script, styles of its own, and is light or dark as the notebook is."""
    shown = view.build(diagnosis)
    pid = f"nccldoctor-{hashlib.sha256(shown.headline.encode()).hexdigest()[:12]}-"  # a notebook holds many cards
    return environment().get_template("card.html").render(v=shown, pid=pid, **_PICTURES)


def templates(finalize: Callable[[Any], object]) -> Environment:
    """The templates of all reports, without their filters; ``finalize`` sees each value before it is escaped."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=finalize,
        optimized=False,  # a run renders each template once: folding its constants would cost more than it saves
    )


@cache
def environment() -> Environment:
    """The templates with all their filters. Everything is escaped, unseen characters are spelled out, a misspelled name is an error."""
    environment = templates(sanitize.spelled_out)
    environment.filters |= {
        "breakable": prose.breakable,
        "call_cell": proof.call_cell,
        "fit": lambda value, width, size: fitting(sanitize.line(str(value), 200), size, width),
        "group_title": names.group_title,
        "marked": _marked,
        "quoted": lambda text, limit=SHOWN_OF_LINE: sanitize.sanitize(_without_colours(text), limit),
        "own_orders": _own_orders,
        "line": _line,
        "inline_prose": prose.inline_html,
        "prose": prose.html,
        "ranks_phrase": names.ranks_phrase,
        "sentence": sentence,
        "capitalized": capitalized,
    }
    return environment


def _line(value: object, limit: int = sanitize.QUOTE) -> str:
    """A text or a place on one line; "" for None."""
    return "" if value is None else sanitize.line(str(value), limit)


def _own_orders(diff: CallDiff, swapped: tuple[str, ...]) -> list[tuple[str, str]]:
    """The calls of both ranks, each in its own order, from the one before the first swapped call on."""
    calls = [row.left for row in diff.rows]
    first = next((n for n, c in enumerate(calls) if c is not None and names.call_title(c.op, c.seq) in swapped), 0)
    rows = diff.rows[max(first - 1, 0) :][:6]
    sides = ([row.right for row in rows if row.right], [row.left for row in rows if row.left])
    texts = [[_issued_call(call) for call in side] for side in sides]
    return list(zip_longest(texts[0], texts[1], fillvalue="no call"))


def _issued_call(call: IssuedCall) -> str:
    """``ALLGATHER #128 of DP 5, not complete``: a call in its place in the order."""
    state = "complete" if call.done else "not complete"
    return sanitize.line(f"{names.call_title(call.op, call.seq)} of {names.group_title(call.group)}, {state}", 200)


SHOWN_OF_LINE = 400
"""Characters of a quoted line on the page; of a longer one the beginning, and what stands around a cited value."""


def _marked(text: str, values: tuple[str, ...]) -> Markup:
    """A quoted line with the cited values marked."""
    shown = sanitize.sanitize(_around_values(sanitize.text(_without_colours(text)), values), SHOWN_OF_LINE)
    words = sorted((re.escape(v) for v in values if v), key=len, reverse=True)
    pieces = re.split(rf"(?<!\w)({'|'.join(words)})(?!\w)", shown) if words else [shown]
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if number % 2 else escape(piece) for number, piece in enumerate(pieces)
    )


def _without_colours(text: str) -> str:
    """The line as a terminal shows it, without the codes of colours."""
    return re.sub(r"\x1b\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]", "", text)


def _around_values(text: str, values: tuple[str, ...]) -> str:
    """The line, or of a long one its first third and the part around the last cited value."""
    last = max((text.find(value) + len(value) for value in values if value in text), default=0)
    third = SHOWN_OF_LINE // 3
    return text if last < SHOWN_OF_LINE - 40 else f"{text[:third]} … {text[last - third : last + third]}"


@cache
def asset(name: str) -> Asset:
    """A style sheet or a script of the templates."""
    text = (TEMPLATES / name).read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return Asset(Markup(text), f"sha256-{digest}")  # our own files, not text of strangers
