"""A step as sentences and commands, for places where a command stands on a line of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nccldoctor.patterns import lazy
from nccldoctor.reports.parts import prose
from nccldoctor.reports.parts.advice import Step


@dataclass(frozen=True, slots=True)
class Command:
    """What can be copied into a shell: one line or several."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words and inline code, without marks."""

    pieces: tuple[prose.InlinePiece, ...]

    @property
    def text(self) -> str:
        """All of it as plain text."""
        return "".join(piece.text for piece in self.pieces).strip()


StepPart = Sentence | Command

_FENCE = lazy(r"```\w{0,12}\n(.{1,1200}?)\n?```", re.DOTALL)


def parts(step: Step) -> tuple[StepPart, ...]:
    """The sentences and the commands of a step, in order."""
    out: list[StepPart] = []
    at = 0
    for match in _FENCE.finditer(step.text):
        out += _sentences(step.text[at : match.start()])
        out.append(Command(match[1]))
        at = match.end()
    return (*out, *_sentences(step.text[at:]))


def _sentences(text: str) -> list[StepPart]:
    pieces = prose.inline_pieces(text)
    return [Sentence(pieces)] if pieces else []
