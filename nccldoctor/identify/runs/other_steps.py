"""Leaves out lines of Slurm about other jobs and other steps than the one that the ranks run in.

Examples: the ranks run in job 4711, and ``JOB 4690 ON n1 CANCELLED`` is the end of a job before it. Or they run in step 4711.0, and
``STEP 4711.3 ON n1 CANCELLED`` stands in a log: step 3 was somebody's look at the job, which ran on. Which job and step are the ranks'
own is known from their variables. Without those, a step that ranks outlived was not theirs, or was one of an earlier attempt. A log of
the controller speaks of all jobs of a cluster: where nothing says which one is ours, it says nothing of ours.

A script runs ``srun -v prepare`` and then ``srun -v train``: the ends of the four tasks of the first are no ends of ranks. Or one file
holds the output of several jobs, as with ``#SBATCH --open-mode=append``, and that of job 4711 stands below that of job 4698, which Slurm
cancelled: that is no restart of job 4711, since its ranks, hosts and sizes are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.events import Event, Events, Heartbeat, Note, ProcessExit, Progress, SchedulerEvent, Setting, Stack
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Parsed

_JOB, _STEP = "SLURM_JOB_ID", "SLURM_STEP_ID"


def without_other_steps(read: Ingested) -> Ingested:
    """The input without what Slurm did to other steps; each such line is a Gap."""
    events = Events(event for one in read.parsed for event in one.events)
    told = [event for event in events.of_kind(SchedulerEvent) if event.job is not None]
    if not told:
        return read
    own = _own_steps(read)
    left_out = _outlived(told, events) | ({} if own.jobs else _of_many_jobs(read))
    whys = {id(event): why for event in told if (why := own.why_not(event) or left_out.get(id(event), ""))}
    parsed = (replace(one, events=tuple(e for e in one.events if id(e) not in whys)) for one in read.parsed)
    names = {id(e): f"job {e.job}" if e.job_step is None else f"step {e.job}.{e.job_step}" for e in told}
    gaps = [Gap(f"{e.place}: {names[id(e)]} of Slurm", whys[id(e)]) for e in told if id(e) in whys]
    return replace(read, parsed=tuple(parsed), gaps=(*read.gaps, *gaps)) if gaps else read


class _OwnSteps(Struct, frozen=True):
    """The jobs and steps that the variables of the ranks name."""

    jobs: frozenset[str]
    steps: frozenset[tuple[str, str]]

    def why_not(self, event: SchedulerEvent) -> str:
        """Why an event is of another step; empty where it may be of the ranks' own."""
        job, step = event.job or "", event.job_step or ""
        if not job.isdecimal():
            return ""  # 4711_3 and 4711+1 have another number in the variables
        if self.jobs and job not in self.jobs:
            return f"the ranks run in job {', '.join(sorted(self.jobs))}"
        known = sorted(own for of, own in self.steps if of == job)
        return f"the ranks run in step {job}.{known[0]}" if known and step.isdecimal() and step not in known else ""


def _own_steps(read: Ingested) -> _OwnSteps:
    jobs: set[str] = set()
    steps: set[tuple[str, str]] = set()
    for one in read.parsed:
        named = {e.name: e.value for e in one.events if isinstance(e, Setting) and e.name in (_JOB, _STEP)}
        if one.source.rank is None or not named.get(_JOB, "").isdecimal():
            continue
        jobs.add(named[_JOB])
        if named.get(_STEP, "").isdecimal() and int(named[_STEP]) < 1 << 31:  # those above are of batch and extern
            steps.add((named[_JOB], named[_STEP]))
    return _OwnSteps(frozenset(jobs), frozenset(steps))


def _outlived(told: Sequence[SchedulerEvent], events: Events) -> dict[int, str]:
    """Why events are of another step, by their ``id``: ranks lived on after Slurm's ``KillWait``, mostly 30 seconds.

    A training step or a look at a process shows life. Times with a zone are not compared with those without one: nobody knows yet in
    which zone these are.
    """
    newest: dict[bool, datetime] = {}
    for event in events.of_kind(Stack, Heartbeat, Progress):
        is_life = event.main and not event.helper if isinstance(event, Stack) else event.is_step
        if event.time is not None and is_life:
            is_naive = event.time.tzinfo is None
            newest[is_naive] = max(event.time, newest.get(is_naive, event.time))
    out = {}
    for step in (event for event in told if event.job_step is not None):
        last = newest.get(step.time.tzinfo is None) if step.time is not None else None
        if last is not None and step.time is not None and last - step.time > timedelta(minutes=2):
            out[id(step)] = "ranks kept running long after it: it didn't end this run"
    return out


