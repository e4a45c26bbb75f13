"""The last block of the terminal summary: what to do, what not, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nccldoctor.model import Confidence, Diagnosis, Family
from nccldoctor.model.steps import Step, StepKind
from nccldoctor.reports.parts import advice, prose
from nccldoctor.reports.terminal.layout import COMMAND, DIM, KEY, Line, Span, paragraph
from nccldoctor.words.sanitize import line

DONTS, INDENT = 2, 9
_HELP = "bold cyan"


def steps(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """The numbered steps with their reasons."""
    yield from _steps_saying(
        diagnosis, width, lambda step: step.text if step.kind is StepKind.SEND else advice.sentence_of(step)
    )


def brief_steps(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """The numbered steps, with as many sentences of their reasons as fit beside them."""
    yield from _steps_saying(diagnosis, width, lambda step: _in_a_line(step, width - INDENT))


def _in_a_line(step: Step, room: int) -> str:
    told, *reasons = step.text, *(f"{part}." for part in step.detail.removesuffix(".").split(". ") if part)
    for reason in reasons:
        if len(told) + len(reason) >= room:
            break
        told = f"{told} {reason}"
    return told


def _steps_saying(diagnosis: Diagnosis, width: int, told: Callable[[Step], str]) -> Iterator[Line]:
    """The numbered steps; each command on a line of its own, whole, to be copied."""
    chosen = diagnosis.action.steps
    if diagnosis.verdict.family is Family.NONE and not chosen:
        yield (Span("help: ", _HELP), Span("Nothing to do."))
    for number, step in enumerate(chosen, 1):
        count = f"{number}. " if len(chosen) > 1 else ""
        head: Line = (Span("help: ", _HELP) if number == 1 else Span("      "), Span(count, KEY))
        indent = sum(len(span.text) for span in head)
        yield from paragraph(prose.plain(told(step)), width, head=head, indent=indent)
        if step.command:
            yield (Span(" " * indent + "$ ", DIM), Span(line(step.command, 600), COMMAND))


def warnings(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """What not to do, the settings for the next run, and the remedy with the command that explains it.

    A verdict that is less than sure gets the settings: they would have brought what is missing.
    """
    for item in (*advice.idle_settings(diagnosis), *advice.donts(diagnosis))[:DONTS]:
        where = f" ({line(item.where, 200)})" if item.where else ""
        text = f"{prose.plain(advice.warning_of(item))}{where}"
        rest = text.removeprefix("Don't ")
        word = Span("Don't " if rest != text else "Note: ", "bold yellow")
        yield from paragraph(rest, width, head=(Span(" " * 6), word), indent=6)
    is_sure = diagnosis.verdict.family is not Family.UNDETERMINED and diagnosis.verdict.confidence is Confidence.HIGH
    if diagnosis.capture and not is_sure:
        yield Span("next time: ", KEY), Span("nccldoctor env LOGS", COMMAND), Span(" prints better settings")
    if diagnosis.remedies:
        best = diagnosis.remedies[0]
        whose = "" if best.origin == "built-in" else f" of {line(best.origin, 80)}"
        head = (Span(f"remedy{whose}: ", KEY),)
        told = f"nccldoctor explain {line(best.id, 80)}  # {line(best.title, 120)}"
        yield from paragraph(told, width, head=head, indent=2, style=COMMAND)
