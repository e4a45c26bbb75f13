"""The words that all reports share: names of classes and roles, counts, durations, the summary."""

from __future__ import annotations

from nccldoctor.model import CauseClass, Confidence, Diagnosis, Family, Finding, Job, RemedyAdvice, Role, Stalled
from nccldoctor.model.evidence_sources import observers
from nccldoctor.model.findings import stalls_of
from nccldoctor.model.inputs import NOT_NAMED
from nccldoctor.words import names, numbers, times
from nccldoctor.words.sanitize import line


def arrived(diagnosis: Diagnosis, call: Stalled) -> str:
    """Writes how many ranks arrived in a call: ``3 of 4 ranks arrived``.

    Without the 4 where the group's size is unknown; "" where it has no known member.
    """
    members, job = call.members, diagnosis.job
    if not members:
        return ""
    learned = next((group.learned for group in job.groups if group.label == call.group), "")
    is_open = learned == "assumed" and job.world_size is None
    if is_open and job.world_at_least > len(call.entered):
        return f"{len(call.entered):,} of {world(job)} arrived"
    if learned == "log" or call.group == NOT_NAMED or is_open:
        return f"{numbers.plural(len(call.entered), 'rank')} arrived, of how many is not known"
    guessed = job.world_guessed and len(members) == job.world_size
    noun = "known rank" if guessed else "rank"
    seen = "are seen to have arrived" if call.unseen else "arrived"
    return f"{len(call.entered):,} of {numbers.plural(len(members), noun)} {seen}"


def world(job: Job) -> str:
    """The number of ranks of the job: ``8 ranks``, ``at least 16 ranks``, or that it is not known."""
    if job.world_size is not None:
        return numbers.plural(job.world_size, "rank")
    return f"at least {numbers.plural(job.world_at_least, 'rank')}" if job.world_at_least > 1 else "size not known"


def others_may_be(diagnosis: Diagnosis) -> str:
    """Added to suspects where the world size is unknown: a rank without any input may be the culprit."""
    finding = diagnosis.verdict
    is_open = finding.suspects and not finding.ranks and diagnosis.job.world_size is None
    return ", or one that was not heard of" if is_open else ""


def agreement(finding: Finding) -> tuple[int, int]:
    """The number of independent kinds of evidence that agree with a finding, and of those that contradict it.

    Watchdogs of ranks 0-6 that gave up on ALLREDUCE #18 are one kind; with the stack of rank 7 there are two.
    """

    def kinds(supports: bool) -> int:
        unnamed = any(e.supports is supports and not e.observer for e in finding.evidence)
        return len(observers(finding.evidence, finding.ranks, supports=supports)) + unnamed

    return kinds(True), kinds(False)


def confidence_words(finding: Finding) -> str:
    """``high — 3 independent kinds of evidence agree, 0 contradict``; the two confidences where they differ."""
    word = _LEVEL_WORDS.get(finding.confidence, finding.confidence.value)
    both = finding.confidence_in
    if both.ranks is not both.cause:
        who, why = (_LEVEL_WORDS.get(level, level.value) for level in (both.ranks, both.cause))
        word = f"{word} ({who} in the ranks, {why} in the class)"
    if finding.family in (Family.NONE, Family.UNDETERMINED):
        return word
    agree, contradict = agreement(finding)
    ranks = {e.observer.partition(":")[2] for e in finding.evidence if e.supports and e.observer}
    if not finding.ranks and agree == 1 and len(ranks) > 1:  # "all ranks are in the call" is said by these ranks
        signals = f"the records of {len(ranks)} ranks agree"
    else:
        signals = "1 kind of evidence agrees" if agree == 1 else f"{agree} independent kinds of evidence agree"
    return f"{word} — {signals}, {contradict:,} contradict{'s' if contradict == 1 else ''}"


_LEVEL_WORDS = {Confidence.CANNOT_TELL: "cannot tell"}


def doubts_words(finding: Finding, most: int = 3) -> str:
    """The strongest reasons why a finding is not surer, in one line; "" where there are none."""
    return "; ".join(doubt.says for doubt in finding.doubts[:most])


def runner_up_words(finding: Finding) -> str:
    """The best other explanation and what would separate it; "" where there is none."""
    other = finding.runner_up
    if other is None:
        return ""
    ranks = f", {names.ranks_phrase(other.ranks)}" if other.ranks and other.ranks != finding.ranks else ""
    return f"{other.cause.value}{ranks}; to separate the two: {other.separated_by}"


