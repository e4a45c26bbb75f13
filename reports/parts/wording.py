"""The words that all reports share: titles of classes, roles, confidence, and the summary."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from nccldoctor.model import CauseClass, Confidence, Diagnosis, Family, Finding, Job, RemedyAdvice, Role, Stalled
from nccldoctor.model.diagnosis import AlarmOrder
from nccldoctor.model.findings import stalls_of
from nccldoctor.model.inputs import NOT_NAMED
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.steps import JobState
from nccldoctor.reports.parts import incident_time
from nccldoctor.reports.parts.independent_sources import sources_words
from nccldoctor.words import lists, names, numbers, times
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import sentence


def arrived(diagnosis: Diagnosis, call: Stalled) -> str:
    """Writes how many ranks arrived in a call: ``3 of 4 ranks arrived``.

    Without the 4 where the group's size is unknown; "" where it has no known member, or nobody there is known to have arrived.
    """
    members, job = call.members, diagnosis.job
    if not members or not call.entered:
        return ""
    learned = next((group.learned for group in job.groups if group.label == call.group), "")
    is_open = learned == "assumed" and job.world_size is None
    if is_open and job.world_at_least > len(call.entered):
        return f"at least {len(call.entered):,} of {world(job)} arrived"
    is_whole_job = call.group in (None, NOT_NAMED) and len(members) == job.world_size
    if learned == "log" or (call.group in (None, NOT_NAMED) and not is_whole_job) or is_open:
        return f"{numbers.plural(len(call.entered), 'rank')} arrived (group size unknown)"
    guessed = job.world_guessed and len(members) == job.world_size
    noun = "known rank" if guessed else "rank"
    least = "at least " if call.unseen else ""
    of = f"of {numbers.plural(len(members), noun)}"
    if queued := _queued(diagnosis, call):
        return f"{len(call.entered - queued):,} {of} arrived, queued on {names.ranks_phrase(queued, 4)}, not started"
    if diagnosis.verdict.cause is CauseClass.ORDER_INVERSION and not members - call.entered:
        return f"{least}{len(call.entered):,} {of} issued it, in different orders"
    return f"{least}{len(call.entered):,} {of} arrived"


def _queued(diagnosis: Diagnosis, call: Stalled) -> Ranks:
    """Ranks that issued a call, and whose GPU stands in an earlier one: the call has not started there."""
    earlier = (
        row.ranks
        for row in diagnosis.standings
        if row.call is not None and call.seq is not None and row.call.seq is not None and row.call.seq < call.seq
    )
    behind = Ranks(rank for ranks in earlier for rank in ranks)
    return behind & call.entered if diagnosis.verdict.cause is CauseClass.DEVICE_STALLED else Ranks()


def world(job: Job) -> str:
    """The number of ranks of the job: ``8 ranks``, ``at least 16 ranks``, ``world size unknown``."""
    if job.world_size is not None:
        return numbers.plural(job.world_size, "rank")
    return f"at least {numbers.plural(job.world_at_least, 'rank')}" if job.world_at_least > 1 else "world size unknown"


def others_may_be(diagnosis: Diagnosis) -> str:
    """Added to suspects where the world size is unknown: a rank without any input may be the culprit."""
    finding = diagnosis.verdict
    is_open = finding.suspects and not finding.ranks and diagnosis.job.world_size is None
    return ", or a rank we have no logs from" if is_open else ""


def confidence_words(finding: Finding) -> str:
    """``high, 2 independent sources: peers' logs, kernel log``; with both confidences where they differ."""
    word = _LEVEL_WORDS.get(finding.confidence, finding.confidence.value)
    both = finding.confidence_in
    if finding.ranks and both.ranks is not both.cause:
        who, why = (_LEVEL_WORDS.get(level, level.value) for level in (both.ranks, both.cause))
        word = f"{word} ({who} for the rank{'s' if len(finding.ranks) > 1 else ''}, {why} for the cause)"
    return ", ".join(filter(None, (word, sources_words(finding))))


_LEVEL_WORDS = {Confidence.CANNOT_TELL: "not enough to judge"}


