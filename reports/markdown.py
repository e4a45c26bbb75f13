"""What is written as Markdown by templates: the whole report, for places that do not take HTML."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from msgspec.structs import replace

from nccldoctor.model import Diagnosis, EventRole
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import html, ticket
from nccldoctor.reports.dialects import MD
from nccldoctor.reports.parts import prose, standing_titles, wording
from nccldoctor.reports.parts.quoted_proof import all_quoted, decisive_lines
from nccldoctor.words import names, times
from nccldoctor.words.sentences import capitalized

EVENTS = 12
"""Rows of the story."""

ROLES = {
    EventRole.INITIATING: "started it",
    EventRole.CASCADE: "consequence",
    EventRole.TEAR_DOWN: "shutdown",
    EventRole.UNRELATED: "unrelated",
}
"""The word for each role, in the order in which rows are kept."""


def full(diagnosis: Diagnosis) -> str:
    """The whole report as Markdown; it begins with the ticket text."""
    story, roles = diagnosis.story, list(ROLES)
    kept = sorted(range(len(story)), key=lambda n: (not story[n].cause, roles.index(story[n].role), n))[:EVENTS]
    return rendered(
        "report.md",
        d=diagnosis,
        ticket=Markup(ticket.in_dialect(diagnosis, MD).rstrip("\n")),
        others=wording.others(diagnosis),
        proof=all_quoted(diagnosis),
        roles=ROLES,
        story=[story[n] for n in sorted(kept)],
        more=len(story) - len(kept),
    )


def rendered(template: str, **values: Any) -> str:
    """A template filled with these values; ends with one newline."""
    return _environment().get_template(template).render(values).strip("\n") + "\n"


@cache
def _environment() -> Environment:
    """The templates: a value is plain words on one line, unless a filter makes code of it."""
    environment = html.templates(_plain_words)
    environment.filters |= {
        "as_ranks": Ranks,
        "block": lambda text, limit: Markup(MD.block(text, limit)),
        "capitalized": capitalized,
        "code": lambda text, limit=200: Markup(MD.code(text, limit)),
        "conditions_met": wording.conditions_met,
        "decisive_lines": decisive_lines,
        "duration": times.duration,
        "fenced": _fenced,
        "few": names.few,
        "group_title": names.group_title,
        "instant": times.instant,
        "prose": lambda text, limit: Markup(MD.prose(prose.inline_pieces(text), limit)),
        "ranks_phrase": names.ranks_phrase,
        "stalled_name": wording.stalled_name,
        "wait_in_words": standing_titles.wait_in_words,
        "waited_title": standing_titles.waited_title,
        "words": _plain_words,
    }
    return environment


def _plain_words(value: object, limit: int = 200) -> Markup:
    """Words of a log, in which nothing becomes markup; what is markup already stays."""
    return value if isinstance(value, Markup) else Markup(MD.words(str(value), limit))


def _fenced(text: str, limit: int, language: str = "") -> Markup:
    return Markup(replace(MD, indent="", fence=(f"```{language}", "```")).block(text, limit))
