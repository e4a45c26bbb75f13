"""Collects what each rank left behind, and when the trouble began.

Absence is evidence only against what the others left. Where ranks 0-6 dumped, the missing dump of rank 7 says something; where no
dump was collected, it says nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from nccldoctor.align.stack_activity import is_waiting, split_frame
from nccldoctor.events import (
    AbortStuck,
    CallTimeout,
    CollectiveTimeout,
    DumpNote,
    DumpSignal,
    Event,
    Events,
    ExceptionRaised,
    Heartbeat,
    NcclError,
    Phase,
    ProcessExit,
    ProcessState,
    Progress,
    Stack,
    StoreError,
    TearDown,
)
from nccldoctor.identify.case import Case
from nccldoctor.model import SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import is_gloo_timeout, is_lost_connection


class RankActivity(Struct, frozen=True):
    """Everything that one rank left behind.

    ``dump`` is ``good`` (entries or counters), ``empty`` (written while the recorder was off) or ``none``. ``logged`` is true when the
    rank wrote any line or file; a stack is the word of a tool. ``alarms`` are its complaints about calls, ``dump_replies`` its answers
    to the dump signal, ``own_exceptions`` what its own work raised, ``secondary_errors`` what followed from the trouble of others, and
    ``exits`` what launchers report of its end. Its ``stacks`` begin with those of the newest look. ``states`` are those of its process
    when it was last looked at. ``steps`` are its lines about training steps and ``step`` is the newest step number. ``last_event`` is
    its newest line; of two copies of one line, that in a file of its own. ``last`` is the time of its last line in seconds on the
    job's clock (NaN: no line has a time), ``printed`` that of its last line that is no stack: a tool takes those long after the rank has
    gone silent.
    """

    rank: int
    dump: str = "none"
    logged: bool = False
    alarms: tuple[Event, ...] = ()
    dump_replies: tuple[Event, ...] = ()
    own_exceptions: tuple[ExceptionRaised, ...] = ()
    secondary_errors: tuple[Event, ...] = ()
    exits: tuple[ProcessExit, ...] = ()
    stacks: tuple[Stack, ...] = ()
    states: tuple[ProcessState, ...] = ()
    phases: tuple[Phase, ...] = ()
    teardown: tuple[TearDown, ...] = ()
    steps: tuple[Heartbeat | Progress, ...] = ()
    step: int | None = None
    step_event: Heartbeat | Progress | None = None
    last_event: Event | None = None
    last: float = math.nan
    printed: float = math.nan

    @property
    def stopped(self) -> ProcessState | None:
        """The state of its process, where a signal had stopped it."""
        return next((state for state in self.states if state.state == "stopped"), None)

    @property
    def reported_steps(self) -> list[int]:
        """The steps that it reports, in order, each once."""
        return sorted({line.step for line in self.steps if line.step is not None})

    def has_reached(self, step: int | None) -> bool:
        """True when it may have done a step that another rank reported, by its own reports.

        Example: rank 0 ended at step 13; rank 1, which reports every tenth step, reported step 10.
        """
        steps = self.reported_steps
        if step is None or not steps:
            return False
        interval = steps[-1] - steps[-2] if len(steps) > 1 else 1
        return 0 <= step - steps[-1] < interval

    @property
    def is_alive(self) -> bool:
        """True when it answered while others complained: by a dump, a reply, an alarm of its own or a stack."""
        return self.dump != "none" or bool(self.dump_replies or self.alarms or self.stack_of_life)

    @property
    def stack_of_life(self) -> Stack | None:
        """A stack of a process that ran, the main thread's first. Tools read the memory of a stopped one as well."""
        return min(self.stacks, key=lambda s: not s.main, default=None) if self.stopped is None else None

    @property
    def has_finished(self) -> bool:
        """True when its last phase is *finished*, or its process ended with exit code 0."""
        return any(p.what == "finished" for p in self.phases[-1:]) or any(e.exitcode == 0 for e in self.exits)

    @property
    def has_finished_cleanly(self) -> bool:
        """True when it finished, complained of nothing, and no stack shows it waiting."""
        troubled = self.alarms or self.own_exceptions or any(e.exitcode for e in self.exits)
        return self.has_finished and not troubled and self.waiting_stack is None

    @property
    def waiting_stack(self) -> Stack | None:
        """The first main stack that waits for a peer, if one was taken."""
        return next((s for s in self.stacks if s.main and is_waiting(s.frames)), None)

    @property
    def busy_stack(self) -> Stack | None:
        """The first main stack, if one was taken and it is outside every collective."""
        main = next((s for s in self.stacks if s.main), None)
        return main if main is not None and not is_waiting(main.frames) else None

    @property
    def has_failed_on_gloo(self) -> bool:
        """True when a rank gave up on a gloo call, or lost a peer in it, without naming it."""
        return any(map(is_failed_wait, self.secondary_errors))

    @property
    def lingering_stack(self) -> Stack | None:
        """A stack that shows its process behind its own exception, where no exit is on record."""
        if self.exits or not self.own_exceptions:
            return None
        return next((stack for stack in self.stacks if is_behind_exception(stack, self.own_exceptions[0])), None)


