"""Attempts of one job: each start by its launcher is a job of its own, and only the newest is diagnosed.

torchrun keeps them apart by folder (``attempt_1``); in a launcher's own log, and in merged ones, its restart lines do.
Where neither tells (a requeue that goes on in the same file, a loop around the launcher, folders of several runs) the
lines do: a rank that ended, or gave up, and then starts again or is back at an earlier step, is a new process.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nccldoctor.discover.filename_hints import run_id
from nccldoctor.events import CallTimeout, CommInit, Event, Note, Phase, ProcessExit, Progress, SchedulerEvent, TearDown
from nccldoctor.identify.case import Case
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.model.ranks import Ranks

KEPT = ("restart",)
"""Notes behind which a new attempt begins."""

PAUSE = 10.0
"""Seconds between the end of an attempt and the first sign of the next; clocks of hosts differ by less."""


def newest_attempt(case: Case) -> Case:
    """The case with the events of its newest attempt alone; what was left out is a Gap."""
    sources = {s.id: s for s in case.sources}
    last = _last_attempts(case.sources)
    begins = _begins(case)
    keep = [i for i, e in enumerate(case.events) if _current(e, sources, last, begins)]
    ended = [at for at in (_ended_at(case, keep), _restarted_at(case, keep, begins)) if not math.isnan(at)]
    keep = _after(case, keep, max(ended, default=math.nan))
    left = len(case.events) - len(keep)
    if not left:
        return (
            case
            if not any(gap.apart for gap in case.gaps)
            else replace(case, gaps=(*case.gaps, *_open(case, keep, begins)))
        )
    gap = Gap(
        "earlier attempts of the job",
        f"{left} events of them are kept apart; only the newest attempt is diagnosed",
        apart=True,
    )
    return replace(
        case,
        events=tuple(case.events[i] for i in keep),
        seconds=case.seconds[keep],
        gaps=(*case.gaps, gap, *_open(case, keep, begins)),
    )


def _open(case: Case, keep: Sequence[int], begins: Mapping[int, int]) -> list[Gap]:
    """Files without any time, in a place that holds several attempts, of which nothing tells to which of them they belong."""
    timed = {case.events[i].place.source for i in keep if not math.isnan(case.seconds[i])}
    said = {case.events[i].place.source for i in keep} - timed
    why = "no line of it has a time, and other files here are of several attempts"
    return [
        Gap(s.path, why, Ranks([s.rank] if s.rank is not None else []), s.id, lost=True)
        for s in case.sources
        if s.id in said
        and s.attempt is None
        and not begins.get(s.id)
        and s.kind in (SourceKind.LOG, SourceKind.KERNEL_LOG)
    ]


def _last_attempts(sources: Iterable[Source]) -> dict[str | None, int]:
    """The newest attempt of each run of a launcher: two runs count apart."""
    out: dict[str | None, int] = {}
    for source in sources:
        if source.attempt is not None:
            run = run_id(source.path)
            out[run] = max(source.attempt, out.get(run, 0))
    return out


def _begins(case: Case) -> dict[int, int]:
    """The line in each source on which its newest attempt begins, where lines tell of one."""
    by_source: dict[int, list[tuple[float, Event]]] = defaultdict(list)
    for second, event in zip(case.seconds.tolist(), case.events, strict=True):
        by_source[event.place.source].append((second, event))
    out: dict[int, int] = {}
    for source, timed in by_source.items():
        lines = [event for _, event in timed]
        told = [e.place.line or 0 for e in lines if isinstance(e, Note) and e.what in KEPT]
        told += [line + 1 for e in lines if (line := _requeued(e)) and any((x.place.line or 0) > line for x in lines)]
        ended = _last_end((e.place.line or 0, second, e) for second, e in timed)
        again = ended is not None and any(_speaks(e) for e in lines if (e.place.line or 0) > ended)
        out[source] = max([*told, int(ended) + 1 if ended is not None and again else 0])
    return out


def _speaks(event: Event) -> bool:
    """Whether somebody but the launcher says something: its greeting alone may be an old one that its buffer held back."""
    return event.rank is not None or not (isinstance(event, Note) or _starts(event))


def _requeued(event: Event) -> int:
    """The line that says that the scheduler starts the job again; 0 for any other."""
    again = isinstance(event, SchedulerEvent) and event.what == "requeue"
    return event.place.line or 0 if again else 0


def _ended_at(case: Case, keep: Sequence[int]) -> float:
    """When the attempt before the newest ended, on the job's clock; NaN where there was none."""
    timed = [(at, at, case.events[i]) for i in keep if not math.isnan(at := float(case.seconds[i]))]
    ended = _last_end(sorted(timed, key=lambda row: row[0]), PAUSE)
    return math.nan if ended is None else ended


