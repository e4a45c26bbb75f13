"""Findings, case and catalogue in; ranked remedies, advice against, the action, and what to capture next time out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.align.health.proof import observe_health
from nccldoctor.attempts import Attempts, Broken
from nccldoctor.events import AbsenceReport
from nccldoctor.model import Action, Avoid, CauseClass, Condition, Confidence, Finding, RemedyAdvice
from nccldoctor.model.steps import UNKNOWN_END, JobEnd
from nccldoctor.prescribe.capture import capture
from nccldoctor.prescribe.catalogue.load import BUILT_IN_NAME, one_line
from nccldoctor.prescribe.catalogue.words import fill_in_words, step_line
from nccldoctor.prescribe.conditions import PREDICATES, Answer, Context, Met, NotCheckable, Survey, Unmet, ask
from nccldoctor.prescribe.conditions.base import SPECIFIC
from nccldoctor.prescribe.discouraged import advice_against, is_met, judge_settings
from nccldoctor.prescribe.job_end import job_end
from nccldoctor.prescribe.next_steps import Best, next_steps
from nccldoctor.prescribe.remote_commands import on_spot
from nccldoctor.prescribe.restart import decide
from nccldoctor.prescribe.values import placeholder_values, values_inside

if TYPE_CHECKING:
    from nccldoctor.prescribe.catalogue.load import Catalogue, Entry
    from nccldoctor.prescribe.catalogue.remedy import Clause, Step

SHOWN = 5
"""Remedies listed at most, of which :data:`GUESSES` at most without one specific condition met."""
GUESSES = 3
FINDINGS_READ = 8
"""Findings that remedies are sought for: the verdict and the next independent stalls."""
_AVOID_SHOWN = 12
_DECISIVE = ("finding", "version")
"""Conditions that, where refuted, leave nothing of a remedy: a defect of another release is not even near."""
_FREQUENCY = {"often": 1.0, "sometimes": 0.5, "rarely": 0.2}
"""Weighs guesses: where nothing telling is met, the common cause comes first."""


class Prescription(Struct, frozen=True):
    """The fields of a Diagnosis that :func:`prescribe` fills, and the remedies that failed."""

    remedies: tuple[RemedyAdvice, ...]
    avoid: tuple[Avoid, ...]
    action: Action
    capture: tuple[str, ...]
    job_end: JobEnd
    broken: tuple[Broken, ...] = ()


NO_ADVICE = Prescription((), (), Action("unknown", "The advice could not be worked out."), (), UNKNOWN_END)
"""What is shown where the advice as a whole failed."""


class Fit(Struct, frozen=True):
    """One remedy held against one finding.

    ``score`` is share met x strength x prior; ``specific`` is true where a condition is met that few causes share; ``is_hint`` where
    the names of a user's own functions are all that is specific.
    """

    entry: Entry
    finding: Finding
    checks: tuple[Condition, ...]
    fit: str
    score: float
    specific: bool
    is_hint: bool = False

    @property
    def met(self) -> int:
        """The number of conditions that are met."""
        return sum(check.met is True for check in self.checks)


def prescribe(findings: tuple[Finding, ...], facts: Facts, catalogue: Catalogue) -> Prescription:
    """Match the catalogue against the findings; the same input gives the same answer, order included."""
    case, survey = facts.case, Survey(facts)
    contexts = [Context(finding, survey, findings) for finding in findings[:FINDINGS_READ]]
    judgements = judge_settings(survey, case.torch, case.nccl)
    attempts = Attempts()
    shown = [] if _is_quiet(findings, survey) else _worth_showing(_fits(contexts, catalogue, attempts))
    end = job_end(case, findings[0]) if findings else UNKNOWN_END
    return Prescription(
        tuple(_advice(fit, findings, survey) for fit in shown),
        advice_against(contexts, catalogue, judgements)[:_AVOID_SHOWN],
        _action(findings, survey, end, shown),
        capture(findings, case),
        end,
        attempts.broken,
    )


def _is_quiet(findings: tuple[Finding, ...], survey: Survey) -> bool:
    """True of an open verdict without a call where no rank complains, fails or was looked into. Such a job may well be healthy."""
    facts = survey.facts
    is_told = facts.liveness.first_alarm or facts.failures or survey.stacks or survey.events_of(AbsenceReport)
    is_open = any(f.cause is CauseClass.UNDETERMINED and f.stalled is None for f in findings[:1])
    return is_open and not is_told and not observe_health(facts).troubles


def _action(findings: tuple[Finding, ...], survey: Survey, end: JobEnd, shown: list[Fit]) -> Action:
    """The answer about the restart, with the steps that the best remedy for the verdict asks for."""
    action = decide(findings, survey)
    if not findings:
        return action
    verdict = findings[0]
    fit = next((fit for fit in shown if fit.finding.id == verdict.id), None)
    best = _best_steps(fit, Context(verdict, survey, findings)) if fit is not None else Best()
    return replace(action, steps=next_steps(verdict, survey, end, action, best))


def _best_steps(fit: Fit, context: Context) -> Best:
    """The steps of a remedy.

    It is certain where all of its signs are met, and one of them is a named error, resource or signal. The name of a function alone
    says what to check, and nothing to fix.
    """
    remedy = fit.entry.remedy
    if fit.is_hint:
        return Best(_steps_for(remedy.confirm, context))
    is_certain = fit.specific and fit.met == len(fit.checks) and not remedy.general and remedy.status != "suspected"
    return Best(_steps_for(remedy.confirm, context), _steps_for(remedy.fix, context), is_certain)


def weigh(entry: Entry, context: Context) -> Fit | None:
    """The fit of a remedy to a finding, None where it is ruled out.

    Another class of finding rules it out, and so does any met condition of ``none``. The class itself proves nothing and counts as
    no condition. A remedy whose signs tell enough in an open verdict names that class, too.
    """
    remedy = entry.remedy
    if remedy.needs not in (None, *context.survey.met_needs):
        return None
    signs: list[_Sign] = []
    checks: list[Condition] = []
    release_open = False
    for clause in remedy.clauses("all"):
        answer = ask(context, clause.name, clause.arguments)
        if isinstance(answer, Unmet) and clause.name in _DECISIVE:
            return None
        release_open = release_open or (clause.name == "version" and isinstance(answer, NotCheckable))
        checks += [] if clause.name == "finding" else [_as_condition(answer)]
        signs += _signs([(clause, answer)])
    if any_of := remedy.clauses("any"):
        told = [(clause, ask(context, clause.name, clause.arguments)) for clause in any_of]
        answers = [(answer, PREDICATES[clause.name].weight) for clause, answer in told]
        checks.append(_any_condition(answers))
        signs += _signs(told)
    if any(is_met(context, clause) for clause in remedy.clauses("none")):
        return None
    if release_open and not any(sign.is_specific for sign in signs):
        return None  # any release has its defects: without the release, and without a sign of this one, it is none
    return _fit(entry, context.finding, tuple(checks), signs)


class _Sign(Struct, frozen=True):
    """A condition that is met, and what it weighs. ``is_hint`` where the name of a user's own function is all that shows it."""

    weight: float
    is_hint: bool

    @property
    def is_specific(self) -> bool:
        return self.weight >= SPECIFIC


