"""Decides whether the job still ran when the newest input was written.

Any recorded end of a process counts as the end of the job: what is left of it only waits to be torn down. So do the last words of all
ranks to capture: one alone may have left a job that hangs. A job that was slow and says
that its training is finished went on to that end; of a job that hangs, the same line only says when it began to.
"""

from __future__ import annotations

from datetime import timedelta

from nccldoctor.events import (
    CallTimeout,
    CaptureNotice,
    DumpNote,
    Event,
    ExceptionRaised,
    OutOfMemory,
    Phase,
    ProcessExit,
    ProcessState,
    RasStatus,
    SchedulerEvent,
    Stack,
    TearDown,
)
from nccldoctor.identify.case import Case
from nccldoctor.model import Family, Finding
from nccldoctor.model.steps import UNKNOWN_END, JobEnd, JobState
from nccldoctor.parsers.event_details import is_gloo_timeout


def job_end(case: Case, finding: Finding) -> JobEnd:
    """The recorded end of the job, else whether somebody looked at its processes while they ran; and when that was."""
    is_slow = finding.family is Family.SLOW and finding.stalled is None
    end = next(
        (e for e in case.events if is_end_of_job(e) or (is_slow and isinstance(e, Phase) and e.what == "finished")),
        None,
    )
    left = {event.rank: event for event in case.of(CaptureNotice) if event.last_words}
    if end is None and case.world and left.keys() >= case.world:
        end = next(iter(left.values()))
    shown = case.events.of_kind(DumpNote, ProcessState, RasStatus, Stack)  # what only a running process can show
    looks = [event for event in shown if not isinstance(event, DumpNote) or event.what == "on-request"]
    call = finding.stalled
    since = call.since if call is not None else None
    times = [event.time for event in looks if event.time is not None]
    fitting = [time for time in times if since is not None and (time.tzinfo is None) == (since.tzinfo is None)]
    seen = max(fitting, default=None)
    if end is not None:
        stop = next((event for event in case.events if event.is_stop_by_person), None)
        return JobEnd(JobState.ENDED, (stop or end).place, seen, by_person=stop is not None)
    if not looks or any(isinstance(event, CallTimeout) or is_gloo_timeout(event) for event in case.events):
        return UNKNOWN_END
    limit = call.timeout_ms if call is not None else None
    deadline = since + timedelta(milliseconds=limit) if since and limit and limit > 0 and since.year > 1900 else None
    return JobEnd(JobState.RUNNING, None, seen, deadline)


def is_end_of_job(event: Event) -> bool:
    """True of an exit, a watchdog's or launcher's tear-down, a scheduler's end, and an exception that nobody caught."""
    if isinstance(event, ProcessExit):
        return not event.is_heartbeat_loss
    if isinstance(event, TearDown):
        return event.what != "comm-aborted"
    if isinstance(event, ExceptionRaised):
        return event.is_stop_by_person or (event.is_uncaught and event.worker is None)
    if isinstance(event, ProcessState):
        return event.state in ("gone", "zombie")
    if isinstance(event, OutOfMemory):
        return event.scope == "host"
    return isinstance(event, SchedulerEvent)