def is_behind_exception(stack: Stack, raised: ExceptionRaised) -> bool:
    """True of a main thread that is in no collective and has left the function which raised the exception.

    A stack with that function, or with an earlier time, is from before the exception. Example: a KeyError left ``train_step``, and a
    minute later the main thread is in ``Thread.join``, called by ``shutdown``.
    """
    is_earlier = stack.time is not None and raised.time is not None and stack.time < raised.time
    if not stack.main or not stack.frames or not raised.frames or is_earlier or is_waiting(stack.frames):
        return False
    return _function_and_file(raised.frame or raised.frames[0]) not in map(_function_and_file, stack.frames)


def _function_and_file(frame: str) -> tuple[str, str]:
    """A function and the name of its file without folders, which py-spy shortens and Python does not."""
    function, file = split_frame(frame)
    return function, file.rpartition("/")[2]


class Liveness(Struct, frozen=True):
    """What all ranks left behind, and when the trouble began.

    ``alarm`` is when the first complaint was printed and ``began`` when the first call or abort that ran out was begun, in seconds on the
    job's clock (NaN: not known). ``first_alarm`` is that complaint. ``dumped`` ranks left a good dump, ``logged`` ranks wrote lines,
    and of ``log_read`` ranks a log was read, be it empty. ``exited`` ranks have an end that a launcher reported. ``per_rank_logs``: at
    least two ranks have a log file of their own.
    ``alarmed`` is the first line of each source that was written after the alarm.
    """

    by_rank: Mapping[int, RankActivity]
    alarm: float
    began: float
    first_alarm: Event | None
    dumped: Ranks
    logged: Ranks
    log_read: Ranks
    exited: Ranks
    per_rank_logs: bool
    when: Mapping[int, float] = {}
    alarmed: Mapping[int, int] = {}

    def activity(self, rank: int) -> RankActivity:
        """What a rank left behind; empty for a rank that left nothing."""
        known = self.by_rank.get(rank)
        return known if known is not None else RankActivity(rank)

    def time(self, event: Event) -> float:
        """When an event happened, in seconds on the job's clock; NaN where its line has no time."""
        return self.when.get(id(event), math.nan)

    def issued(self, event: CallTimeout) -> float:
        """When a call that timed out was issued: the time of its line less what it ran; else NaN."""
        return self.time(event) - (event.ran_ms or 0) / 1e3

    def is_after_alarm(self, event: Event) -> bool:
        """True when the event happened after the first complaint: by its time, else by its place in its file."""
        now = self.time(event)
        if not math.isnan(now):
            return now > self.alarm
        first = self.alarmed.get(event.place.source)
        return first is not None and event.place.line is not None and event.place.line > first


def collect_liveness(case: Case) -> Liveness:
    """Collect what every rank left behind."""
    when = {id(e): float(s) for e, s in zip(case.events, case.seconds, strict=True)}
    by_rank: dict[int, list[Event]] = defaultdict(list)
    for event in case.events:
        if event.rank is not None:
            by_rank[event.rank].append(event)
    logs = {s.id: s.rank for s in case.sources if s.rank is not None and s.kind is SourceKind.LOG and s.size > 0}
    own = _OwnLogs(frozenset(logs), frozenset(logs.values()))
    dumps: dict[int, str] = {}
    for rank, dump in zip(case.dump_rank, case.dumps, strict=True):
        if rank is not None and dumps.get(rank) != "good":
            is_good = dump.entries > 0 or any(s.enqueued > 0 for s in dump.status)
            dumps[rank] = "good" if is_good else "none" if dump.problem and not dump.is_empty else "empty"
    ranks = sorted({*by_rank, *dumps, *own.ranks})
    told = {rank: Events(events) for rank, events in by_rank.items()}
    nothing = Events()  # one for all ranks without a line: it is asked for a dozen kinds
    of = {r: _activity(r, told.get(r, nothing), dumps.get(r, "none"), own, when) for r in ranks}
    end = _end(case, of, when)
    alarms = [e for e in case.events if e.is_complaint and not (e.moot_after_end and when[id(e)] >= end)]
    timed = [(when[id(e)], i) for i, e in enumerate(alarms) if not math.isnan(when[id(e)])]
    first = alarms[min(timed)[1]] if timed else (alarms[0] if alarms else None)
    ran = (e for e in case.events.of_kind(AbortStuck, CollectiveTimeout) if not math.isnan(when[id(e)]))
    begins = [when[id(e)] - e.ran_ms / 1e3 for e in ran if e.ran_ms is not None]
    alarm = min(timed)[0] if timed else math.nan
    logged = Ranks(r for r, s in of.items() if s.logged)
    return Liveness(
        by_rank=of,
        alarm=alarm,
        began=min(begins, default=math.nan),
        first_alarm=first,
        dumped=Ranks(r for r, d in dumps.items() if d == "good"),
        logged=logged,
        log_read=logged | {s.rank for s in case.sources if s.kind is SourceKind.EMPTY and s.rank is not None},
        exited=Ranks(r for r, s in of.items() if s.exits),
        per_rank_logs=len(own.ranks) >= 2,
        when=when,
        alarmed=_lines_after(case, first, alarm, when),
    )


