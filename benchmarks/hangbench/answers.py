"""What a tool says about one job, and how it is read from JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from nccldoctor.model.causes import CauseClass, Confidence, Family
from nccldoctor.model.ranks import Ranks

CLASSES = frozenset(cause.value for cause in CauseClass)
FAMILIES = {cause.value: cause.family.value for cause in CauseClass} | {family.value: family.value for family in Family}
"""The family of each class. A tool that knows no class may answer with the name of a family."""

LEVELS = frozenset(level.value for level in Confidence)
RANK_SET = re.compile(r"\s*(?:\d{1,6}(?:-\d{1,6})?\s*(?:,\s*|$))*")
MOST_RANKS = 200_000
"""Ranks that one answer may name; beyond this it is no answer about these jobs."""


class NoAnswerError(Exception):
    """A tool ended without an answer that can be scored; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one tool about one job.

    ``ranks`` are those it holds at fault and ``suspects`` others that it names as possible, both in global numbers. ``cause`` is a
    class, a family, or None where it names none; ``confidence`` is None where the tool states none.
    """

    ranks: Ranks = Ranks()
    suspects: Ranks = Ranks()
    cause: str | None = None
    confidence: str | None = None
    says_healthy: bool = False

    def as_json(self) -> dict[str, Any]:
        """The answer in the form that :func:`read_answer` reads."""
        return {
            "ranks": str(self.ranks),
            "suspects": str(self.suspects),
            "class": self.cause,
            "confidence": self.confidence,
            "says_healthy": self.says_healthy,
        }


def read_answer(text: str) -> Answer | None:
    """The answer that a command printed; None where it says ``"no_input": true``.

    Raises :class:`NoAnswerError` where the text is no JSON object, or a field holds what it may not hold.
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise NoAnswerError("no JSON on stdout") from None
    if not isinstance(said, dict):
        raise NoAnswerError("the JSON on stdout is no object")
    if said.get("no_input") is True:
        return None
    healthy = said.get("says_healthy", False)
    if not isinstance(healthy, bool):
        raise NoAnswerError("says_healthy is neither true nor false")
    return Answer(
        rank_set(said.get("ranks")),
        rank_set(said.get("suspects")),
        _word(said.get("class"), frozenset(FAMILIES), "class"),
        _word(said.get("confidence"), LEVELS, "confidence"),
        healthy,
    )


def rank_set(said: object) -> Ranks:
    """Reads ``"0-3,7"``, a list of numbers, or null. Raises :class:`NoAnswerError` for anything else."""
    if said is None:
        return Ranks()
    if isinstance(said, list):
        if not all(type(rank) is int and rank >= 0 for rank in said):
            raise NoAnswerError("ranks holds what is no rank")
        return Ranks(said)
    if not isinstance(said, str) or not RANK_SET.fullmatch(said):
        raise NoAnswerError("ranks is no rank set like 0-3,7")
    spans = [part.partition("-") for part in said.replace(" ", "").split(",") if part]
    if sum(int(high or low) - int(low) + 1 for low, _, high in spans) > MOST_RANKS:
        raise NoAnswerError(f"ranks names more than {MOST_RANKS:,} ranks")
    return Ranks.parse(said)


def _word(said: object, known: frozenset[str], field: str) -> str | None:
    if said is None or said == "":
        return None
    if not isinstance(said, str) or said not in known:
        raise NoAnswerError(f"{field} is none of {', '.join(sorted(known))}")
    return said
