"""Tells a rank's own end from errors and exits that only follow from the tear-down.

Example: rank 3 is killed by SIGSEGV at 12:00:05 and its peers give up at 12:30:00: SIGSEGV is its own end. The SIGTERM that the
launcher then sends to ranks 0-2 is part of the tear-down.
"""

from __future__ import annotations

import math

from nccldoctor.align.liveness import Liveness, RankActivity
from nccldoctor.events import (
    CollectiveTimeout,
    CudaError,
    Event,
    ExceptionRaised,
    IbError,
    NcclWarn,
    Note,
    ProcessExit,
    SchedulerEvent,
    TearDown,
)
from nccldoctor.identify.case import Case
from nccldoctor.identify.launcher_tables import seconds
from nccldoctor.parsers.event_details import is_lost_connection, is_slurm_out_of_memory, is_unhandled_cuda_error
from nccldoctor.parsers.exit_codes import signal_of

SLACK = 5.0
"""Seconds by which a line may follow the first complaint and still be its cause: launchers print whole seconds, hosts differ."""

QUOTED = 8
"""Lines below an error of NCCL among which its last error stands, mixed with lines of other processes."""

FATAL = frozenset({"SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP", "SIGQUIT"})
"""Signals that no tear-down of a watchdog sends."""

ABORTS = frozenset({"terminate-called", "fatal-python-error", "watchdog-terminated"})
"""Tear-down lines with which a process ends itself."""


def task_failed_above(case: Case, stop: Event) -> ProcessExit | None:
    """The task that Slurm names as failed, further up in the file than a stop. Slurm then ends the other tasks of the step itself."""
    exits = (e for e in case.of(ProcessExit) if e.reporter == "srun" and not e.was_closed and e.exitcode != 0)
    return next((e for e in exits if stop.place.is_below(e.place)), None)


def can_precede_alarm(liveness: Liveness, event: Event) -> bool:
    """True unless times or line numbers show that an event followed the first complaint."""
    when, alarm = liveness.time(event), liveness.first_alarm
    if math.isnan(when) and event.rank is not None:
        activity = liveness.activity(event.rank)
        if any(event.place.is_below(e.place) for e in (*activity.alarms, *activity.dump_replies)):
            return False
    if isinstance(event, ProcessExit) and event.reporter == "process" and liveness.is_after_alarm(event):
        return False  # the process speaks itself, below the alarm of a rank
    if math.isnan(when) and alarm is not None and alarm.place.source == event.place.source:
        below = (event.place.line or 0) - (alarm.place.line or 0)
        # NCCL prints the CUDA error that it complains of below, as its last error
        is_quoted = isinstance(event, CudaError) and is_unhandled_cuda_error(alarm.text) and below <= QUOTED
        # in a merged file the complaint of rank 0 about a lost peer may stand before the last words of rank 3
        is_of_other = event.rank not in (None, alarm.rank) and not liveness.activity(event.rank or 0).secondary_errors
        return below <= 0 or is_quoted or (is_of_other and is_lost_connection(alarm))
    if math.isnan(when):
        return not liveness.is_after_alarm(event)  # dated lines of its own file stand above it
    return math.isnan(liveness.alarm) or when <= liveness.alarm + SLACK


def has_aborted_after(case: Case, event: Event) -> bool:
    """True when a process aborts further down, and no rank gave up on a call. An exception that was caught may lead to it."""
    aborts = (t.place for t in case.of(TearDown) if t.what in ABORTS)
    return any(at.is_below(event.place) for at in aborts) and not any(case.of(CollectiveTimeout))


def has_ended_badly(activity: RankActivity) -> bool:
    """True when a rank is seen to end, other than well: an exception that it caught may be the reason."""
    return any(e.exitcode != 0 for e in activity.exits) or bool(activity.teardown)


def is_fatal_cuda_error(liveness: Liveness, event: CudaError) -> bool:
    """True when a program's own CUDA error ended its use of the device: no training step follows it.

    Every later CUDA call of the process fails too. What CUDA refuses while NCCL connects GPUs is no error of the program.
    """
    step = liveness.activity(event.rank).step_event if event.rank is not None else None
    return event.software and not event.topic and not (step is not None and _was_followed_by(liveness, step, event))


def has_gone_on_after(liveness: Liveness, event: Event) -> bool:
    """True when the rank of an event went on stepping: whatever it told of is moot.

    One step below an event without a time may have been printed late, two are not.
    """
    steps = liveness.activity(event.rank).steps if event.rank is not None else ()
    least = 2 if math.isnan(liveness.time(event)) else 1
    return len(steps) >= least and all(_was_followed_by(liveness, step, event) for step in steps[-least:])


def last_trouble(case: Case, liveness: Liveness, rank: int) -> Event | None:
    """The last warning or error of a rank; None where it went on stepping, or gave up on a call."""
    is_waiting = bool(liveness.activity(rank).alarms)
    own = (e for e in case.events if e.rank == rank and e.is_sign_of_life and not is_waiting)
    told = (e for e in own if e.is_trouble or isinstance(e, NcclWarn))
    last = max(told, key=lambda e: (e.place.source, e.place.line or 0), default=None)
    return None if last is None or has_gone_on_after(liveness, last) else last


def fatal_exceptions(liveness: Liveness, activity: RankActivity) -> list[ExceptionRaised]:
    """Own exceptions after which the rank made no more steps; a library's warning with a traceback is none."""
    later = [activity.step_event, *(p for p in activity.phases if p.what == "finished")]
    signs = [last for last in later if last is not None]
    return [e for e in activity.own_exceptions if not any(_was_followed_by(liveness, last, e) for last in signs)]