class _OwnLogs(Struct, frozen=True):
    """The logs that one rank wrote alone: their source ids, and the ranks that have one."""

    sources: frozenset[int]
    ranks: frozenset[int]


def first_lines(events: Iterable[Event]) -> dict[int, int]:
    """The first line of each source that holds one of these events."""
    lines: dict[int, int] = {}
    for event in events:
        line = event.place.line or 0
        lines[event.place.source] = min(line, lines.get(event.place.source, line))
    return lines


def _lines_after(case: Case, first: Event | None, alarm: float, when: Mapping[int, float]) -> dict[int, int]:
    """The first line of each source from the first complaint on: by time, or as an own alarm."""
    told = (e for e in case.events if e.place.line is not None)
    own = (CollectiveTimeout, DumpSignal)
    return first_lines(e for e in told if e is first or when[id(e)] >= alarm or isinstance(e, own))


def _end(case: Case, of: Mapping[int, RankActivity], when: Mapping[int, float]) -> float:
    """When the last rank finished; NaN where a rank did not finish, or no line says when."""
    if not case.world or not all(r in of and of[r].has_finished_cleanly for r in case.world):
        return math.nan
    last_words = [e for r in case.world for e in (*of[r].phases[-1:], *of[r].exits)]
    return max((when[id(e)] for e in last_words if not math.isnan(when[id(e)])), default=math.nan)


def is_failed_wait(event: Event) -> bool:
    """True of a wait on gloo that timed out, or lost its peer."""
    return is_gloo_timeout(event) or is_lost_connection(event)


def steps_among(events: Events) -> list[Heartbeat | Progress]:
    """The lines about training steps that say which step."""
    return [e for e in events.of_kind(Heartbeat, Progress) if e.is_step and e.step is not None]


def is_manual_dump(event: Event) -> bool:
    """True when the training script dumped on its own: that is no answer to the dump signal."""
    return isinstance(event, DumpNote) and event.what == "by-the-job"


def _activity(rank: int, events: Events, dump: str, own: _OwnLogs, when: Mapping[int, float]) -> RankActivity:
    """What a rank left behind."""
    written = [e for e in events if e.is_sign_of_life]
    times = [when[id(e)] for e in written if not math.isnan(when[id(e)])]
    printed = [when[id(e)] for e in written if not (isinstance(e, Stack) or math.isnan(when[id(e)]))]
    steps = steps_among(events)
    told = (
        e for e in events.of_kind(DumpSignal, DumpNote) if getattr(e, "what", "") not in ("by-the-job", "on-request")
    )
    errors = events.of_kind(ExceptionRaised, NcclError, StoreError)
    newest = max(steps, key=lambda e: e.step or 0, default=None)
    return RankActivity(
        rank=rank,
        dump=dump,
        logged=rank in own.ranks or any(not isinstance(e, Stack) for e in written),
        alarms=tuple(e for e in events if e.is_alarm),
        dump_replies=tuple(told),
        own_exceptions=tuple(e for e in events.of_kind(ExceptionRaised) if e.origin == "own"),
        secondary_errors=tuple(e for e in errors if not isinstance(e, ExceptionRaised) or e.origin == "echo"),
        exits=events.of_kind(ProcessExit),
        stacks=tuple(sorted(events.of_kind(Stack), key=lambda stack: -stack.look)),
        states=lasting_states(events.of_kind(ProcessState), when),
        phases=events.of_kind(Phase),
        teardown=events.of_kind(TearDown),
        steps=tuple(steps),
        step=newest.step if newest is not None else None,
        step_event=newest,
        last_event=_newest_line(written, own, when),
        last=max(times, default=math.nan),
        printed=max(printed, default=math.nan),
    )


def _newest_line(written: Sequence[Event], own: _OwnLogs, when: Mapping[int, float]) -> Event | None:
    """The newest line of a rank, among the last ones of all files that it wrote to.

    It is that of the last file where one of the files tells no time. A line without a time is as new as the last line above it that has
    one.
    """
    ends = {event.place.source: event for event in written}
    newest = {e.place.source: when[id(e)] for e in written if not math.isnan(when[id(e)])}
    if not ends or len(ends) > len(newest):
        return written[-1] if written else None
    return max(ends.values(), key=lambda e: (newest[e.place.source], e.place.source in own.sources, e.place))


def lasting_states(states: Sequence[ProcessState], when: Mapping[int, float]) -> tuple[ProcessState, ...]:
    """The states of a process when it was last looked at.

    That goes by the time, where there is one, else by the number of the look. A process is *traced* for a moment whenever somebody
    takes its stack: that state counts only where every look shows it.
    """
    lasting = [state for state in states if state.state != "traced"] or states

    def moment(state: ProcessState) -> tuple[float, int]:
        at = when.get(id(state), math.nan)
        return -math.inf if math.isnan(at) else at, state.look

    newest = max(map(moment, lasting), default=None)
    return tuple(state for state in lasting if moment(state) == newest)
