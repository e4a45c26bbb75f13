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
from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.model import Finding, SourceKind
from nccldoctor.model.excerpts import Excerpts, SourceLine
from nccldoctor.model.exhibits import LastLines
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.line_prefix.durations import longest_duration
from nccldoctor.summarise.line_writers import NO_PREFIX, Writer, prefix

SHOWN = 2
"""Lines on each side of the gap."""

WITHIN = 200
"""Lines between two known ones that are looked at for an explanation."""

AROUND = 60
"""Lines of other writers that may stand between two lines of a rank in a file that many write to."""

SAME_GAP = 0.5
"""Share of the gap that a duration must reach to explain it."""

PEERS = 16

SHORTEST = 1.0
"""Seconds of a silence: shorter gaps stand between any two lines."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Where one rank's log goes silent: the lines before and after, the second None where the log ends.

    ``seconds`` is the length of the silence; NaN where the log just ends, or tells no times.
    """

    rank: int
    source: int
    path: str
    last: int
    next: int | None
    seconds: float
    writer: Writer

    @property
    def lines_to_read(self) -> Sequence[int]:
        """The lines to read again."""
        more = SHOWN if self.writer.alone else AROUND
        end = self.next if self.next is not None else self.last + WITHIN
        gap = range(max(self.last - more, 1), min(end, self.last + WITHIN) + 1)
        return (*gap, *range(end, end + more))


def silences(facts: Facts, finding: Finding) -> tuple[Silence, ...]:
    """The silence of the first culprit with a log, then of the first waiting peer with one."""
    blamed = finding.ranks or finding.suspects
    peers = Ranks((finding.inside or finding.victims) - blamed)
    found = (_best([one for one in (_silence(facts, r) for r in list(rs)[:PEERS]) if one]) for rs in (blamed, peers))
    return tuple(one for one in found if one is not None)


def _best(silences: Sequence[Silence]) -> Silence | None:
    """The first one of which the length is known, else the first."""
    return next((one for one in silences if not math.isnan(one.seconds)), next(iter(silences), None))


def _silence(facts: Facts, rank: int) -> Silence | None:
    """The longest silence of a rank that began before the first complaint, in any of its logs."""
    by_source: dict[int, list[Event]] = defaultdict(list)
    writers: dict[int, set[int]] = defaultdict(set)
    logs = {s.id for s in facts.case.sources if s.kind is SourceKind.LOG}
    for event in facts.case.events:
        if event.rank is not None and event.is_sign_of_life and event.place.line and event.place.source in logs:
            writers[event.place.source].add(event.rank)
            if event.rank == rank:
                by_source[event.place.source].append(event)
    found = []
    for source, events in by_source.items():
        own = frozenset(event.place.line or 1 for event in events)
        found.append(_of_source(facts, rank, events, Writer(own, len(writers[source]) == 1)))
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: -1.0 if math.isnan(one.seconds) else one.seconds, default=None)


def _of_source(facts: Facts, rank: int, events: Sequence[Event], writer: Writer) -> Silence | None:
    """The longest gap between two timed lines, else the end of the log, or what stands before its first complaint."""
    alarm = facts.liveness.alarm
    source, path = events[0].place.source, events[0].place.path
    timed = [(facts.liveness.time(e), e.place.line or 1) for e in events if not math.isnan(facts.liveness.time(e))]
    begun = [
        (then - at, line, following)
        for (at, line), (then, following) in itertools.pairwise(timed)
        if following > line and not at >= alarm
    ]
    end: list[tuple[float, int, int | None]] = [*begun]
    if timed and timed[-1][0] < alarm:
        end.append((alarm - timed[-1][0], timed[-1][1], None))
    length, last, following = max(end, key=lambda gap: gap[0], default=(0.0, 0, None))
    if length >= SHORTEST:
        return Silence(rank, source, path, last, following, length, writer)
    complaint = next((e.place.line or 1 for e in events if e.is_trouble), None)
    if timed and not timed[-1][0] >= alarm:
        after = complaint if complaint is not None and complaint > timed[-1][1] else None
        return Silence(rank, source, path, timed[-1][1], after, math.nan, writer)
    if complaint is None:
        return Silence(rank, source, path, max(writer.known), None, math.nan, writer)
    if complaint == 1:
        return None
    raised = any(isinstance(e, ExceptionRaised) and e.place.line == complaint for e in events)
    known = [line for line in writer.known if line < complaint]
    last = max(known) if known and (raised or not writer.alone) else complaint - 1
    return Silence(rank, source, path, last, complaint, math.nan, writer)


def last_lines(silence: Silence, excerpts: Excerpts) -> LastLines | None:
    """The lines around one silence, as they stand in the file; None where the rank wrote nothing before it."""
    last, end = silence.last, silence.next if silence.next is not None else silence.last + WITHIN
    more = SHOWN if silence.writer.alone else AROUND
    all_lines = excerpts.between(silence.source, last - more, end + more)
    own = silence.writer.own(all_lines)
    before = tuple(line for line in own if line.number <= last)[-SHOWN:]
    between = tuple(line for line in own if last < line.number < end)
    after = tuple(line for line in own if line.number >= end)[:SHOWN] if silence.next is not None else ()
    if not before:
        return None
    if math.isnan(silence.seconds):
        return LastLines(silence.rank, silence.path, before, (), after or between[:SHOWN], None)
    unsigned = [line for line in all_lines if last < line.number < end and prefix(line.text) == NO_PREFIX]
    within = _explaining([*between, *unsigned], silence.seconds) or between[:1]
    return LastLines(silence.rank, silence.path, before, within, after, silence.seconds * 1e3)


def _explaining(lines: Sequence[SourceLine], seconds: float) -> tuple[SourceLine, ...]:
    """The line that tells a duration nearest to the gap; empty where none does."""
    told = [(longest_duration(line.text), line) for line in lines]
    fitting = [
        (abs(value - seconds), line.number, line) for value, line in told if value and value >= SAME_GAP * seconds
    ]
    return (min(fitting, key=lambda one: one[:2])[2],) if fitting else ()