def _signs(answers: Iterable[tuple[Clause, Answer]]) -> list[_Sign]:
    """The conditions that are met."""
    return [
        _Sign(PREDICATES[clause.name].weight, answer.is_hint) for clause, answer in answers if isinstance(answer, Met)
    ]


def _fit(entry: Entry, finding: Finding, checks: tuple[Condition, ...], signs: list[_Sign]) -> Fit:
    remedy = entry.remedy
    specific = any(sign.is_specific for sign in signs)
    is_hint = specific and all(sign.is_hint for sign in signs if sign.is_specific)
    met = sum(check.met is True for check in checks)
    fit = "weak"
    if all(check.met is not False for check in checks) and (met or remedy.general or not checks):
        is_sure = finding.confidence in (Confidence.HIGH, Confidence.MEDIUM) and remedy.status != "suspected"
        is_carried = (specific and not is_hint) or remedy.is_cause
        is_proven = is_carried and is_sure and finding.cause is not CauseClass.UNDETERMINED
        fit = "strong" if is_proven and met == len(checks) else "possible"
    told = [sign.weight for sign in signs] or [PREDICATES["finding"].weight]
    score = (met + 1) / (len(checks) + 1) * (1 - math.prod(1 - weight for weight in told)) * remedy.prior
    if not specific:
        score *= _FREQUENCY[remedy.frequency]
    return Fit(entry, finding, checks, fit, score, specific, is_hint)


def _fits(contexts: Iterable[Context], catalogue: Catalogue, attempts: Attempts) -> list[Fit]:
    """The best fit of each remedy over all findings, best first; one that breaks is left out."""
    best: dict[str, Fit] = {}
    for context in contexts:
        is_open = context.finding.cause is CauseClass.UNDETERMINED
        for entry in catalogue.entries:
            if entry.is_discouraged:
                continue
            fit = attempts.get(f"the remedy {entry.remedy.id}", partial(weigh, entry, context), None)
            if fit is None or (is_open and not fit.specific):
                continue  # where the finding names no cause, only a specific sign speaks for a remedy
            best[entry.remedy.id] = min(best.get(entry.remedy.id, fit), fit, key=_sort_key)
    return sorted(best.values(), key=_sort_key)


def _sort_key(fit: Fit) -> tuple[int, bool, bool, float, str]:
    """Remedies that are checked in full come first, those of a cause before those of a consequence."""
    strength = ("strong", "possible", "weak").index(fit.fit)
    remedy = fit.entry.remedy
    return strength, fit.met < len(fit.checks), remedy.consequence, -round(fit.score, 9), remedy.id


