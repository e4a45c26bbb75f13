"""Advice of all reports: the first steps, and warnings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nccldoctor.model import Avoid, Confidence, Diagnosis, Family, Finding
from nccldoctor.reports.parts import missing_inputs, prose, wording
from nccldoctor.words.sanitize import line

OPEN = 5
"""Remedies shown in full (the others fold away), and texts of each kind in one of them."""

AVOIDED = 8
HOSTS = 8
SETTINGS = 4
"""Settings for the next run among the first steps; *capture this next time* lists all of them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do now.

    ``label`` is Missing, Confirm, Do, Look for, Hand over, Capture or Restart; ``text`` is CommonMark.
    """

    label: str
    text: str


def first_steps(diagnosis: Diagnosis) -> tuple[Step, ...]:
    """Missing input first, then one thing to confirm, one to do, one to hand over, and the restart; never empty."""
    finding, action = diagnosis.verdict, diagnosis.action
    steps = [
        Step("Missing", prose.full_sentence(f"{as_text(item.what)}, from {item.where}"))
        for item in missing_inputs.wanted(diagnosis)
    ]
    best = next((r for r in diagnosis.remedies if r.fit != "weak"), None)
    if best is not None:
        steps += [Step("Confirm", text) for text in best.confirm[:1]]
        steps += [Step("Do", text) for text in best.fix[:1]]
    elif finding.refuted_by and (_was_little_read(finding) or not (steps or finding.family is Family.NONE)):
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
        steps.append(Step("Restart", f"{restart} {prose.full_sentence(as_text(action.why))}".strip()))
    return tuple(steps)


def _was_little_read(finding: Finding) -> bool:
    """True when nothing wrong was found, but most of the job was not read: reading the rest comes first."""
    return finding.family is Family.NONE and finding.confidence is Confidence.LOW


def as_text(text: str) -> str:
    """Plain words as CommonMark that shows them unchanged."""
    return re.sub(r"([\\`*_])", r"\\\1", line(text, 400))


def donts(diagnosis: Diagnosis) -> tuple[Avoid, ...]:
    """Advice against what was seen in the input, then that of the best remedy, each once."""
    best: tuple[Avoid, ...] = diagnosis.remedies[0].avoid if diagnosis.remedies else ()
    chosen = {advice.what: advice for advice in (*reversed(best), *reversed(diagnosis.avoid))}
    return tuple(chosen[what] for what in dict.fromkeys(a.what for a in (*diagnosis.avoid, *best)))[:AVOIDED]
