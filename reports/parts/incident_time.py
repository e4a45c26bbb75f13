"""When an incident happened: its start, how long it lasted, and the timeout."""

from __future__ import annotations

from nccldoctor.model import Diagnosis, EventRole, Family, IncidentEvent, Stalled
from nccldoctor.words import times


def when(diagnosis: Diagnosis) -> str:
    """``2026-11-20 11:32:50 UTC for 11.8 s (timeout 8 s)``; "" for a job that is well, and without times."""
    if diagnosis.verdict.family is Family.NONE:
        return ""
    call = diagnosis.verdict.stalled
    timeout = call.timeout_ms or 0 if call is not None else 0
    limit = f"timeout {times.duration(timeout)}" if timeout > 0 else ""
    began = _began(diagnosis)
    lasted = f" for {times.duration(span)}" if call is not None and (span := lasting(call)) is not None else ""
    return f"{began}{lasted} ({limit})" if began and limit else f"{began}{lasted}" or limit


def lasting(call: Stalled) -> float | None:
    """The milliseconds from the first arrival to the first timeout; None where a time is missing or the clocks differ."""
    since, until = call.since, call.until
    if since is None or until is None or (since.tzinfo is None) != (until.tzinfo is None) or until < since:
        return None
    return (until - since).total_seconds() * 1000


def _began(diagnosis: Diagnosis) -> str:
    call, alarm = diagnosis.verdict.stalled, diagnosis.alarm
    if call is not None and call.since is not None:
        return f"since {times.instant(call.since)}"
    cause = next((row for row in diagnosis.story if row.cause and row.time is not None), None)
    if cause is not None and cause.time is not None:
        return times.instant(cause.time)
    rows = [row for row in diagnosis.story if _is_early_sign(row)]
    first = alarm.time if alarm is not None and alarm.time is not None else rows[0].time if rows else None
    if first is not None:
        return f"first error {times.instant(first)}"
    end = next((row.time for row in diagnosis.story if row.role is EventRole.TEAR_DOWN and row.time is not None), None)
    return f"ended {times.instant(end)}" if end is not None else ""


def _is_early_sign(row: IncidentEvent) -> bool:
    return row.time is not None and row.role in (EventRole.INITIATING, EventRole.CASCADE)
