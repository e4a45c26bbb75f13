"""The words of all reports: names of classes and roles, counts, durations, the summary."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from nccldoctor.model import CauseClass, Confidence, Diagnosis, Family, Finding, Role, Stalled
from nccldoctor.model.evidence_sources import observers
from nccldoctor.model.findings import stalls_of
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts.sanitize import line


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


SUMMARY_WORDS = 60

EARLY = 0.9
"""Share of a limit after which it may have run out: clocks and watchdogs are not exact."""

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
"""What the tag of the report says for each class."""

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

SYMBOLS = {Role.CULPRIT: "●", Role.SUSPECT: "◐", Role.VICTIM: "○", Role.UNINVOLVED: "·", Role.UNKNOWN: "?"}
"""One for each role, so that colour is never alone."""

RESTARTS = {
    "now": "It may be restarted as it is.",
    "after-fix": "Restart after the fix: as it is, it will stop again.",
    "after-replacing-node": "Restart after the node has been replaced.",
    "unknown": "Whether a restart helps cannot be told.",
}
"""The sentence for each value of ``Action.restart``."""


def role_word(role: Role, cause: CauseClass) -> str:
    """What a rank's row calls it."""
    if role is Role.CULPRIT:
        return _AT_FAULT.get(cause, ("differs", "Differing"))[0]
    return {Role.SUSPECT: "suspect", Role.VICTIM: "waiting", Role.UNINVOLVED: "not involved"}.get(role, "not known")


def culprit_label(finding: Finding) -> str:
    """What the first fact is called: ``Lagging rank``, ``Suspects``, ``Rank at fault``."""
    if finding.ranks:
        kind = _AT_FAULT.get(finding.cause, ("differs", "Differing"))[1]
        return f"{kind} rank{'s' if len(finding.ranks) > 1 else ''}"
    return "Suspects" if finding.suspects else "Rank at fault"


def few(ranks: Ranks, spans: int = 8) -> str:
    """A rank set that stays short: ``0-3, 8-11 and 41 more``."""
    runs = ranks.spans()
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:spans])
    more = sum(b - a + 1 for a, b in runs[spans:])
    return f"{shown} and {more:,} more" if more else shown


def ranks_phrase(ranks: Ranks, spans: int = 8) -> str:
    """``rank 5``, ``ranks 0-3, 7``, ``no rank``."""
    return f"rank{'s' if len(ranks) > 1 else ''} {few(ranks, spans)}" if ranks else "no rank"


def call_name(op: str | None, seq: int | None) -> str:
    """``ALLREDUCE #18723``, as far as it is known."""
    name = line(op, 60) if op else "a call" if seq is None else "call"
    return name if seq is None else f"{name} #{seq}"


def stalled_name(call: Stalled) -> str:
    """The same of the stalled call; p2p counts on its own, and it says so."""
    return call_name(call.op, call.seq) + (" (p2p)" if call.kind == "p2p" else "")


def group_name(label: str) -> str:
    """A group as people say it: ``dp_1``, and ``group 3`` or ``group #3`` where it is a number alone."""
    name = line(label, 60)
    return f"group {name}" if name.removeprefix("#").isdigit() else name


