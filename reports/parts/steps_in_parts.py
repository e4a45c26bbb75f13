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


_FENCE = lazy(r"```\w{0,12}\n(.{1,1200}?)\n?```", re.DOTALL)


def parts(step: Step) -> tuple[str | Command, ...]:
    """The sentences (plain text) and the commands of a step, in order."""
    out: list[str | Command] = []
    at = 0
    for match in _FENCE.finditer(step.text):
        out += _sentences(step.text[at : match.start()])
        out.append(Command(match[1]))
        at = match.end()
    return (*out, *_sentences(step.text[at:]))


def _sentences(text: str) -> list[str]:
    shown = prose.plain(text)
    return [shown] if shown else []