def runner_up_words(finding: Finding) -> str:
    """The best other explanation and what would separate it; "" where there is none."""
    other = finding.runner_up
    if other is None or other.cause is CauseClass.UNDETERMINED:
        return ""
    ranks = f", {names.ranks_phrase(other.ranks)}" if other.ranks and other.ranks != finding.ranks else ""
    return f"It could also be {CLASSES[other.cause].noun or other.cause.value}{ranks}. {sentence(other.separated_by)}"


EARLY = 0.9
"""Share of a timeout after which it counts as reached: clocks and watchdogs are not exact."""


class ClassWords(Struct, frozen=True):
    """What reports call a class, as ``classes.toml`` explains."""

    title: str
    noun: str = ""
    role: str = "different call"
    label: str = "Mismatched"


_ROWS = tomllib.loads(Path(__file__).with_name("classes.toml").read_text(encoding="utf-8"))
CLASSES = msgspec.convert(_ROWS, dict[CauseClass, ClassWords])
"""The words of each class."""

_UNMATCHED = {"SEND": "Send without a receive", "RECV": "Receive without a send"}


def title(finding: Finding) -> str:
    """The title of a finding's class; of an unmatched transfer by the end that waits."""
    if finding.cause is CauseClass.UNMATCHED_P2P and finding.stalled is not None:
        return _UNMATCHED.get(names.op_name(finding.stalled.op), CLASSES[finding.cause].title)
    return CLASSES[finding.cause].title


def role_word(role: Role, cause: CauseClass) -> str:
    """The role of a rank as its row names it: ``missing``, ``suspect``, ``waiting``."""
    return CLASSES[cause].role if role is Role.CULPRIT else role.value.replace("-", " ")


def culprit_label(finding: Finding) -> str:
    """The label of the first fact: ``Missing rank``, ``Suspects``, ``Rank at fault``."""
    if finding.ranks:
        return f"{CLASSES[finding.cause].label} rank{'s' if len(finding.ranks) > 1 else ''}"
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


def only_here(diagnosis: Diagnosis) -> str:
    """What a rank at fault alone printed before the wait: ``Only rank 5 printed "loss=nan".``"""
    found = next(iter(diagnosis.verdict.only_here), None)
    if found is None:
        return ""
    is_of_all = len(found.compared) >= (diagnosis.job.world_size or diagnosis.job.world_at_least)
    only = "Only" if is_of_all else f"Of {len(found.compared)} ranks, only"
    return f'{only} rank {found.rank} printed "{line(found.quote, 90)}".'


def summary(diagnosis: Diagnosis) -> str:
    """At most 60 words in two or three sentences: the effect, the first alarm, the hypotheses that are ruled out.

    What is ruled out only adds to another sentence: alone it says nothing of the incident.
    """
    told = [part for part in (only_here(diagnosis), _effect(diagnosis), _first_alarm(diagnosis)) if part]
    text = ""
    causes = [line(c.text, 60).rstrip(".") for c in diagnosis.ruled_out if c.met is False]
    for part in (*told, (f"Ruled out: {lists.and_list(causes[:3])}." if causes else "") if told else ""):
        longer = f"{text} {part}".strip()
        text = longer if len(longer.split()) <= 60 else text
    return text


def waiting_ranks(diagnosis: Diagnosis) -> Ranks:
    """The victims of all findings, and the ranks that the pictures draw as waiting. Suspects that are in the call wait, too."""
    drawn = {rank for row in diagnosis.standings if row.distance for rank in row.ranks}
    named = {rank for finding in diagnosis.findings for rank in finding.victims}
    inside = diagnosis.verdict.stalled.entered if diagnosis.verdict.stalled is not None else Ranks()
    at_fault = diagnosis.verdict.ranks | (diagnosis.verdict.suspects - inside)
    return Ranks(drawn | named) - at_fault if diagnosis.verdict.family is not Family.NONE else Ranks()


