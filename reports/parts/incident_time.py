"""When an incident happened: its start, how long it lasted, and the timeout."""

from __future__ import annotations

from datetime import UTC, datetime

from nccldoctor.model import Diagnosis, EventRole, Family, Stalled
from nccldoctor.model.exhibits import LastLines
from nccldoctor.model.standings import RankWait, WaitStart, WaitTimes
from nccldoctor.words import times
from nccldoctor.words.sanitize import line

NO_YEAR_KNOWN = 2000
"""The year on the clock of a job of which nothing tells the year."""


def when(diagnosis: Diagnosis) -> str:
    """``2026-11-20 11:32:50 UTC for 11.8 s (timeout 8 s)``; "" for a job that is well, and without times."""
    if diagnosis.verdict.family is Family.NONE:
        return ""
    told = began_and_lasted(diagnosis)
    zone = zone_of_logs(diagnosis) if " UTC" in told else ""
    is_bare = ":" in told and " UTC" not in told
    note = f"the logs print {zone}" if zone else "the logs name no zone" if is_bare else ""
    return "; ".join(filter(None, (told, note, activity_before(diagnosis))))


def began_and_lasted(diagnosis: Diagnosis) -> str:
    """``since 2026-11-20 11:32:50 UTC for 11.8 s (timeout 8 s)``; "" without times."""
    call = diagnosis.verdict.stalled
    timeout = (call.timeout_ms if call is not None else limit_of_waits(diagnosis)) or 0
    limit = f"timeout {times.duration(timeout)}" if timeout > 0 else ""
    start = began(diagnosis)
    lasted = f" for {times.duration(span)}" if call is not None and (span := lasting(call)) is not None else ""
    return f"{start}{lasted} ({limit})" if start and limit else f"{start}{lasted}" or limit


def activity_before(diagnosis: Diagnosis) -> str:
    """The last work that was logged before the wait; "" for a step."""
    last = diagnosis.verdict.last_activity
    text = line(last.text, 90) if last is not None and not last.is_step else ""
    if last is None or not text:
        return ""
    return f'last activity {"in the log" if last.rank is None else f"of rank {last.rank}"}: "{text}"'


def zone_of_logs(diagnosis: Diagnosis) -> str:
    """The zone of times that the logs print without one: ``UTC-7``; "" for UTC, and where it is not known."""
    ahead = diagnosis.timeline.ahead if diagnosis.timeline is not None else 0.0
    return times.zone_name(ahead) if ahead else ""


def lasting(call: Stalled) -> float | None:
    """The milliseconds from the first arrival to the first timeout; None where a time is missing or the clocks differ."""
    since, until = call.since, call.until
    if since is None or until is None or (since.tzinfo is None) != (until.tzinfo is None) or until < since:
        return None
    return (until - since).total_seconds() * 1000


def began(diagnosis: Diagnosis) -> str:
    """``since 2026-11-20 11:32:50 UTC``, ``at`` the time of the cause, ``first error`` at some; "" where no time is known."""
    call, alarm = diagnosis.verdict.stalled, diagnosis.alarm
    if call is not None and call.since is not None:
        return f"since {times.instant(call.since)}"
    cause = next((row for row in diagnosis.story if row.cause and row.time is not None), None)
    if cause is not None and cause.time is not None:
        own = (row for row in diagnosis.story if row.role is EventRole.INITIATING and row.ranks == cause.ranks)
        zoned = [row.time for row in own if row.time is not None and row.time.tzinfo is not None]
        return f"at {times.instant(cause.time if cause.time.tzinfo is not None else min(zoned, default=cause.time))}"
    if call is None and (waiting := first_wait(diagnosis)) is not None:
        latest = " at the latest" if waiting.start is WaitStart.AT_LATEST else ""
        return f"since {clock_of(diagnosis, waiting)}{latest}"
    signs = (EventRole.INITIATING, EventRole.CASCADE)
    rows = [row for row in diagnosis.story if row.time is not None and row.role in signs]
    first = alarm.time if alarm is not None and alarm.time is not None else rows[0].time if rows else None
    if first is not None:
        return f"first error {times.instant(first)}"
    side = silent_log(diagnosis)
    if side is not None and side.gap_ms is not None and diagnosis.verdict.family is Family.ABSENT:
        since = f" since {times.instant(side.since)}" if side.since is not None else ""
        return f"rank {side.rank}'s log silent{since} for {times.duration(side.gap_ms)} until it was noticed"
    last = next((one.since for one in diagnosis.last_lines if one.rank in diagnosis.verdict.ranks and one.since), None)
    if last is not None and diagnosis.verdict.family is Family.ABSENT:
        return f"after {times.instant(last)}, its last line"
    end = next((row.time for row in diagnosis.story if row.role is EventRole.TEAR_DOWN and row.time is not None), None)
    return f"ended {times.instant(end)}" if end is not None else ""


def waits_of_victims(diagnosis: Diagnosis) -> tuple[RankWait, ...]:
    """What the victims of the verdict wait in, where no file numbers their call; empty where one does."""
    finding = diagnosis.verdict
    if finding.stalled is not None or finding.family is not Family.ABSENT:
        return ()
    return tuple(state.wait for state in diagnosis.ranks if state.wait is not None and state.rank in finding.victims)


def first_wait(diagnosis: Diagnosis) -> WaitTimes | None:
    """The earliest of these waits; one that began *at the latest* then counts only where no other start is known."""
    known = [wait.times for wait in waits_of_victims(diagnosis) if wait.times.since is not None]
    return min(known, key=lambda one: (one.start is WaitStart.AT_LATEST, one.since), default=None)


def limit_of_waits(diagnosis: Diagnosis) -> int | None:
    """The shortest timeout of these waits in milliseconds; None where no line names one."""
    return min((ms for wait in waits_of_victims(diagnosis) if (ms := wait.times.timeout_ms)), default=None)


def clock_of(diagnosis: Diagnosis, one: WaitTimes) -> str:
    """When a wait began: in UTC where what shows it names its zone, else as the lines print their times."""
    if one.since is None:
        return ""
    at = datetime.fromtimestamp(one.since, UTC)
    if one.is_zoned:
        return times.instant(at)
    ahead = diagnosis.timeline.ahead if diagnosis.timeline is not None else 0.0
    printed = datetime.fromtimestamp(one.since + ahead, UTC).replace(tzinfo=None)
    return times.instant(printed.replace(year=1900) if printed.year == NO_YEAR_KNOWN else printed)


def silent_log(diagnosis: Diagnosis) -> LastLines | None:
    """The last lines of a rank whose log ended in a silence of known length; None where there is none."""
    return next((side for side in diagnosis.last_lines if side.gap_ms is not None and not side.after), None)
