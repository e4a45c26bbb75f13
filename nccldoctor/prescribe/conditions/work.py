"""Tells what a rank did while its peers waited: a checkpoint, an evaluation, samples, data, a compilation."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from nccldoctor.align.stack_activity import find_activity
from nccldoctor.events import CallTimeout, Event, Phase, Progress
from nccldoctor.model import Finding
from nccldoctor.prescribe.conditions.base import Context, OneOf, listed, predicate
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, excerpt, quoted

UNKNOWN_WORK = "unknown"
PHASES = ("checkpoint", "evaluation", "sampling", "data", "compile")
"""Phases of a job that keep a rank out of its step, and take as long each time."""
_OF_STACK = {
    "writes a checkpoint": "checkpoint",
    "loads a checkpoint": "checkpoint",
    "evaluates": "evaluation",
    "generates samples": "sampling",
    "prepares data": "data",
    "downloads from the Hugging Face hub": "data",
    "compiles": "compile",
    "builds an extension": "compile",
    "writes a file": "other",
}
"""What a stack shows of work that takes as long each time, in the words of :mod:`nccldoctor.align.stack_activity`."""
_BARS = {
    "evaluation": ("valid", "eval", "test"),
    "sampling": ("sampl", "generat", "ddim", "experience", "rollout"),
    "data": ("token", "map", "preproc", "download"),
    "checkpoint": ("saving", "save"),
}


class Work(Struct, frozen=True):
    """What a rank did, and the event that shows it.

    ``took_s`` are its seconds, where a line says that it took longer than the timeout. ``is_guess`` where the name of a user's own
    function is all that shows it.
    """

    what: str
    shown_by: Event
    took_s: float | None = None
    is_guess: bool = False


def work_of(finding: Finding, survey: Survey) -> Work | None:
    """What the culprits did while their peers waited; None where neither a stack nor a log shows it.

    A line that says how long the work took counts where that is longer than the timeout, whenever it was printed. A line that no rank
    signs is taken for rank 0's, which most programs let do and print such work. Where nobody is named, it is what led to the call.
    """
    ranks = finding.blamed
    limit = finding.stalled.timeout_ms if finding.stalled is not None else None
    writers = {*ranks, *((None,) if 0 in ranks else ())}
    for phase in survey.events_of(Phase):
        if phase.rank in writers and phase.what in PHASES and limit and (phase.seconds or 0) * 1000 >= limit:
            return Work(phase.what, phase, phase.seconds)
    stacks = (s for rank in ranks for s in sorted(survey.stacks.get(rank, ()), key=lambda s: -s.look) if s.main)
    found = ((find_activity(stack.frames), stack) for stack in stacks)
    by_stack = [Work(_OF_STACK[a.words], s, is_guess=a.is_guess) for a, s in found if a and a.words in _OF_STACK]
    if sure := next((work for work in by_stack if not work.is_guess), None):
        return sure
    for (rank, _), event in survey.last_activity.items():
        is_own = rank in ranks or (rank == -1 and 0 in ranks) or (not finding.ranks and _has_led_to_call(event, survey))
        if is_own and (what := _phase_begun(event)):
            return Work(what, event)
    return by_stack[0] if by_stack else None


def _has_led_to_call(event: Event, survey: Survey) -> bool:
    """True of a phase that began after the last step, at most one timeout before the call that waits."""
    step, liveness = survey.last_step, survey.facts.liveness
    if not isinstance(event, Phase) or step is None or step.place.source != event.place.source:
        return False
    calls = survey.case.events.of_kind(CallTimeout)
    is_stale = any(liveness.issued(call) - liveness.time(event) > (call.ran_ms or 0) / 1e3 for call in calls)
    return bool(calls) and not is_stale and (event.place.line or 0) > (step.place.line or 0)


def _phase_begun(event: Event) -> str | None:
    """The phase that a line begins, or that the label of its progress bar names."""
    if isinstance(event, Phase):
        return event.what if event.what in PHASES and not event.is_over else None
    return phase_of_bar(event) if isinstance(event, Progress) else None


def phase_of_bar(bar: Progress) -> str | None:
    """The phase that the label of a progress bar names."""
    label = (bar.label or "").lower()
    return next((what for what, words in _BARS.items() if any(word in label for word in words)), None)


_ASKED = {
    "checkpoint": "wrote a checkpoint",
    "evaluation": "evaluated",
    "sampling": "generated samples",
    "data": "prepared data",
    "compile": "compiled",
    "other": "did other work",
    "too-long": "worked longer than the timeout",
    UNKNOWN_WORK: "did unknown work",
}


@predicate(weight=0.8)
def work(context: Context, *, what: tuple[Annotated[str, OneOf(tuple(_ASKED))], ...]) -> Answer:
    """The culprit did one of these while its peers waited, by its stack or its log.
    They are checkpoint, evaluation, sampling, data, compile, other; too-long is any that took longer than the timeout.
    """
    asked = f"{context.in_words('culprit')} {listed(_ASKED[each] for each in what)}"
    done = work_of(context.finding, context.survey)
    if done is None:
        missing = f"a stack of {context.in_words('culprit')}, or a log that names its phases"
        return Met(asked, "its work is unknown") if UNKNOWN_WORK in what else NotCheckable(asked, missing)
    fits = done.what in what or ("too-long" in what and done.took_s is not None)
    says = quoted(done.shown_by) or excerpt(done.what)
    return Met(asked, says, str(done.shown_by.place), is_hint=done.is_guess) if fits else Unmet(asked, says)
