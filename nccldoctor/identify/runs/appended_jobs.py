"""Keeps the lines of earlier jobs apart where one file holds the output of several.

Example: ``#SBATCH --open-mode=append``, and the output of job 4711 stands below that of job 4698, which Slurm cancelled. That is no
restart of job 4711: its ranks, hosts and sizes are others.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.events import Event, SchedulerEvent
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap, SourceKind
from nccldoctor.parsers.base import Parsed


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
