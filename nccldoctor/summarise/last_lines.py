"""Finds the last lines of a culprit and of a waiting peer around the silence of the stall.

Rank 0 logs step 1550, then nothing for 640 s, then step 1551. The line *checkpoint of step 1550 written in 639.2 s* stands between the
two and has no time of its own: it explains the gap, and is found because it tells a duration as long as the gap.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.align.facts import Facts
from nccldoctor.events import Event
from nccldoctor.model import Finding, SourceKind
from nccldoctor.model.excerpts import Excerpts, SourceLine
from nccldoctor.model.exhibits import LastLines
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.line_prefix.durations import longest_duration

SHOWN = 2
"""Lines on each side of the gap."""

WITHIN = 200
"""Lines between two known ones that are looked at for an explanation."""

SAME_GAP = 0.5
"""Share of the gap that a duration must reach to explain it."""

PEERS = 16

SHORTEST = 1.0
"""Seconds of a silence: shorter gaps stand between any two lines."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Where one rank's log goes silent: the lines before and after, the second None where the log ends.

    ``seconds`` is the length of the silence; NaN where the log just ends.
    """

    rank: int
    source: int
    path: str
    last: int
    next: int | None
    seconds: float

    @property
    def lines_to_read(self) -> range:
        """The lines to read again."""
        end = self.next if self.next is not None else self.last + WITHIN
        return range(max(self.last - SHOWN + 1, 1), min(end, self.last + WITHIN) + SHOWN)


def silences(facts: Facts, finding: Finding) -> tuple[Silence, ...]:
    """The silence of the first culprit with a log, then of the first waiting peer with one."""
    blamed = finding.ranks or finding.suspects
    peers = Ranks((finding.inside or finding.victims) - blamed)
    found = (next((s for s in (_silence(facts, r) for r in list(rs)[:PEERS]) if s), None) for rs in (blamed, peers))
    return tuple(one for one in found if one is not None)


def _silence(facts: Facts, rank: int) -> Silence | None:
    """The longest gap between two timed lines of a rank that began before the first complaint."""
    by_source: dict[int, list[Event]] = defaultdict(list)
    logs = {s.id for s in facts.case.sources if s.kind is SourceKind.LOG}
    for event in facts.case.events:
        if event.rank == rank and event.is_sign_of_life and event.place.line and event.place.source in logs:
            by_source[event.place.source].append(event)
    best: Silence | None = None
    for events in by_source.values():
        timed = [(facts.liveness.time(e), e) for e in events if not math.isnan(facts.liveness.time(e))]
        one = _longest_gap(rank, timed, facts.liveness.alarm)
        if one is not None and (best is None or one.seconds > best.seconds):
            best = one
    return best


def _longest_gap(rank: int, timed: Sequence[tuple[float, Event]], alarm: float) -> Silence | None:
    best: Silence | None = None
    for (at, event), (then, following) in itertools.pairwise(timed):
        gap = then - at
        if gap > 0 and (best is None or gap > best.seconds) and (math.isnan(alarm) or at < alarm):
            line, end = event.place.line or 1, following.place.line or 1
            if end > line:
                best = Silence(rank, event.place.source, event.place.path, line, end, gap)
    if timed and not math.isnan(alarm) and alarm - timed[-1][0] > (best.seconds if best else 0.0):
        at, event = timed[-1]
        best = Silence(rank, event.place.source, event.place.path, event.place.line or 1, None, alarm - at)
    if best is not None and best.seconds >= SHORTEST:
        return best
    return _end_of_log(rank, timed[-1][1]) if timed and not timed[-1][0] >= alarm else None


def _end_of_log(rank: int, last: Event) -> Silence:
    """A log that just ends, as that of a process that was killed."""
    return Silence(rank, last.place.source, last.place.path, last.place.line or 1, None, math.nan)


def last_lines(silence: Silence, excerpts: Excerpts) -> LastLines:
    """The lines around one silence, as they stand in the file."""
    before = excerpts.between(silence.source, silence.last - SHOWN + 1, silence.last)
    end = silence.next if silence.next is not None else silence.last + WITHIN
    between = excerpts.between(silence.source, silence.last + 1, end - 1)
    after = excerpts.between(silence.source, end, end + SHOWN - 1) if silence.next is not None else ()
    gap_ms = None if math.isnan(silence.seconds) else silence.seconds * 1e3
    if gap_ms is None:
        return LastLines(silence.rank, silence.path, before, (), between[:SHOWN], None)
    within = _explaining(between, silence.seconds)
    return LastLines(silence.rank, silence.path, before, within, after, gap_ms)


def _explaining(lines: Sequence[SourceLine], seconds: float) -> tuple[SourceLine, ...]:
    """The line that tells a duration nearest to the gap, else the first untimed line of the gap."""
    told = [(longest_duration(line.text), line) for line in lines]
    fitting = [
        (abs(value - seconds), line.number, line) for value, line in told if value and value >= SAME_GAP * seconds
    ]
    if fitting:
        return (min(fitting, key=lambda f: f[:2])[2],)
    return tuple(lines[:1])
