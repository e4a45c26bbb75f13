"""Finds the troubles of a job that no later step and no good end answers.

A library warns, a server is gone when everybody leaves, an Xid is days old: a rank that goes on afterwards has answered it. Example:
rank 3 logs a traceback at step 40 and reports step 50: it caught that error. Rank 5 logs one at step 40 and nothing more: that is open.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct

from nccldoctor.align.health.good_ends import TELLING, is_step
from nccldoctor.align.liveness import Liveness, first_lines
from nccldoctor.events import AbsenceWarning, Event, Note, ProcessExit, Progress, SchedulerEvent
from nccldoctor.events.base import Writer
from nccldoctor.identify.case import Case
from nccldoctor.model import Unexplained
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import barrier_key


def waits_at_store(case: Case) -> list[Note]:
    """The lines of ranks that wait at the store's barrier for others, without those of a barrier that was passed.

    It is passed when all have come: "rank 3 waits, 4 of 6 are there" means nothing once rank 0 says that it is through.
    """
    notes = list(case.of(Note))
    passed: dict[str, dict[int, int]] = defaultdict(dict)
    for note in notes:
        if note.what == "store-barrier-passed":
            passed[barrier_key(note.detail)][note.place.source] = note.place.line or 0

    def is_passed(note: Note) -> bool:
        lines = passed[barrier_key(note.detail)]
        return bool(lines) and lines.get(note.place.source, math.inf) > (note.place.line or 0)

    return [e for e in notes if e.what == "store-barrier-waiting" and not is_passed(e)]


class LastWork(Struct):
    """When and where some ranks were last seen at work: the newest time, and the last line in each file."""

    at: float = -math.inf
    line: dict[int, int] = {}

    def note(self, event: Event, when: float) -> None:
        """Take a line of work into account."""
        if not math.isnan(when):
            self.at = max(self.at, when)
        self.line[event.place.source] = max(self.line.get(event.place.source, 0), event.place.line or 0)

    def is_after(self, event: Event, when: float) -> bool:
        """True when work is seen after an event: further down in its file, else by time."""
        if event.place.source in self.line:
            return self.line[event.place.source] > (event.place.line or 0)
        return not math.isnan(when) and self.at > when


def work_of_ranks(case: Case, liveness: Liveness, ends: Sequence[Event]) -> Mapping[int | None, LastWork]:
    """The last step, or good end, of each rank; of writers without a rank under None."""
    found: dict[int | None, LastWork] = defaultdict(LastWork)
    for event in (*filter(is_step, case.events.of_kind(*TELLING)), *ends):
        found[event.rank].note(event, liveness.time(event))
    return found


def work_of_engines(case: Case, liveness: Liveness) -> Mapping[str, LastWork]:
    """By the name of each engine that serves a model, the last line that says it makes tokens."""
    found: dict[str, LastWork] = defaultdict(LastWork)
    for event in case.of(Progress):
        if event.counts == "work" and event.label is not None:
            found[event.label].note(event, liveness.time(event))
    return found


def unanswered_troubles(
    case: Case, liveness: Liveness, ends: Sequence[Event], ended: Ranks, over: Ranks
) -> tuple[Event, ...]:
    """The troubles that no later work answers, in input order.

    ``ends`` are the good ends and ``ended`` the ranks that they speak of; ``over`` are also those that were at work when another one
    said that the job was done. The complaint of a rank that gave up on a call is always open, and so is a failed end that a launcher
    or scheduler recorded: a program that says that it is done may still fail.
    """
    troubles = [e for e in case.events if e.is_trouble]
    if not troubles:
        return ()
    work = work_of_ranks(case, liveness, ends)
    all_ended, all_over = (bool(case.world) and not case.world - ranks for ranks in (ended, over))
    waits = {id(e) for e in waits_at_store(case)}
    engines = work_of_engines(case, liveness)
    of_file = _work_in_files(work)
    steps = _any_of_them(work_of_ranks(case, liveness, ()).values())
    newest_end = max(map(liveness.time, ends), default=-math.inf)

    def is_strangers(event: Event) -> bool:
        """True where the kernel saw a process end that is no known rank, and steps and a good end follow."""
        is_process = event.written_by is Writer.KERNEL and event.rank is None and event.pid is not None
        return is_process and steps.is_after(event, when := liveness.time(event)) and newest_end > when

    def is_answered(event: Event) -> bool:
        if isinstance(event, AbsenceWarning) and event.by in engines:
            return engines[event.by].is_after(event, liveness.time(event))
        if isinstance(event, Note) and event.what == "store-barrier-waiting" and id(event) not in waits:
            return True
        if (event.is_complaint and not event.moot_after_end) or _is_recorded_failure(event):
            return False
        if (event.moot_after_end and all_over) or all_ended:
            return True
        when = liveness.time(event)
        concerned = _concerned(case, event, work, of_file)
        return (not event.is_end_of_process or is_strangers(event)) and all(w.is_after(event, when) for w in concerned)

    return tuple(e for e in troubles if not is_answered(e))


def _is_recorded_failure(event: Event) -> bool:
    """True where a launcher or a scheduler recorded that a process failed, and not only that it was closed."""
    if isinstance(event, ProcessExit):
        return bool(event.exitcode) and not event.was_closed and event.reporter != "process"
    is_told = isinstance(event, SchedulerEvent) and event.what == "failed"
    return is_told or (isinstance(event, Note) and event.what == "exit-barrier-timeout")


def unanswered_lines(case: Case, liveness: Liveness, ends: Sequence[Event], ended: Ranks) -> tuple[Unexplained, ...]:
    """The lines that look like failures, were not understood, and that no later work of their writer answers.

    The later work is that of the rank that the line names, else any in the same file. All are answered where every rank ended well, and
    those behind the line in which a person stopped the job.
    """
    lines = [line for reading in case.readings for line in reading.unexplained]
    if not lines or (bool(case.world) and not case.world - ended):
        return ()
    work = work_of_ranks(case, liveness, ends)
    stopped = first_lines(e for e in case.events if e.is_stop_by_person)

    def is_answered(line: Unexplained) -> bool:
        own = [work[line.rank]] if line.rank in work else list(work.values())
        at, source = line.place.line or 0, line.place.source
        return any(w.line.get(source, -1) > at for w in own) or stopped.get(source, at + 1) <= at

    return tuple(line for line in lines if not is_answered(line))


def _concerned(
    case: Case, event: Event, work: Mapping[int | None, LastWork], of_file: Callable[[int], LastWork]
) -> Iterable[LastWork]:
    """The work of those whom an event may have hit: its rank, its host, else everybody.

    ``of_file`` gives the work that is seen in one file.

    A warning of a rank that reports no steps is answered by those of the others, who cannot go on without it; its own error is not.
    """
    if event.rank in work and event.rank is not None:
        return [work[event.rank]]
    if event.rank is not None and event.can_cause:
        return [LastWork()]
    if event.written_by is Writer.RANK:
        return [of_file(event.place.source)]
    names = {event.host, *case.pods.on(event.host)} if event.host is not None else set()
    near = [work[r] for r, host in case.rank_host.items() if host in names and r in work]
    return near or list(work.values()) or [LastWork()]


def _work_in_files(work: Mapping[int | None, LastWork]) -> Callable[[int], LastWork]:
    """Gives the work of those that were seen at work in one file; where nobody was, that of all."""
    everybody, seen_in = _any_of_them(work.values()), defaultdict[int, list[LastWork]](list)
    for one in work.values():
        for source in one.line:
            seen_in[source].append(one)

    @cache
    def of_file(source: int) -> LastWork:
        return _any_of_them(seen_in[source]) if source in seen_in else everybody

    return of_file


def _any_of_them(parts: Iterable[LastWork]) -> LastWork:
    """The last work of any of several writers."""
    whole = LastWork()
    for part in parts:
        whole.at = max(whole.at, part.at)
        for source, line in part.line.items():
            whole.line[source] = max(whole.line.get(source, 0), line)
    return whole