def duration(ms: float) -> str:
    """``250 ms``, ``90 s``, ``10 min 02 s``, ``2 h 05 min``."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = round(ms / 1000)
    if seconds < 120:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    if seconds < 7200:
        return f"{seconds // 60} min" + (f" {seconds % 60:02d} s" if seconds % 60 else "")
    return f"{seconds // 3600} h" + (f" {seconds % 3600 // 60:02d} min" if seconds % 3600 // 60 else "")


def instant(time: datetime) -> str:
    """``2026-11-11 03:25:02 UTC``; without zone or year where the source names none."""
    zone = ""
    if time.tzinfo is not None:
        with suppress(OverflowError):  # a year at the edge of the calendar stays in the zone it was written in
            time, zone = time.astimezone(UTC).replace(tzinfo=None), " UTC"
    text = time.isoformat(" ", "seconds")
    return (text[5:] if time.year == 1900 else text) + zone


def plural(count: int, noun: str) -> str:
    """``1 file``, ``1,024 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Bytes as people say them, decimal: ``412 MB``."""
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    if units[0] == "bytes":
        return f"{count} bytes"
    return f"{value:.0f} {units[0]}" if value >= 99.95 else f"{value:.3g} {units[0]}"


def others(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """The findings that say more than the verdict; its own parts, one for each culprit of the same call, do not."""
    verdict = diagnosis.verdict
    if stalls_of(diagnosis.findings):
        return diagnosis.findings[1:]
    call = verdict.stalled and (verdict.stalled.group, verdict.stalled.kind, verdict.stalled.seq)

    def part(finding: Finding) -> bool:
        own = finding.stalled and (finding.stalled.group, finding.stalled.kind, finding.stalled.seq)
        return finding.cause is verdict.cause and bool(finding.ranks) and finding.ranks <= verdict.ranks and own == call

    return tuple(finding for finding in diagnosis.findings[1:] if not part(finding))


def summary(diagnosis: Diagnosis) -> str:
    """Two or three sentences, at most 60 words: the effect, who alarmed first, what is exonerated."""
    sentences = [s for s in (_effect(diagnosis), _first_alarm(diagnosis), _exonerated(diagnosis)) if s]
    out: list[str] = []
    for sentence in sentences:
        if len(" ".join([*out, sentence]).split()) <= SUMMARY_WORDS:
            out.append(sentence)
    return " ".join(out)


def _effect(diagnosis: Diagnosis) -> str:
    finding = diagnosis.verdict
    if finding.family is Family.NONE:
        files = "the file" if len(diagnosis.sources) == 1 else f"the {plural(len(diagnosis.sources), 'file')}"
        return f"Nothing in {files} read is a sign of a stall or a failure."
    if finding.family is Family.UNDETERMINED:
        return "What was read does not tell who is at fault." if diagnosis.ranks else ""
    call, waiting = finding.stalled, len(finding.victims)
    if call is None and finding.cause is CauseClass.INIT:
        return "No call can start before the group is up: its members wait in the set-up itself."
    if not waiting or call is None:
        return ""
    limit = f" until the limit of {duration(call.timeout_ms or 0)} was reached" if _ran_out(diagnosis, call) else ""
    behind = "" if finding.victims <= call.entered else ", or behind those who did,"
    return f"{plural(waiting, 'rank')} waited in {stalled_name(call)}{behind if limit else behind[:-1]}{limit}."


def _ran_out(diagnosis: Diagnosis, call: Stalled) -> bool:
    """Whether the wait lasted for its limit, as far as its times tell, else whether anybody complained: a job may be ended
    before, and a dump may be taken while it goes on.
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
    return ""


def _exonerated(diagnosis: Diagnosis) -> str:
    names = [line(c.text, 60).rstrip(".") for c in diagnosis.ruled_out if c.met is False]
    return f"Ruled out: {'; '.join(names[:3])}." if names else ""


def situation(diagnosis: Diagnosis) -> str:
    """What kind of incident it is, in a few words, where the class alone does not say; "" where it does."""
    finding, call = diagnosis.verdict, diagnosis.verdict.stalled
    if finding.family is Family.NONE:
        return "Clean run" if finding.confidence is not Confidence.LOW else "Nothing seen, not everything read"
    if finding.family is Family.UNDETERMINED and not diagnosis.ranks:
        return "Not enough data"
    if not finding.ranks and len(finding.suspects) > 1:
        least = "" if diagnosis.job.world_size is not None else "at least "
        return f"{least}{len(finding.suspects):,} suspects that cannot be told apart"
    parts = stalls_of(diagnosis.findings)
    if len(parts) > 1:
        return f"{len(parts)} independent stalls"
    if finding.cause in (CauseClass.DIED, CauseClass.RAISED):
        return "A crash, not a hang"
    if finding.cause in (CauseClass.OP_MISMATCH, CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH):
        return "Mismatch: the calls differ"
    if finding.family is Family.INSIDE and call is not None and call.entered and not call.missing:
        return (
            "Everybody is in the call" if diagnosis.job.world_size is not None else "Everybody heard of is in the call"
        )
    return ""
