"""The events of an incident as rows of text, earliest first."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model import Diagnosis, EventRole, IncidentEvent
from nccldoctor.reports.parts.listed import Listed
from nccldoctor.words import names, times
from nccldoctor.words.sanitize import line

ROWS = 24
"""Rows on the page; the JSON has all."""

WORDS = {
    EventRole.INITIATING: "started it",
    EventRole.CASCADE: "consequence",
    EventRole.TEAR_DOWN: "shutdown",
    EventRole.UNRELATED: "unrelated",
}
"""The word for each role, in the order in which rows are kept."""

CAUSE = "root cause"


class Row(Struct, frozen=True):
    """One event: its time, ranks and host, text, role in the incident, and place in the input."""

    time: str
    who: str
    says: str
    role: str
    cause: bool
    place: str


def rows(diagnosis: Diagnosis, most: int = ROWS) -> Listed[Row]:
    """The rows in order; where there are too many, the first cause and the initiating events stay."""
    story, roles = diagnosis.story, list(WORDS)
    kept = sorted(range(len(story)), key=lambda n: (not story[n].cause, roles.index(story[n].role), n))[:most]
    return Listed(tuple(_row(story[n]) for n in sorted(kept)), len(story) - len(kept))


def _row(event: IncidentEvent) -> Row:
    return Row(
        time=times.instant(event.time) if event.time is not None else "",
        who=_who(event),
        says=line(event.says, 160) + (f" ({event.count:,} times)" if event.count > 1 else ""),
        role=CAUSE if event.cause else WORDS[event.role],
        cause=event.cause,
        place=line(str(event.where), 160),
    )


def _who(event: IncidentEvent) -> str:
    parts = [names.ranks_phrase(event.ranks, 4)] if event.ranks else []
    parts += [line(event.host, 60)] if event.host else []
    return " on ".join(parts) or "the job"
