"""The three answers to a question: yes, no, and *cannot tell* for want of some input.

Example: whether rank 5 moves. Two looks show it in one line: no. There is one look: cannot tell, for want of a second.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from nccldoctor.events import Event

SHOWN = 160
"""Characters of a quoted line that an answer repeats."""


class Answer(Struct, frozen=True):
    """``asked`` is the question in words; ``says`` the evidence, what to look for, or the missing input.

    ``holds`` is true, false or None by the kind of answer; ``shown_by`` is the event that it rests on, where one does.
    """

    asked: str = ""
    says: str = ""
    where: str | None = None
    is_hint: bool = False
    shown_by: Event | None = None
    holds: ClassVar[bool | None] = None


class Met(Answer, frozen=True):
    """It is so; ``where`` is the place that shows it, where one line or entry does.

    ``is_hint`` where the name of a user's own function is all that shows it: it then carries no *strong* fit.
    """

    holds = True


class Unmet(Answer, frozen=True):
    """The input that would show it is there, and does not."""

    holds = False


class NotCheckable(Answer, frozen=True):
    """The input that would show it is not there; ``says`` names it."""


def excerpt(text: str) -> str:
    """A quoted line, cut to :data:`SHOWN` characters and without line breaks."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else flat[: SHOWN - 1] + "…"


def quoted(event: Event) -> str:
    """The line of an event, cut short, with a word on a rank that counts inside a group."""
    return excerpt(event.text) + event.group_rank_note
