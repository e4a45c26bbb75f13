"""The first block of the terminal summary: the verdict, the lines that prove it, and its facts."""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.model import Confidence, Diagnosis, Family, Finding
from nccldoctor.model.steps import StepKind
from nccldoctor.reports.parts import incident_facts, missing_inputs, wording
from nccldoctor.reports.parts.quoted_proof import QuotedProof, all_quoted
from nccldoctor.reports.terminal.layout import DIM, KEY, POINTER, Line, Span, paragraph
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import sentence

CARET = "bold red"


def headline(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """``error[not-arrived]: Rank 1 never reached ALLREDUCE #9.``"""
    finding = diagnosis.verdict
    level, style = _severity(finding)
    head = (Span(f"{level}[{finding.cause.value}]", style), Span(": ", KEY))
    yield from paragraph(sentence(line(finding.headline, 600)), width, head=head, style=KEY)


def _severity(finding: Finding) -> tuple[str, str]:
    if finding.family is Family.UNDETERMINED or (
        finding.family is Family.NONE and finding.confidence is Confidence.LOW
    ):
        return "warning", "bold yellow"
    return ("ok", "bold green") if finding.family is Family.NONE else ("error", "bold red")


def proof(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """Each exhibit: its claim, its place, and at most two lines with what decides marked."""
    shown = all_quoted(diagnosis)
    gutter = max((len(row.gutter) for proof in shown for row in proof.lines), default=0) + 1
    for exhibit in shown:
        if diagnosis.verdict.family is not Family.UNDETERMINED:
            yield from paragraph(exhibit.claim, width, head=(Span(f"{exhibit.id}: ", KEY),), indent=4)
        yield from _source(exhibit, gutter, width, has_marks=diagnosis.verdict.family is not Family.UNDETERMINED)


def _source(exhibit: QuotedProof, gutter: int, width: int, *, has_marks: bool) -> Iterator[Line]:
    note = " (formatted)" if exhibit.is_formatted else ""
    arrow = (Span(" " * (gutter - 1) + "--> ", POINTER),)
    yield from paragraph(f"{exhibit.place}{note}".strip(), width, head=arrow, indent=gutter + 3)
    room = max(width - gutter - 3, 16)
    for row in exhibit.lines:
        shown = row.cropped(room)
        yield Span(f"{row.gutter:>{gutter - 1}} ", POINTER), Span("| ", POINTER), Span(shown.text)
        if shown.marks and has_marks:
            carets = "".join("^" if any(a <= n < b for a, b in shown.marks) else " " for n in range(shown.marks[-1][1]))
            yield Span(" " * gutter, POINTER), Span("| ", POINTER), Span(carets, CARET)


def facts(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """When, where, which call, who waits, how sure, and why not surer: a line each."""
    for fact in incident_facts.facts(diagnosis):
        head = (Span("  = ", POINTER), Span(f"{fact.label}: ", KEY))
        yield from paragraph(fact.text, width, head=head, indent=4)


def notices(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """What the answer does not rest on."""
    for notice in diagnosis.notices:
        yield from paragraph(line(notice, 300), width, head=(Span("warning: ", "bold yellow"),), indent=2)


def also_found(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """The other findings, a line each."""
    found = wording.others(diagnosis)
    for other in found[: incident_facts.OTHERS]:
        text = f"{sentence(line(other.headline, 300))} ({other.cause.value}, {other.confidence.value})"
        yield from paragraph(text, width, head=(Span(f"also {other.id}: ", KEY),), indent=2)
    if len(found) > incident_facts.OTHERS:
        yield (Span(f"also {len(found) - incident_facts.OTHERS} more findings, in the JSON", DIM),)


def checked(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """The input that was read, where the verdict names no rank for sure."""
    is_told = any(step.kind is StepKind.SEND for step in diagnosis.action.steps)
    if (missing_inputs.wanted(diagnosis) and not is_told) or diagnosis.verdict.family is Family.NONE:
        head = (Span("  = ", POINTER), Span("input: ", KEY))
        parts = (missing_inputs.input_line(diagnosis), missing_inputs.input_problems(diagnosis))
        yield from paragraph("; ".join(part for part in parts if part), width, head=head, indent=4)