def _of_many_jobs(read: Ingested) -> dict[int, str]:
    """Why lines of files of Slurm alone, on several jobs, are left out, by ``id``. A job that another file names is ours."""
    jobs = [
        {e.job.partition("+")[0] for e in one.events if isinstance(e, SchedulerEvent) and e.job} for one in read.parsed
    ]
    is_list = [
        len(own) > 1 and all(isinstance(e, SchedulerEvent) for e in one.events)
        for own, one in zip(jobs, read.parsed, strict=True)
    ]
    ours = {job for own, many in zip(jobs, is_list, strict=True) if not many for job in own}
    why = "its file speaks of several jobs, and nothing says that this one is ours"
    return {
        id(event): why
        for one, many in zip(read.parsed, is_list, strict=True)
        for event in one.events
        if many and isinstance(event, SchedulerEvent) and event.job and event.job.partition("+")[0] not in ours
    }


def launched_tasks(events: Iterable[Event]) -> int:
    """How many tasks ``srun -v`` says that it launched."""
    return sum(len(Ranks.parse(event.detail)) for event in events if isinstance(event, Note) and _is_launch(event))


def without_earlier_sruns(read: Ingested) -> Ingested:
    """The input without tasks of steps of ``srun -v`` that were over before the last one was launched.

    ``srun`` returns when all its tasks ended: where fewer ends than launched tasks stand above a launch, the steps ran side by side, and
    all lines are kept.
    """
    if not any(_is_launch(event) for one in read.parsed for event in one.events):
        return read
    parsed = tuple(replace(one, events=tuple(_of_last_step(one.events))) for one in read.parsed)
    return replace(read, parsed=parsed)


def _of_last_step(events: Sequence[Event]) -> Sequence[Event]:
    last = max((_line(event) for event in events if _is_launch(event)), default=0)
    ended = max((_line(event) for event in events if _is_end_of_task(event) and _line(event) < last), default=0)
    before = [event for event in events if _line(event) <= ended and (_is_launch(event) or _is_end_of_task(event))]
    ends = sum(map(_is_end_of_task, before))
    if not ends or ends != launched_tasks(before):
        return events
    earlier = set(map(id, before))
    return [event for event in events if id(event) not in earlier]


def _is_launch(event: Event) -> bool:
    return isinstance(event, Note) and event.what == "tasks-on-host"


def _is_end_of_task(event: Event) -> bool:
    return isinstance(event, ProcessExit) and event.reporter == "srun"


def _line(event: Event) -> int:
    return event.place.line or 0


def newest_job_of_each_file(read: Ingested) -> Ingested:
    """The input without the lines of earlier jobs in the same file; each of those jobs is a Gap."""
    ends = {one.source.id: end_of_other_job(one.events) for one in read.parsed if one.source.kind is SourceKind.LOG}
    if not any(ends.values()):
        return read
    why = "the scheduler names a different job there; left out, because only the last job is diagnosed"
    gaps = [
        Gap(f"{one.source.path}:1-{end}: a different job", why, apart=True)
        for one in read.parsed
        if (end := ends.get(one.source.id))
    ]
    parsed = (_behind(one, ends.get(one.source.id, 0)) for one in read.parsed)
    return replace(read, parsed=tuple(parsed), gaps=(*read.gaps, *gaps))


def _behind(one: Parsed, end: int) -> Parsed:
    """The content of a file below a line; all of it below line 0."""
    if not end:
        return one
    events = tuple(e for e in one.events if (e.place.line or 0) > end)
    return replace(one, events=events, unexplained=tuple(u for u in one.unexplained if (u.place.line or 0) > end))


def end_of_other_job(events: Sequence[Event]) -> int:
    """The last line on which the scheduler speaks of an earlier job; 0 where there is none.

    Not in a list of jobs, which nothing of a program stands between, and not where two jobs take turns.
    """
    named = [(e.place.line or 0, e.job.partition("+")[0]) for e in events if isinstance(e, SchedulerEvent) and e.job]
    if not named:
        return 0
    newest = max(named)[1]
    end = max((line for line, job in named if job != newest), default=0)
    begin = min(line for line, job in named if job == newest)
    is_between = any(end < (e.place.line or 0) < begin and not isinstance(e, SchedulerEvent) for e in events)
    return end if end < begin and is_between else 0
