"""How surely a thing is said: agreement of the evidence, who arrived, and who else may be at fault."""

from __future__ import annotations

from nccldoctor.model import Confidence, Diagnosis, Family, Finding, Stalled
from nccldoctor.observers import observers
from nccldoctor.reports.wording import plural


def arrived(diagnosis: Diagnosis, call: Stalled) -> str:
    """``3 of 4 ranks arrived``, of how many only as surely as it is known; "" where nothing tells."""
    members, world = call.entered | call.missing, diagnosis.job.world_size
    if not members:
        return ""
    learned = next((group.learned for group in diagnosis.job.groups if group.label == call.group), "")
    if learned == "log" or (learned == "assumed" and world is None):
        return f"{plural(len(call.entered), 'rank')} arrived, of how many is not known"
    guessed = diagnosis.job.world_guessed and len(members) == world
    noun = "known rank" if guessed else "rank"
    return f"{len(call.entered):,} of {plural(len(members), noun)} arrived"


def others_may_be(diagnosis: Diagnosis) -> str:
    """What to add to suspects that are merely the ranks heard of; "" where they are all there can be."""
    finding = diagnosis.verdict
    open_ = finding.suspects and not finding.ranks and diagnosis.job.world_size is None
    return ", or one that was not heard of" if open_ else ""


def agreement(finding: Finding) -> tuple[int, int]:
    """How many independent kinds of evidence agree with a finding, and how many contradict it: ranks that say the same of
    one call are one kind.
    """
    sides = []
    for supports in (True, False):
        unnamed = any(e.supports is supports and not e.observer for e in finding.evidence)
        sides.append(len(observers(finding.evidence, finding.ranks, supports=supports)) + unnamed)
    return sides[0], sides[1]


def confidence(finding: Finding) -> str:
    """``high — 3 independent kinds of evidence agree, 0 contradict``."""
    word = "cannot tell" if finding.confidence is Confidence.CANNOT_TELL else finding.confidence.value
    if finding.family in (Family.NONE, Family.UNDETERMINED):
        return word
    agree, contradict = agreement(finding)
    ranks = {e.observer.partition(":")[2] for e in finding.evidence if e.supports and e.observer}
    if not finding.ranks and agree == 1 and len(ranks) > 1:  # who says that all are in a call are those who are in it
        signals = f"the records of {len(ranks)} ranks agree"
    else:
        signals = "1 kind of evidence agrees" if agree == 1 else f"{agree} independent kinds of evidence agree"
    return f"{word} — {signals}, {contradict:,} contradict{'s' if contradict == 1 else ''}"