def _was_followed_by(liveness: Liveness, step: Event, event: Event) -> bool:
    """True when a step of the rank, or its last word, came after the error.

    Lines of one file may be mixed up by a few seconds, so that the step must be later by :data:`SLACK`. For an exception that was
    caught the order of lines is enough; an error without a time is placed by the timed lines of the rank before it, one of the start by the
    first of them.
    """
    if not step.place.is_below(event.place):
        return False
    caught = isinstance(event, ExceptionRaised) and event.logged
    when = liveness.time(event)
    if math.isnan(when) and event.rank is not None:
        activity = liveness.activity(event.rank)
        work = (*activity.steps, *activity.phases)
        before = [liveness.time(e) for e in work if (e.place.line or 0) < (event.place.line or 0)]
        return caught or liveness.time(step) > max(before, default=min(map(liveness.time, work), default=math.nan))
    return caught or liveness.time(step) > when + SLACK


def was_killed(event: ProcessExit) -> bool:
    """True when a signal ended the process that no launcher sends to siblings. An abort may be that of a watchdog."""
    return event.exitcode == -6 or ending_signal(event) in FATAL


def ending_signal(event: ProcessExit) -> str | None:
    """The signal that ended a process, by its record or its exit code."""
    return event.signal.upper() if event.signal else signal_of(event.exitcode or 0)


def is_own_exit(case: Case, liveness: Liveness, activity: RankActivity, event: ProcessExit) -> bool:
    """True when an exit is the rank's own end and not part of the tear-down."""
    code, signal = event.exitcode, ending_signal(event)
    if is_slurm_out_of_memory(event.text):
        return True
    is_unsaid = code is None and signal not in FATAL
    if is_unsaid or event.was_closed or code == 0 or not can_precede_alarm(liveness, event):
        return False
    has_reacted = activity.alarms or activity.dump_replies or activity.secondary_errors  # so that it ended afterwards
    # Slurm had cancelled the step before; so it is where a shell reports the end of an engine that closed itself
    told = [e.place for e in case.of(SchedulerEvent) if e.what == "cancelled"]
    told += [e.place for e in case.of(Note) if e.what == "engine-closes" and event.reporter == "shell"]
    if activity.own_exceptions or has_reacted or any(map(event.place.is_below, told)):
        return False
    if signal == "SIGABRT":
        ended = activity.teardown or any(case.of(IbError, event.rank))  # UCX aborts where the adapter reports an error
        silent = not ended and activity.logged and liveness.first_alarm is None
        explained = any(e.reporter == "process" and e.signal == "SIGABRT" for e in case.of(ProcessExit, event.rank))
        is_first = event.first and (explained or _has_only_lost_connections(case))
        return silent or event.reporter == "process" or is_first
    if signal in FATAL:
        alike = (
            e for e in case.of(ProcessExit) if (e.reporter, e.place.source) == (event.reporter, event.place.source)
        )
        # nothing shows which of several ends came first
        is_one_of_many = event.can_be_launchers_kill and any((e.rank, e.pid) != (event.rank, event.pid) for e in alike)
        is_echo = was_forced(case, event) or is_one_of_many or _is_end_of_job(case, liveness, event)
        return signal != "SIGKILL" or not is_echo
    return 0 < (code or 0) <= 128 and (event.first or math.isnan(liveness.alarm)) and activity.dump != "good"


def _has_only_lost_connections(case: Case) -> bool:
    """True where ranks complain of nothing but a lost peer: the abort seen first was no watchdog's.

    Example: rank 3 leaves its loop by ``sys.exit(0)`` and aborts as its threads still run; ranks 0 and 2 lose the connection to it.
    """
    complaints = (e for e in case.events if e.is_complaint)  # a launcher's exception follows from what it lists
    own = [e for e in complaints if not (isinstance(e, ExceptionRaised) and e.rank is None and e.origin == "echo")]
    return bool(own) and all(map(is_lost_connection, own))


def _is_end_of_job(case: Case, liveness: Liveness, event: ProcessExit) -> bool:
    """True when most ranks of the job got this signal at one time, as their sidecars report. A launcher or a person ended the job."""
    told = (e for e in case.of(ProcessExit) if e.reporter == event.reporter == "sidecar")
    near = (e for e in told if abs(liveness.time(e) - liveness.time(event)) <= SLACK)
    together = {e.rank for e in near if e.signal == event.signal or e.exitcode is None}
    return len(together) > 1 and 2 * len(together) > len(case.world)


def was_forced(case: Case, event: ProcessExit) -> bool:
    """True of a SIGKILL with which the launcher ended a process that had ignored the closing signal."""
    is_later_kill = not event.first and (event.exitcode in (-9, 137) or event.signal == "SIGKILL")
    is_told = any(t.what == "forced-kill" and t.pid in (None, event.pid) for t in case.of(TearDown))
    return is_later_kill and (is_told or _is_dated_as_closed(case, event))


def _is_dated_as_closed(case: Case, event: ProcessExit) -> bool:
    """True of an end later than the first failure, when its launcher had closed others.

    Its table dates them. Torchrun waits for 30 s after the closing signal: rank 1 exits with 1 at 13:02:58, rank 2 ends by SIGTERM then
    or at 13:03:29, and rank 0 by SIGKILL at 13:03:29.
    """
    if event.time is None:
        return False
    table, second = case.launcher_of(event), seconds(event.time)
    return second - table.first > SLACK and table.closed <= second + SLACK
