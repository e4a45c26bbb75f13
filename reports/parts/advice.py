"""Advice of all reports: what not to do, and settings that do nothing."""

from __future__ import annotations

from nccldoctor.model import Avoid, Diagnosis
from nccldoctor.model.steps import Step, StepKind
from nccldoctor.patterns import lazy
from nccldoctor.words.sentences import sentence

OPEN = 5
"""Remedies shown in full (the others fold away), and texts of each kind in one of them."""

MOST = 2
"""Warnings at most: a longer list isn't read."""

LABELS = {
    StepKind.OPEN: "Open",
    StepKind.CHECK: "Check",
    StepKind.FIX: "Fix",
    StepKind.DRAIN: "Drain",
    StepKind.RESTART: "Restart",
    StepKind.IF_AGAIN: "Next time",
    StepKind.SEND: "Collect",
    StepKind.WAIT: "Wait",
}
"""The label of a step where reports have a column for it."""


def sentence_of(step: Step) -> str:
    """The step as CommonMark without its command: what to do, and why."""
    return f"{step.text} {step.detail}".strip()


def warning_of(item: Avoid) -> str:
    """What not to do and why, as CommonMark.

    A bare setting is told as one that doesn't help: alone, under *Don't*, it reads as an order.
    """
    what = item.what.rstrip(".")
    if what and not _IS_SENTENCE.match(what):
        what = f"{what if '`' in what else f'`{what}`'} doesn't help"
    return f"{what + '.' if what else ''} {sentence(item.why)}".strip()


_IS_SENTENCE = lazy(r"[A-Z][a-z']+ ")


def donts(diagnosis: Diagnosis) -> tuple[Avoid, ...]:
    """What not to do, by the best remedy: never a setting that was only seen."""
    best = diagnosis.remedies[0].avoid if diagnosis.remedies else ()
    return best[:MOST]


def idle_settings(diagnosis: Diagnosis) -> tuple[Avoid, ...]:
    """Settings and advice seen in the input that do nothing for this job, each once."""
    return tuple({advice.what: advice for advice in reversed(diagnosis.avoid)}.values())[::-1]