def _effect(diagnosis: Diagnosis) -> str:
    finding = diagnosis.verdict
    if finding.family is Family.NONE:
        return f"{numbers.plural(len(diagnosis.sources), 'file')} checked; no sign of a hang or crash."
    if finding.family is Family.UNDETERMINED:
        return "These files don't show which rank is at fault." if diagnosis.ranks else ""
    is_one_stall = len(stalls_of(diagnosis.findings)) < 2
    call, waiting = finding.stalled, waiting_ranks(diagnosis) if is_one_stall else finding.victims
    if call is None and finding.cause is CauseClass.INIT:
        return "Every member of the group is blocked in init." if waiting or finding.ranks else ""
    if not waiting or call is None:
        return ""
    rows = [row.call for row in diagnosis.standings if row.ranks & waiting and row.call is not None]
    is_one = all((row.op, row.seq) == (call.op, call.seq) for row in rows)
    where = "in" if waiting <= call.entered and is_one else "in or behind"
    limit = times.duration(call.timeout_ms or 0)
    until = f", and the first timed out after {limit}" if _has_reached_limit(diagnosis, call) else ""
    is_running = diagnosis.job_end.state is JobState.RUNNING
    were = names.verb(waiting, "is", "are") if is_running else names.verb(waiting, "was", "were")
    return f"{numbers.plural(len(waiting), 'rank')} {were} blocked {where} {stalled_name(call)}{until}."


def _has_reached_limit(diagnosis: Diagnosis, call: Stalled) -> bool:
    """True when the wait lasted for its timeout; where its times are not known, when any rank complained.

    A job may be stopped before its timeout, and a dump may be taken while the job still waits.
    """
    if call.timeout_ms is None or call.timeout_ms <= 0:
        return False
    lasted = incident_time.lasting(call)
    return diagnosis.alarm is not None if lasted is None else lasted >= EARLY * call.timeout_ms


def _first_alarm(diagnosis: Diagnosis) -> str:
    """Who logged the first error, as far as the times of all errors show it."""
    alarm, finding = diagnosis.alarm, diagnosis.verdict
    if alarm is None or alarm.rank is None or alarm.order is AlarmOrder.UNKNOWN or alarm.rank in finding.suspects:
        return ""
    logged = "logged the first error" if alarm.order is AlarmOrder.FIRST else "was among the first to log an error"
    if alarm.rank in finding.ranks:
        itself = " itself" if alarm.order is AlarmOrder.FIRST else ""
        return f"Rank {alarm.rank}{itself} {logged}."
    is_victim = alarm.rank in finding.victims and bool(finding.ranks)
    but = ", but it's a victim" if is_victim else ""
    return f"Rank {alarm.rank} {logged}{but}."


def situation(diagnosis: Diagnosis) -> str:
    """The kind of incident, such as ``A crash, not a hang``; "" where the class says enough."""
    finding, call = diagnosis.verdict, diagnosis.verdict.stalled
    if finding.family is Family.NONE:
        if diagnosis.job_end.by_person:
            return "Stopped by a person"
        return "Clean run" if finding.confidence is not Confidence.LOW else "No problem found, but not fully proved"
    if finding.family is Family.UNDETERMINED and not diagnosis.ranks:
        return "Not enough data"
    if not finding.ranks and len(finding.suspects) > 1:
        least = "" if diagnosis.job.world_size is not None else "at least "
        return f"{least}{len(finding.suspects):,} suspects"
    parts = stalls_of(diagnosis.findings)
    if len(parts) > 1:
        return f"{len(parts)} independent hangs"
    if finding.cause in (CauseClass.DIED, CauseClass.RAISED):
        return "A crash, not a hang"
    is_whole = call is not None and call.entered and not call.missing | call.unseen
    if finding.family is Family.INSIDE and call is not None and is_whole and not finding.suspects:
        if _queued(diagnosis, call):
            return ""
        return f"Every {'' if diagnosis.job.world_size is not None else 'known '}rank is in the call"
    return ""


def conditions_met(remedy: RemedyAdvice) -> str:
    """``2 of 3 conditions met``; a remedy that asks for nothing but the class says so."""
    if not remedy.conditions:
        return "matches the class"
    return f"{remedy.conditions_met} of {remedy.conditions} conditions met"