SUMMARY_WORDS = 60

EARLY = 0.9
"""Share of a timeout after which it counts as reached: clocks and watchdogs are not exact."""

TITLES = {
    CauseClass.NOT_ARRIVED: "Alive, but never arrived",
    CauseClass.FROZEN: "No sign of life, no exit",
    CauseClass.DIED: "Process died",
    CauseClass.RAISED: "Left through an exception",
    CauseClass.OP_MISMATCH: "Different operation in the same place",
    CauseClass.SIZE_MISMATCH: "Different size in the same call",
    CauseClass.DTYPE_MISMATCH: "Different data type in the same call",
    CauseClass.MISSED_CALL: "Skipped a call",
    CauseClass.EXTRA_CALL: "Issued one call too many",
    CauseClass.ORDER_INVERSION: "Groups called in another order",
    CauseClass.UNMATCHED_P2P: "Send without receive",
    CauseClass.DEVICE_STALLED: "GPU stopped, host went on",
    CauseClass.UNFINISHED: "All entered, nobody finished",
    CauseClass.NETWORK: "Transport errors",
    CauseClass.HARDWARE: "Device fault",
    CauseClass.INIT: "Group never came up",
    CauseClass.STRAGGLER: "Late, but alive",
    CauseClass.NONE: "Nothing wrong found",
    CauseClass.UNDETERMINED: "Cannot tell",
}
"""The tag of the report for each class."""

_AT_FAULT = {
    CauseClass.NOT_ARRIVED: ("lagging", "Lagging"),
    CauseClass.FROZEN: ("frozen", "Frozen"),
    CauseClass.DIED: ("died", "Dead"),
    CauseClass.RAISED: ("raised", "Failing"),
    CauseClass.MISSED_CALL: ("skipped", "Skipping"),
    CauseClass.EXTRA_CALL: ("ahead", "Differing"),
    CauseClass.DEVICE_STALLED: ("stopped", "Stalled"),
    CauseClass.NETWORK: ("link", "Affected"),
    CauseClass.HARDWARE: ("faulty", "Affected"),
    CauseClass.INIT: ("absent", "Absent"),
    CauseClass.STRAGGLER: ("slow", "Slow"),
}
"""The role of a culprit in its row, and how the first fact calls it, by class."""

_DIFFERS = ("differs", "Differing")

SYMBOLS = {Role.CULPRIT: "●", Role.SUSPECT: "◐", Role.VICTIM: "○", Role.UNINVOLVED: "·", Role.UNKNOWN: "?"}
"""A symbol for each role: colour alone tells nothing to some readers."""

RESTARTS = {
    "now": "It may be restarted as it is.",
    "after-fix": "Restart after the fix: as it is, it will stop again.",
    "after-replacing-node": "Restart after the node has been replaced.",
    "unknown": "Nothing shows whether a restart helps.",
}
"""The sentence for each value of ``Action.restart``."""


def role_word(role: Role, cause: CauseClass) -> str:
    """The role of a rank as its row names it: ``lagging``, ``suspect``, ``waiting``."""
    if role is Role.CULPRIT:
        return _AT_FAULT.get(cause, _DIFFERS)[0]
    return {Role.SUSPECT: "suspect", Role.VICTIM: "waiting", Role.UNINVOLVED: "not involved"}.get(role, "not known")


def culprit_label(finding: Finding) -> str:
    """The label of the first fact: ``Lagging rank``, ``Suspects``, ``Rank at fault``."""
    if finding.ranks:
        return f"{_AT_FAULT.get(finding.cause, _DIFFERS)[1]} rank{'s' if len(finding.ranks) > 1 else ''}"
    return "Suspects" if finding.suspects else "Rank at fault"


def stalled_name(call: Stalled) -> str:
    """``SEND #4 (p2p)`` for a transfer, whose numbers are not those of collectives; else as :func:`names.call_title`."""
    return names.call_title(call.op, call.seq) + (" (p2p)" if call.kind == "p2p" else "")