def _restarted_at(case: Case, keep: Sequence[int], begins: Mapping[int, int]) -> float:
    """When such a line, or the newest before it, was written: other files hold no such line. NaN where no line tells, or the clocks
    of the files contradict each other.
    """
    before, behind = -math.inf, math.inf
    kept = set(keep)
    for i, event in enumerate(case.events):
        line = begins.get(event.place.source, 0)
        if line and not math.isnan(case.seconds[i]):
            again = isinstance(event, Note) and event.what in KEPT and event.place.line == line
            if again:
                before = max(before, float(case.seconds[i]))
            elif i in kept:
                behind = min(behind, float(case.seconds[i]))
            elif (event.place.line or 0) < line:
                before = max(before, float(case.seconds[i]))
    return before if -math.inf < before < behind < math.inf else math.nan


def _after(case: Case, keep: list[int], ended: float) -> list[int]:
    """The events behind that moment. Those without a time go with the line before them that has one, else with the next one; a file
    without any time goes with its folder.
    """
    if math.isnan(ended):
        return keep
    lines: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    going: dict[str, bool] = {}
    folders = {s.id: s.path.rpartition("/")[0] for s in case.sources}
    for i in keep:
        if not math.isnan(case.seconds[i]):
            place, later = case.events[i].place, bool(case.seconds[i] > ended)
            lines[place.source].append((place.line or 0, later))
            going[folders[place.source]] = going.get(folders[place.source], False) or later
    for told in lines.values():
        told.sort()

    def stays(i: int) -> bool:
        place = case.events[i].place
        if not math.isnan(case.seconds[i]):
            return bool(case.seconds[i] > ended)
        told = lines.get(place.source)
        if told is None:
            return going.get(folders[place.source], True)
        return told[max(0, bisect_right(told, (place.line or 0, True)) - 1)][1]

    return [i for i in keep if stays(i)]


@dataclass(slots=True)
class _Lives:
    """What is known of each rank while its events pass by; ``ended`` is the latest time at which one ended."""

    ended: float = -math.inf
    step: dict[tuple[int | None, str | None], int] = field(default_factory=dict)
    spoke: set[int | None] = field(default_factory=set)
    gone: dict[int | None, float] = field(default_factory=dict)

    def back(self, event: Event, at: float, second: float, pause: float) -> bool:
        """Whether this is a rank that ended before, as a new process; or the launcher, after all who ended.

        Files of several nodes may stand one behind another: what happened before the end is no new attempt.
        """
        if second < self.ended:
            return False
        if event.rank is None and _starts(event):
            return bool(self.spoke) and at > max(self.gone.values()) + pause
        if event.rank not in self.gone or at <= self.gone[event.rank] + pause:
            return False
        if isinstance(event, Progress):
            return event.step is not None and event.step < self.step.get((event.rank, event.label), -1)
        return event.rank in self.spoke and _starts(event)

    def note(self, event: Event, at: float, second: float) -> None:
        """Remember what the event says of its rank."""
        if _ends(event):
            self.ended = max(self.ended, -math.inf if math.isnan(second) else second)
            self.gone[event.rank] = max(at, self.gone.get(event.rank, at))
            return
        self.spoke.add(event.rank)
        if isinstance(event, Progress) and event.step is not None:
            key = (event.rank, event.label)
            self.step[key] = max(event.step, self.step.get(key, -1))


def _last_end(events: Iterable[tuple[float, float, Event]], pause: float = 0.0) -> float | None:
    """Where the last attempt but one ended, in events in order with their places and times; None where there is but one."""
    lives, found = _Lives(), None
    for at, second, event in events:
        if lives.gone and lives.back(event, at, second, pause):
            found = max(end for end in lives.gone.values() if end < at)
            lives = _Lives()
        lives.note(event, at, second)
    return found


def _ends(event: Event) -> bool:
    """Whether a rank stops with it: it gave up on a call, was taken down, or ended badly."""
    if isinstance(event, ProcessExit):
        return bool(event.exitcode or event.signal)
    return isinstance(event, CallTimeout | TearDown)


def _starts(event: Event) -> bool:
    if isinstance(event, CommInit):
        return event.what == "start"
    return isinstance(event, Phase) and event.what == "starting"


def _current(
    event: Event, sources: Mapping[int, Source], last: Mapping[str | None, int], begins: Mapping[int, int]
) -> bool:
    source = sources[event.place.source]
    if source.attempt is not None:
        return source.attempt == last[run_id(source.path)]
    return (event.place.line or 0) >= begins.get(event.place.source, 0)
