"""Whether an error or an exit is a rank's own end, or only follows from the trouble and its tear-down."""

from __future__ import annotations

import math

from nccldoctor.align.gloo import is_lost_connection
from nccldoctor.align.liveness import Liveness, RankActivity
from nccldoctor.events import (
    CollectiveTimeout,
    CudaError,
    Event,
    ExceptionRaised,
    ProcessExit,
    SchedulerEvent,
    TearDown,
)
from nccldoctor.identify.case import Case

SLACK = 5.0
"""Seconds by which a line may follow the first complaint and still be its cause: launchers print whole seconds, hosts differ."""

QUOTED = 8
"""Lines below an error of NCCL in which its last error stands, with lines of other processes between."""

FATAL = {
    -9: "SIGKILL",
    -11: "SIGSEGV",
    -7: "SIGBUS",
    -4: "SIGILL",
    -8: "SIGFPE",
    -31: "SIGSYS",
    -5: "SIGTRAP",
    -3: "SIGQUIT",
}
"""Signals that no tear-down of a watchdog sends; 128 + n means the same through a shell."""

ABORTS = frozenset({"terminate-called", "fatal-python-error", "watchdog-terminated"})
"""Tear-down lines with which a process ends itself."""


def can_precede_alarm(presence: Liveness, event: Event) -> bool:
    """Whether an event can precede the first complaint; true where either has no time."""
    when, alarm = presence.time(event), presence.first_alarm
    signs = presence.activity(event.rank) if event.rank is not None else None
    if math.isnan(when) and signs is not None:
        own = [e.place.line or 0 for e in (*signs.alarms, *signs.dump_replies) if e.place.source == event.place.source]
        if own and (event.place.line or 0) > min(own):
            return False
    if math.isnan(when) and alarm is not None and alarm.place.source == event.place.source:
        early = (event.place.line or 0) <= (alarm.place.line or 0)
        return early or _lost_peer(presence, alarm, event) or _quoted(alarm, event)
    return math.isnan(when) or math.isnan(presence.alarm) or when <= presence.alarm + SLACK


def _quoted(alarm: Event, event: Event) -> bool:
    """Whether the complaint is NCCL's about the very CUDA error, which stands below it as its last error."""
    below = (event.place.line or 0) - (alarm.place.line or 0)
    return isinstance(event, CudaError) and "unhandled cuda error" in alarm.text and 0 < below <= QUOTED


def _lost_peer(presence: Liveness, alarm: Event, event: Event) -> bool:
    """Whether the complaint is about a connection to a peer that was gone: in a merged file it may stand before the words of that peer."""
    return (
        is_lost_connection(alarm)
        and event.rank not in (None, alarm.rank)
        and not presence.activity(event.rank or 0).secondary_errors
    )


def has_aborted_after(case: Case, event: Event) -> bool:
    """Whether a process aborts further down in the same file and nobody gave up on a call: what was caught may have led to it."""
    return any(
        t.what in ABORTS and t.place.source == event.place.source and (t.place.line or 0) > (event.place.line or 0)
        for t in case.of(TearDown)
    ) and not any(case.of(CollectiveTimeout))


def is_fatal_cuda_error(presence: Liveness, event: CudaError) -> bool:
    """Whether a program's own fault ended its use of the device: every later call of the process fails too, so no step follows it."""
    step = presence.activity(event.rank).step_event if event.rank is not None else None
    return event.software and not (step is not None and _follows(presence, step, event))


def fatal_exceptions(presence: Liveness, signs: RankActivity) -> list[ExceptionRaised]:
    """Own exceptions after which the rank made no more steps; a library's warning with a traceback is not one."""
    later = [signs.step_event, *(p for p in signs.phases if p.what == "finished")]
    return [e for e in signs.own_exceptions if not any(one is not None and _follows(presence, one, e) for one in later)]


def _follows(presence: Liveness, step: Event, event: ExceptionRaised | CudaError) -> bool:
    """Whether a step of the rank, or its last word, came after the error: lines that are mixed up by a few seconds do not tell, but for
    what was caught, or what stands between lines of the rank whose times go on.
    """
    if step.place.source != event.place.source or (step.place.line or 0) <= (event.place.line or 0):
        return False
    caught = isinstance(event, ExceptionRaised) and event.logged
    when = presence.time(event)
    if math.isnan(when) and event.rank is not None:
        signs = presence.activity(event.rank)
        before = [e for e in (*signs.steps, *signs.phases) if (e.place.line or 0) < (event.place.line or 0)]
        return caught or presence.time(step) > max((presence.time(e) for e in before), default=math.nan)
    return caught or presence.time(step) > when + SLACK


def was_killed(event: ProcessExit) -> bool:
    """Whether a signal ended the process that no tear-down of a watchdog sends."""
    code = event.exitcode
    return (event.signal or "").upper() in FATAL.values() or code in FATAL or (code is not None and 128 - code in FATAL)


def is_own_exit(case: Case, presence: Liveness, signs: RankActivity, event: ProcessExit) -> bool:
    """Whether an exit is the rank's own end and not part of the tear-down."""
    code = event.exitcode
    if "Out Of Memory" in event.text:
        return True
    if code is None:
        named = (event.signal or "").upper()
        code = {name: number for number, name in FATAL.items()}.get(named)
        if code is None:
            return False
    if code > 128:
        code = 128 - code
    if event.was_closed or code == 0 or not can_precede_alarm(presence, event):
        return False
    if signs.own_exceptions or signs.alarms or signs.secondary_errors or _after_cancel(case, event):
        return False
    if code == -6:
        return not any(isinstance(t, TearDown) for t in signs.teardown) and signs.logged and math.isnan(presence.alarm)
    if code == -9 and _forced(case, event):
        return False
    if code in FATAL:
        return True
    return code > 0 and (event.first or math.isnan(presence.alarm)) and signs.dump != "good"


def _after_cancel(case: Case, event: ProcessExit) -> bool:
    """Whether Slurm had already cancelled the step when it reported this end."""
    return any(
        e.what == "cancelled" and e.place.source == event.place.source and (e.place.line or 0) < (event.place.line or 0)
        for e in case.of(SchedulerEvent)
    )


def _forced(case: Case, event: ProcessExit) -> bool:
    """Whether the launcher itself killed the process after its closing signal was not obeyed."""
    return any(t.what == "forced-kill" and t.pid in (None, event.pid) for t in case.of(TearDown)) and not event.first