def others(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """The other findings, without those that repeat the verdict for one culprit in the same call."""
    verdict, others = diagnosis.verdict, diagnosis.findings[1:]
    if stalls_of(diagnosis.findings):
        return others
    return tuple(
        other
        for other in others
        if not (other.cause is verdict.cause and other.ranks and other.ranks <= verdict.ranks)
        or _call_key(other) != _call_key(verdict)
    )


def _call_key(finding: Finding) -> tuple[object, ...] | None:
    return (finding.stalled.group, finding.stalled.kind, finding.stalled.seq) if finding.stalled else None


def summary(diagnosis: Diagnosis) -> str:
    """At most 60 words in two or three sentences: the effect, the first alarm, the hypotheses that are ruled out."""
    text = ""
    for sentence in (_effect(diagnosis), _first_alarm(diagnosis), _ruled_out(diagnosis)):
        longer = f"{text} {sentence}".strip()
        text = longer if len(longer.split()) <= SUMMARY_WORDS else text
    return text


def _effect(diagnosis: Diagnosis) -> str:
    finding = diagnosis.verdict
    if finding.family is Family.NONE:
        files = "the file" if len(diagnosis.sources) == 1 else f"the {numbers.plural(len(diagnosis.sources), 'file')}"
        return f"Nothing in {files} read is a sign of a stall or a failure."
    if finding.family is Family.UNDETERMINED:
        return "No file shows which rank is at fault." if diagnosis.ranks else ""
    call, waiting = finding.stalled, len(finding.victims)
    if call is None and finding.cause is CauseClass.INIT:
        return "No call can start before the group is up: its members wait in the set-up itself."
    if not waiting or call is None:
        return ""
    limit = (
        f" until the limit of {times.duration(call.timeout_ms or 0)} was reached"
        if _has_reached_limit(diagnosis, call)
        else ""
    )
    behind = "" if finding.victims <= call.entered else ", or behind those who did,"
    return f"{numbers.plural(waiting, 'rank')} waited in {stalled_name(call)}{behind if limit else behind[:-1]}{limit}."


def _has_reached_limit(diagnosis: Diagnosis, call: Stalled) -> bool:
    """True when the wait lasted for its timeout; where its times are not known, when any rank complained.

    A job may be stopped before its timeout, and a dump may be taken while the job still waits.
    """
    if call.timeout_ms is None or call.timeout_ms <= 0:
        return False
    since, until = call.since, call.until
    if since is None or until is None or (since.tzinfo is None) != (until.tzinfo is None) or until < since:
        return diagnosis.alarm is not None
    return (until - since).total_seconds() * 1000 >= EARLY * call.timeout_ms


def _first_alarm(diagnosis: Diagnosis) -> str:
    alarm, finding = diagnosis.alarm, diagnosis.verdict
    if alarm is None or alarm.rank is None:
        return ""
    if alarm.rank in finding.ranks:
        return f"Rank {alarm.rank} itself raised the first alarm."
    if alarm.rank in finding.victims:
        return f"Rank {alarm.rank} raised the first alarm, but it only waits."
    return "" if alarm.rank in finding.suspects else f"Rank {alarm.rank} raised the first alarm."


def _ruled_out(diagnosis: Diagnosis) -> str:
    names = [line(c.text, 60).rstrip(".") for c in diagnosis.ruled_out if c.met is False]
    return f"Ruled out: {'; '.join(names[:3])}." if names else ""


def situation(diagnosis: Diagnosis) -> str:
    """The kind of incident, such as ``A crash, not a hang``; "" where the class says enough."""
    finding, call = diagnosis.verdict, diagnosis.verdict.stalled
    if finding.family is Family.NONE:
        return "Clean run" if finding.confidence is not Confidence.LOW else "Nothing seen, not everything read"
    if finding.family is Family.UNDETERMINED and not diagnosis.ranks:
        return "Not enough data"
    if not finding.ranks and len(finding.suspects) > 1:
        least = "" if diagnosis.job.world_size is not None else "at least "
        return f"{least}{len(finding.suspects):,} suspects; nothing read separates them"
    parts = stalls_of(diagnosis.findings)
    if len(parts) > 1:
        return f"{len(parts)} independent stalls"
    if finding.cause in (CauseClass.DIED, CauseClass.RAISED):
        return "A crash, not a hang"
    if finding.cause in (CauseClass.OP_MISMATCH, CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH):
        return "Mismatch: the calls differ"
    if finding.family is Family.INSIDE and call is not None and call.entered and not call.missing | call.unseen:
        return f"Everybody {'' if diagnosis.job.world_size is not None else 'heard of '}is in the call"
    return ""


def conditions_met(remedy: RemedyAdvice) -> str:
    """``2 of 3 conditions met``; a remedy that asks for nothing but the class says so."""
    if not remedy.conditions:
        return "by the class of the finding"
    return f"{remedy.conditions_met} of {remedy.conditions} conditions met"
