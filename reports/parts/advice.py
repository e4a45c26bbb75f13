"""What to do, for all reports: the first steps, the remedies in order, and what not to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nccldoctor.model import Avoid, Condition, Confidence, Diagnosis, Family, Finding, RemedyAdvice
from nccldoctor.reports.parts import missing_inputs, wording
from nccldoctor.reports.parts.sanitize import line

OPEN = 5
"""Remedies shown in full; the others fold away."""

REMEDIES = 12
AVOIDED = 8
HOSTS = 8
SETTINGS = 4
"""Settings for the next run in the first steps; all of them stand under *capture this next time*, with what each shows."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do now; ``label`` is Missing, Confirm, Do, Look for, Hand over, Capture, Restart; ``text`` is CommonMark."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    """A condition of a remedy: ``word`` is met, not met or not checkable."""

    word: str
    text: str
    says: str
    where: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A source of a remedy; ``url`` is empty where it is no web address."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy as reports show it; the texts are CommonMark."""

    id: str
    title: str
    summary: str
    topic: str
    fit: str
    met: str
    checks: tuple[Check, ...]
    confirm: tuple[str, ...]
    fix: tuple[str, ...]
    prevent: tuple[str, ...]
    references: tuple[Reference, ...]
    finding: str


@dataclass(frozen=True, slots=True)
class Dont:
    """Advice against something, with the place where it was seen in the input."""

    what: str
    why: str
    where: str


def first_steps(diagnosis: Diagnosis) -> tuple[Step, ...]:
    """What to get first, one thing to confirm, one to do, one to hand over, and whether to restart; never empty."""
    finding, action = diagnosis.verdict, diagnosis.action
    steps = [
        Step("Missing", _closed(f"{as_text(item.what)}, from {item.where}"))
        for item in missing_inputs.wanted(diagnosis)
    ]
    best = next((r for r in diagnosis.remedies if r.fit != "weak"), None)
    if best is not None:
        steps += [Step("Confirm", text) for text in best.confirm[:1]]
        steps += [Step("Do", text) for text in best.fix[:1]]
    elif finding.refuted_by and (_unread(finding) or not (steps or finding.family is Family.NONE)):
        steps.insert(0, Step("Look for", as_text(finding.refuted_by)))
    if action.cordon:
        hosts = ", ".join(line(host, 80) for host in action.cordon[:HOSTS])
        more = f" and {len(action.cordon) - HOSTS} more" if len(action.cordon) > HOSTS else ""
        steps.append(Step("Hand over", as_text(f"Take {hosts}{more} out of service until checked.")))
    if finding.family is Family.UNDETERMINED and diagnosis.capture:
        bare = (text.partition("  #")[0] for text in diagnosis.capture[:SETTINGS])
        settings = "\n".join(line(text, 200).replace("`", "'") for text in bare)
        steps.append(Step("Capture", f"```\n{settings}\n```"))
    if finding.family is Family.NONE:
        steps.append(Step("Do", "Nothing, as far as this input tells."))
    else:
        restart = wording.RESTARTS.get(action.restart, wording.RESTARTS["unknown"])
        steps.append(Step("Restart", f"{restart} {_sentence(action.why)}".strip()))
    return tuple(steps)


def _unread(finding: Finding) -> bool:
    """Whether nothing wrong was found in what could be read: what could not be read comes first."""
    return finding.family is Family.NONE and finding.confidence is Confidence.LOW


def _sentence(text: str) -> str:
    shown = as_text(text)
    return _closed(shown)


def _closed(shown: str) -> str:
    return shown[:1].upper() + shown[1:] + ("" if not shown or shown.endswith((".", "!", "?", "…")) else ".")


def as_text(text: str) -> str:
    """Plain words as CommonMark that shows them unchanged."""
    return re.sub(r"([\\`*_])", r"\\\1", line(text, 400))


def remedies(diagnosis: Diagnosis) -> tuple[Remedy, ...]:
    """The remedies in their order, at most twelve."""
    return tuple(_remedy(item) for item in diagnosis.remedies[:REMEDIES])


def _remedy(item: RemedyAdvice) -> Remedy:
    return Remedy(
        id=line(item.id, 80),
        title=line(item.title, 160),
        summary=item.summary,
        topic=line(item.topic, 40),
        fit=line(item.fit, 20),
        met=f"{item.conditions_met} of {item.conditions}",
        checks=tuple(_check(condition) for condition in item.checks[: OPEN + OPEN]),
        confirm=item.confirm[:OPEN],
        fix=item.fix[:OPEN],
        prevent=item.prevent[:OPEN],
        references=tuple(_reference(text) for text in item.sources[:OPEN]),
        finding=item.finding,
    )


def _check(condition: Condition) -> Check:
    word = {True: "met", False: "not met", None: "not checkable"}[condition.met]
    return Check(word, line(condition.text, 200), line(condition.says, 240), line(condition.where or "", 200))


def _reference(text: str) -> Reference:
    found = re.search(r"https?://[^\s<>\"']{3,300}", text)
    return Reference(line(text, 200), found.group() if found else "")


def donts(diagnosis: Diagnosis) -> tuple[Dont, ...]:
    """What was seen in the input first, then the warnings of the best remedy, each once."""
    best: tuple[Avoid, ...] = diagnosis.remedies[0].avoid if diagnosis.remedies else ()
    chosen = {advice.what: advice for advice in (*reversed(best), *reversed(diagnosis.avoid))}
    ordered = [chosen[what] for what in dict.fromkeys(a.what for a in (*diagnosis.avoid, *best))]
    return tuple(Dont(a.what, a.why, line(a.where or "", 200)) for a in ordered[:AVOIDED])
