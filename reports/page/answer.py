"""The first screen's words on the answer: its kind, how sure it is, and what else it could be."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model import Confidence, Diagnosis, Family, Finding
from nccldoctor.model.steps import JobState
from nccldoctor.reports.page import facts
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.independent_sources import sources_words
from nccldoctor.words import names, times
from nccldoctor.words.lists import and_list
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import capitalized, uncapitalized


class Status(Struct, frozen=True):
    """The line above the headline: the kind of incident, its class, and how sure it is (``bars`` of 3).

    ``situation`` says what is special about it, such as two stalls that have nothing to do with each other.
    """

    tone: str
    kind: str
    situation: str
    cause: str
    class_name: str
    level: str
    bars: int
    sources: str


class Explanation(Struct, frozen=True):
    """Another explanation: what is missing to refute it, what speaks against it, and what settles it."""

    title: str
    open: str
    against: str
    settles: str


_KINDS = {Family.NONE: "Healthy", Family.UNDETERMINED: "Not enough to judge", Family.SETUP: "Init hang"}
_LEVELS = {
    Confidence.HIGH: ("High confidence", 3),
    Confidence.MEDIUM: ("Medium confidence", 2),
    Confidence.LOW: ("Low confidence", 1),
}


def status_line(diagnosis: Diagnosis) -> Status:
    """The line above the headline."""
    finding = diagnosis.verdict
    situation = wording.situation(diagnosis)
    is_open = finding.family in (Family.NONE, Family.UNDETERMINED)
    is_kind = finding.family in (Family.NONE, Family.SETUP) or situation.startswith("A crash")
    kind = situation if situation and is_kind else _KINDS.get(finding.family, "Hang")
    situation = "" if is_kind else situation
    kind = "Slow job" if finding.family is Family.SLOW and finding.stalled is None else kind
    if diagnosis.job_end.state is JobState.RUNNING and not is_open:
        kind, situation = f"Live {uncapitalized(kind)}", situation or "still running"
    level, bars = _LEVELS.get(finding.confidence, ("", 0))
    return Status(
        tone=facts.tone(finding),
        kind=kind,
        situation=situation,
        cause="" if is_open else wording.title(finding),
        class_name=finding.cause.value,
        level=level,
        bars=bars,
        sources=sources_words(finding) if bars else "",
    )


def lede(diagnosis: Diagnosis) -> str:
    """The sentences below the headline; of a running job also how much time is left."""
    end = diagnosis.job_end
    if diagnosis.verdict.family is Family.NONE and not diagnosis.action.steps:
        return f"{wording.summary(diagnosis)} Nothing to do."
    if end.state is not JobState.RUNNING or end.deadline is None:
        return wording.summary(diagnosis)
    left = (end.deadline - end.seen).total_seconds() * 1000 if end.seen is not None else 0
    time = f", {times.duration(left)} after the last look" if left > 0 else ""
    return f"{wording.summary(diagnosis)} The call times out at {times.instant(end.deadline)}{time}.".strip()


def why_not_surer(finding: Finding) -> tuple[str, ...]:
    """The strongest doubts; empty where the confidence is high, or where nothing is judged."""
    if finding.confidence in (Confidence.HIGH, Confidence.CANNOT_TELL):
        return ()
    return tuple(line(doubt.says, 240) for doubt in finding.doubts[:3])


def explanations(finding: Finding) -> tuple[Explanation, ...]:
    """The best other explanation, where the verdict is not sure."""
    other = finding.runner_up
    if other is None or finding.confidence is Confidence.HIGH:
        return ()
    ranks = f", {names.ranks_phrase(other.ranks, 4)}" if other.ranks and other.ranks != finding.ranks else ""
    unknown = [reason.observation for reason in finding.why if not reason.weight]
    differs = bool(other.ranks) and other.ranks != finding.ranks
    strongest = next((r.evidence for r in finding.why if r.weight > 0 and r.evidence is not None), None)
    known = finding.evidence[strongest - 1].says if differs and strongest and strongest <= len(finding.evidence) else ""
    return (
        Explanation(
            wording.CLASSES[other.cause].title + ranks,
            capitalized(and_list(unknown[:3])) if unknown else "",
            line(known, 160),
            line(other.separated_by, 200),
        ),
    )
