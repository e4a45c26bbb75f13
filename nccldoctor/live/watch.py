"""Watches a job: analyses what is new, says who falls behind, and tells when it is stuck.

A stall is called by the analysis, or by the pace: where no rank reports a step, or launches a collective that RAS counts, for longer
than the limit, and for longer than twice the longest pause that ended so far. Of a job that counts neither, the growth of its files is
taken. All come before the watchdog where its timeout is longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import numpy as np
from msgspec import Struct

from nccldoctor import pipeline
from nccldoctor.align.divergence.step_counters import Pace, measure_pace
from nccldoctor.align.liveness import Liveness, collect_liveness
from nccldoctor.events import Event
from nccldoctor.identify.case import Case
from nccldoctor.incident import Incident
from nccldoctor.ingest.read_before import ReadBefore
from nccldoctor.live.clock import Clock
from nccldoctor.live.sources import Watched
from nccldoctor.model import CauseClass, Confidence, Diagnosis
from nccldoctor.model.steps import JobState
from nccldoctor.parsers.event_details import wording_of

GONE_STALE = 2.0
"""A pause is a stall where it is longer than the longest that ended so far, times this."""


COLLECTIVE, GROWTH = "collective", "growth"
"""What a pace counts where RAS shows it, and where neither RAS nor a line counts anything: that files grow."""


class State(StrEnum):
    """What is known of the job at one moment."""

    RUNNING = "running"
    STUCK = "stuck"
    ENDED = "ended"
    LOST = "lost"


class Wishes(Struct, frozen=True):
    """What the user asked for, in seconds.

    ``every``: between two looks; ``behind``: from when on a rank is named; ``stall``: without a step, until the job counts as stuck.
    """

    every: float = 10.0
    behind: float = 30.0
    stall: float = 300.0


class Observation(Struct, frozen=True):
    """One look: the newest analysis, and the pace at the time ``at`` (seconds since the epoch).

    ``step`` is the newest that any rank reported. ``is_verdict``: the analysis itself says that the job is stuck or failed.
    ``is_over``: nothing more will come of this job.
    """

    at: float
    state: State
    incident: Incident
    pace: Pace
    step: int | None = None
    is_verdict: bool = False
    is_over: bool = False


class _Seen(Struct):
    """What was first seen when: lines without a time, and counts of launched collectives.

    ``longest`` is the longest time without a new collective that ended while the job was watched, ``longest_unwritten`` that without a new
    byte of any file since the last one at ``written``; NaN before the first.
    """

    at: dict[tuple[int | None, str, int, int], float] = {}
    counts: Mapping[str, Mapping[int, int]] = {}
    changed: float = math.nan
    longest: float = math.nan
    written: float = math.nan
    longest_unwritten: float = math.nan

    def launches(self, case: Case, now: float) -> Pace:
        """The pace by the collectives that NCCL counts; NaN in all where it reports none."""
        counts = {one.comm: one.totals for one in case.nccl_counters if one.observer == "ras"}
        if counts and counts != self.counts:
            if self.counts:
                self.longest = float(np.fmax(now - self.changed, self.longest))
            self.counts, self.changed = counts, now
        return Pace(quiet=now - self.changed, longest=self.longest, of=COLLECTIVE)

    def growth(self, written: float, now: float) -> Pace:
        """The pace by the files, the last of which was written at a time in seconds since the epoch."""
        if written > self.written:
            self.longest_unwritten = float(np.fmax(written - self.written, self.longest_unwritten))
        self.written = written
        return Pace(quiet=now - written, longest=self.longest_unwritten, of=GROWTH)

    def moments(self, liveness: Liveness, now: float) -> Callable[[Event], float]:
        """A clock for the lines of one analysis."""

        def moment(event: Event) -> float:
            printed = liveness.time(event)
            if not math.isnan(printed):
                return printed
            count = (getattr(event, "epoch", None) or 0, getattr(event, "step", None) or 0)
            return self.at.setdefault((event.rank, wording_of(event), *count), now)

        return moment


def watch_job(watched: Watched, clock: Clock, wishes: Wishes) -> Iterator[Observation]:
    """One observation at each look, until the job has ended or answers no more. One that is stuck may go on: a long pause was no stall.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where there is nothing to watch.
    """
    seen, newest, before = _Seen(), None, ReadBefore()
    while True:
        begin = clock.now()
        if watched.has_grown() or newest is None:
            incident = pipeline.analyze(watched.inputs(), before=before)
        newest = _observed(incident, clock.now(), watched, seen, wishes)
        yield newest
        if newest.is_over:
            return
        clock.sleep(max(wishes.every, clock.now() - begin))


def until_stuck(looks: Iterator[Observation]) -> Iterator[Observation]:
    """The looks until the first at which the job is stuck."""
    for seen in looks:
        yield seen
        if seen.state is State.STUCK:
            return


def _observed(incident: Incident, now: float, watched: Watched, seen: _Seen, wishes: Wishes) -> Observation:
    """What the newest analysis says at this moment."""
    liveness = collect_liveness(incident.case)
    # the present on the clock of the step lines; where none has a time, the clock of this machine dates them
    has_times = any(not math.isnan(liveness.time(line)) for own in liveness.by_rank.values() for line in own.steps)
    on_job_clock = (
        float(np.nanmax(incident.case.seconds)) + max(0.0, now - watched.last_written()) if has_times else now
    )
    pace = measure_pace(liveness.by_rank, seen.moments(liveness, on_job_clock), on_job_clock)
    if math.isnan(pace.quiet):
        pace = seen.launches(incident.case, now)
    has_begun = any(source.size for source in incident.case.sources)  # a job that still imports has written nothing
    if math.isnan(pace.quiet) and incident.diagnosis.job_end.state is not JobState.ENDED and has_begun:
        pace = seen.growth(watched.last_written(), now)
    # a straggler is late, and goes on
    verdict = incident.diagnosis.verdict
    is_cause = verdict.cause not in (CauseClass.NONE, CauseClass.UNDETERMINED, CauseClass.STRAGGLER)
    is_verdict = is_cause and verdict.confidence not in (Confidence.LOW, Confidence.CANNOT_TELL)
    state = State.RUNNING
    if is_verdict:
        state = State.STUCK
    elif _has_ended_well(incident.diagnosis, liveness):
        state = State.ENDED
    elif watched.has_ended:
        state = State.LOST
    elif _is_standing(pace, wishes):
        state = State.STUCK
    has_failed = is_verdict and incident.diagnosis.job_end.state is JobState.ENDED
    is_over = has_failed or watched.has_ended or state is State.ENDED
    steps = (own.step for own in liveness.by_rank.values() if own.step is not None)
    return Observation(now, state, incident, pace, max(steps, default=None), is_verdict, is_over)


def _is_standing(pace: Pace, wishes: Wishes) -> bool:
    """True when nothing moved for too long. Counts of collectives must have moved before: those of a CUDA graph may never do."""
    if math.isnan(pace.longest):
        return pace.of != COLLECTIVE and pace.quiet > wishes.stall
    return pace.quiet > max(wishes.stall, GONE_STALE * pace.longest)


def _has_ended_well(diagnosis: Diagnosis, liveness: Liveness) -> bool:
    """True when the analysis proves that the job is well, and every rank finished or its end is recorded."""
    own = liveness.by_rank.values()
    has_ended = diagnosis.job_end.state is JobState.ENDED or all(rank.has_finished or rank.exits for rank in own)
    return diagnosis.verdict.cause is CauseClass.NONE and has_ended
