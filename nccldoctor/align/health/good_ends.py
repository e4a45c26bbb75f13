"""Finds the lines that show work: steps, and the ends that programs and launchers call good."""

from __future__ import annotations

from collections import defaultdict

from nccldoctor.align.liveness import Liveness
from nccldoctor.events import CommInit, Event, ExceptionRaised, Heartbeat, Note, Phase, ProcessExit, Progress
from nccldoctor.events.base import Writer
from nccldoctor.identify.case import Case
from nccldoctor.identify.runs.other_steps import launched_tasks

_WATCHERS = (Writer.LAUNCHER, Writer.SCHEDULER)
"""Those who see processes end, and say how."""


def is_step(event: Event) -> bool:
    """True of a step, and of an epoch that ended."""
    if isinstance(event, _COUNTED):
        return event.is_step and (event.step is not None or event.epoch is not None)
    return isinstance(event, Phase) and event.what == "epoch-end"


_COUNTED = (Heartbeat, Progress)  # a tuple: a union would be made anew for each of thousands of lines


def is_end(event: Event) -> bool:
    """True where a program says that it is done, fills its bar, or ended with 0."""
    if isinstance(event, Progress):
        return event.step == event.total and is_bar(event)
    if isinstance(event, Phase):
        return event.what == "finished" and not event.is_waiting
    if isinstance(event, CommInit):
        return event.what == "destroy"
    if isinstance(event, Note):
        return event.what == "exit-without-destroy"
    return isinstance(event, ProcessExit) and event.exitcode == 0


TELLING = (Phase, CommInit, Note, Progress, ProcessExit, Heartbeat)
"""The kinds of event that are ends or work."""


def is_bar(event: Event) -> bool:
    """True of a progress bar of all steps; one with a label counts those of an epoch."""
    return isinstance(event, Progress) and event.is_step and bool(event.total) and event.label is None


def good_ends(case: Case, liveness: Liveness) -> tuple[Event, ...]:
    """The ends of each writer (a rank, else a file) that no other work of it follows.

    A program leaves its groups open on any way out, also behind an exception. That note counts only beside another end, as where rank 0
    finished the training and ranks 1-7 leave their groups open, and only where nothing went wrong before and no launcher saw a failure.
    Exits with 0 of processes whose rank is not known count where as many are on record as the job has ranks, those of tasks of Slurm where
    all that were launched ended so: a task may be the launcher of a whole node.
    """
    last: dict[tuple[int | None, int | None], list[Event]] = defaultdict(list)
    telling = case.events.of_kind(*TELLING)
    every_end = [e for e in telling if is_end(e)]
    has_other_end = any(not isinstance(e, Note) for e in every_end)
    can_note = has_other_end and not any(e.is_trouble and e.written_by in _WATCHERS for e in case.events)
    of_process = [e for e in every_end if _is_of_one_process(e)]
    size = case.world_size or case.world_at_least
    are_all = 1 < size <= len(of_process)
    tasks = [e for e in every_end if _is_of_task(e)]
    are_all_tasks = bool(tasks) and len(tasks) == launched_tasks(case.of(Note))
    for event in telling:
        key = (event.rank, event.place.source if event.rank is None else None)
        if is_end(event):
            if (_is_of_one_process(event) and not are_all) or (_is_of_task(event) and not are_all_tasks):
                continue
            if not isinstance(event, Note) or (can_note and not _is_troubled(case, liveness, event.rank)):
                last[key].append(event)
        elif isinstance(event, Phase):
            last.pop(key, None)
        elif isinstance(event, _COUNTED) and event.is_step and event.step is not None:
            last[key] = [
                e for e in last[key] if not isinstance(e, Progress) or (e.total == event.step and not is_bar(event))
            ]
    return tuple(e for ends in last.values() for e in ends[:2])


def _is_of_one_process(event: Event) -> bool:
    return isinstance(event, ProcessExit) and event.rank is None and event.pid is not None


def _is_of_task(event: Event) -> bool:
    return isinstance(event, ProcessExit) and event.task is not None


def _is_troubled(case: Case, liveness: Liveness, rank: int | None) -> bool:
    if rank is None:
        return any(e.rank is None and e.is_trouble for e in case.events)
    own = liveness.activity(rank)
    return bool(own.alarms or own.own_exceptions) or any(isinstance(e, ExceptionRaised) for e in own.secondary_errors)