def _worth_showing(fits: list[Fit]) -> list[Fit]:
    """The fits to show: proven causes, causes with a specific sign, guesses met in full, fallbacks.

    Readers act on the first, so that is one that was checked in full, or a fallback: nothing is shown where there is neither.
    """
    fitting = [fit for fit in fits if fit.fit != "weak"]
    particular = [fit for fit in fitting if not fit.entry.remedy.general]
    fallbacks = [fit for fit in fitting if fit.entry.remedy.general]
    strong = [fit for fit in particular if fit.fit == "strong"]
    is_proven = any(fit.fit == "strong" for fit in fitting)
    possible = [fit for fit in particular if fit.fit == "possible"]
    guesses = [fit for fit in possible if not fit.specific and fit.met == len(fit.checks)]
    explained = {fit.finding.id for fit in strong}
    worth = [
        *strong,
        *(fit for fit in possible if fit.specific),
        *([] if is_proven else guesses[:GUESSES]),
        *(fit for fit in fallbacks if fit.finding.id not in explained),
    ]
    first = next((fit for fit in worth if fit.met == len(fit.checks) or fit.entry.remedy.general), None)
    return [first, *(fit for fit in worth if fit is not first)][:SHOWN] if first is not None else []


def _as_condition(answer: Answer) -> Condition:
    return Condition(answer.asked, answer.holds, answer.says, answer.where)


def _any_condition(answers: list[tuple[Answer, float]]) -> Condition:
    """The ``any`` block as one condition: the most telling that is met, else all that was asked."""
    met = max((pair for pair in answers if isinstance(pair[0], Met)), key=lambda pair: pair[1], default=None)
    if met is not None or len(answers) == 1:
        return _as_condition(met[0] if met is not None else answers[0][0])
    asked = "one of: " + "; ".join(dict.fromkeys(a.asked for a, _ in answers))
    open_ = [a.says for a, _ in answers if isinstance(a, NotCheckable)]
    says = "; ".join(dict.fromkeys(open_ or [a.says for a, _ in answers]))
    return Condition(asked, None if open_ else False, ("not in the input: " if open_ else "") + says)


def _steps_for(steps: Iterable[Step], context: Context) -> tuple[Step, ...]:
    """The steps that are for this finding and this job."""
    fitting = (step for step in steps if step.needs in (None, *context.survey.met_needs))
    return tuple(step for step in fitting if step.when is None or is_met(context, step.when))


def _step_lines(steps: Iterable[Step], context: Context, known: Mapping[str, str]) -> tuple[str, ...]:
    """The steps that are for this finding, as lines; an unknown process is found by its rank."""
    finding, survey = context.finding, context.survey
    inside = values_inside(known, finding, survey)
    lines = []
    for step in _steps_for(steps, context):
        if "{{ frame" in (step.text or "") and "frame_at" not in known:
            continue  # no stack shows the line that it is about
        values = inside if "{{ pid }}" in (step.command or "") or "container" in (step.where or "") else known
        if "{{ pid }}" in (step.command or "") and not known.get("pid") and finding.blamed:
            step = replace(step, command=on_spot(step.command or "", finding, survey, values))
        lines.append(step_line(step, values, in_words=True))
    return tuple(lines)


def _advice(fit: Fit, findings: tuple[Finding, ...], survey: Survey) -> RemedyAdvice:
    """A fit as reports show it; a title says whose the remedy is, because titles are shown everywhere.

    It says as well that a remedy is a guess, which rests on signs that many causes share.
    """
    remedy, known = fit.entry.remedy, placeholder_values(fit.finding, survey)
    context = Context(fit.finding, survey, findings)
    warned = [warn for warn in remedy.avoid if warn.needs in (None, *survey.met_needs)]
    whose = "" if fit.entry.origin == BUILT_IN_NAME else f" (remedy of {one_line(fit.entry.origin)})"
    whose += " (a guess)" if fit.checks and (not fit.specific or fit.is_hint) and not remedy.general else ""
    return RemedyAdvice(
        id=remedy.id,
        title=remedy.title + whose,
        finding=fit.finding.id,
        fit=fit.fit,
        conditions_met=fit.met,
        conditions=len(fit.checks),
        confirm=_step_lines(remedy.confirm, context, known),
        fix=_step_lines(remedy.fix, context, known),
        prevent=_step_lines(remedy.prevent, context, known),
        avoid=tuple(Avoid(fill_in_words(warn.what, known), fill_in_words(warn.why, known)) for warn in warned),
        sources=tuple(source.url for source in remedy.sources),
        summary=fill_in_words(remedy.summary, known),
        topic=fit.entry.topic,
        checks=fit.checks,
        origin=one_line(fit.entry.origin),
    )
