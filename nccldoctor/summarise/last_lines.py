"""Finds the last lines of a culprit and of a waiting peer around the silence of the stall.

Rank 0 logs step 1550, then nothing for 640 s, then step 1551. The line *checkpoint of step 1550 written in 639.2 s* stands between the
two and has no time of its own: it explains the gap, and is found because it tells a duration as long as the gap.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.events import Event, Note
from nccldoctor.model import Family, Finding, SourceKind
from nccldoctor.model.excerpts import Excerpts, SourceLine
from nccldoctor.model.exhibits import LastLines
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.durations import longest_duration
from nccldoctor.parsers.line_prefix.prefixes import read_mark, split_label, without_codes

SHOWN = 2
"""Lines on each side of the gap."""

WITHIN = 200
"""Lines between two known ones that are looked at for an explanation."""

AROUND = 60
"""Lines of other writers that may stand between two lines of a rank in a file that many write to."""

PEERS = 16

SHORTEST = 1.0
"""Seconds of a silence: shorter gaps stand between any two lines."""


class Silence(Struct, frozen=True):
    """Where one rank's log goes silent, as its parsed lines show it.

    ``last`` is the line before it and ``next`` the one after, None where the log ends.

    ``seconds`` is the length of the silence; NaN where the log just ends, or tells no times. ``total`` is the number of lines of the file.
    """

    rank: int
    source: int
    path: str
    last: int
    next: int | None
    seconds: float
    writer: Writer
    total: int

    @property
    def lines_to_read(self) -> Sequence[int]:
        """The lines to read again: all between the two, of a long stretch its two ends."""
        more = SHOWN if self.writer.alone else AROUND
        first = max(self.last - more, 1)
        end = self.next if self.next is not None else max(self.total, self.last)
        if end - first <= 2000:
            return range(first, end + more)
        return (*range(first, self.last + WITHIN), *range(end - WITHIN, end + more))


def silences(facts: Facts, finding: Finding) -> tuple[Silence, ...]:
    """The silence of the first culprit with a log, then of the first waiting peer with one."""
    peers = Ranks((finding.inside or finding.victims) - finding.blamed)
    until = _silent_until(facts, finding)
    signs = _signs_of_life(facts)
    sides = (
        [one for one in (_silence(facts, signs, r, until) for r in list(rs)[:PEERS]) if one]
        for rs in (finding.blamed, peers)
    )
    found = (next((one for one in side if not math.isnan(one.seconds)), next(iter(side), None)) for side in sides)
    return tuple(one for one in found if one is not None)


def _silent_until(facts: Facts, finding: Finding) -> float:
    """When somebody noticed the silence: the first complaint, else the newest look at the job.

    Infinite where nobody did and the job did not go on: then every log ends in it. NaN where ranks went on.
    """
    if not math.isnan(facts.liveness.alarm):
        return facts.liveness.alarm
    looks = [look.at for look in facts.looks.all if not math.isnan(look.at)]
    if looks:
        return max(looks)
    return math.nan if finding.family is Family.SLOW or not facts.looks.all else math.inf


_Signs = Mapping[int, Mapping[int, Sequence[Event]]]
"""The signs of life of each rank by the log that they stand in."""


def _signs_of_life(facts: Facts) -> _Signs:
    logs = {s.id for s in facts.case.sources if s.kind is SourceKind.LOG}
    signs: dict[int, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in facts.case.events:
        if isinstance(event, Note) and event.what == "line-above":
            continue  # it was noted for the exception below it alone
        if event.rank is not None and event.is_sign_of_life and event.place.line and event.place.source in logs:
            signs[event.place.source][event.rank].append(event)
    return signs


def _silence(facts: Facts, signs: _Signs, rank: int, until: float) -> Silence | None:
    """The longest silence of a rank that began before it was noticed, in any of its logs."""
    totals = {reading.source: reading.lines for reading in facts.case.readings}
    found = []
    for source, by_rank in signs.items():
        if rank in by_rank:
            foreign = (e.place.line or 0 for other, events in by_rank.items() if other != rank for e in events)
            known = frozenset(e.place.line or 0 for e in by_rank[rank])
            writer = Writer(known, len(by_rank) == 1, frozenset(foreign))
            found.append(_of_source(facts, rank, by_rank[rank], writer, until, totals.get(source, 0)))
    told = [one for one in found if one is not None]
    return max(told, key=lambda one: -1.0 if math.isnan(one.seconds) else one.seconds, default=None)


def _of_source(
    facts: Facts, rank: int, events: Sequence[Event], writer: Writer, until: float, total: int
) -> Silence | None:
    """The longest gap between two timed lines, else the end of the log, or what stands before its first complaint."""
    source, path = events[0].place.source, events[0].place.path
    timed = [(facts.liveness.time(e), e.place.line or 1) for e in events if not math.isnan(facts.liveness.time(e))]
    gaps: list[tuple[float, int, int | None]] = [
        (then - at, line, following)
        for (at, line), (then, following) in itertools.pairwise(timed)
        if following > line and not at >= until and not then <= facts.liveness.began and until != math.inf
    ]
    if timed and timed[-1][0] < until < math.inf:
        gaps.append((until - timed[-1][0], timed[-1][1], None))
    length, last, following = max(gaps, key=lambda gap: gap[0], default=(0.0, 0, None))
    if length >= SHORTEST:
        return Silence(rank, source, path, last, following, length, writer, total)
    complaint = next((e.place.line or 1 for e in events if e.is_trouble), None)
    if complaint == 1:
        return None
    last = max((line for line in writer.known if complaint is None or line < complaint), default=0)
    return Silence(rank, source, path, last or (complaint or 1) - 1, complaint, math.nan, writer, total)


def last_lines(silence: Silence, excerpts: Excerpts) -> LastLines | None:
    """The lines around one silence, as they stand in the file; None where the rank wrote nothing before it."""
    more = SHOWN if silence.writer.alone else AROUND
    end = silence.next if silence.next is not None else max(silence.total, silence.last) + 1
    all_lines = excerpts.between(silence.source, silence.last - more, end + more)
    own = silence.writer.own(all_lines)
    if silence.next is not None:
        own = _without_traceback(own, silence.next)
    last, end, seconds = _refined(silence, own, end)
    before = tuple(line for line in own if line.number <= last)[-SHOWN:]
    between = tuple(line for line in own if last < line.number < end)
    after = tuple(line for line in own if line.number >= end)[:SHOWN]
    if math.isnan(seconds):
        before = (*before, *between)[-SHOWN:]
        since = next((at for line in reversed(before) if (at := printed_time_of(line.text)) is not None), None)
        return LastLines(silence.rank, silence.path, before, (), after, None, since) if before else None
    if not before:
        return None
    unsigned = [line for line in all_lines if last < line.number < end and prefix(line.text) == NO_PREFIX]
    told = [(longest_duration(line.text), line) for line in [*between, *unsigned]]
    fitting = [(abs(value - seconds), line.number, line) for value, line in told if value and value >= 0.5 * seconds]
    within = ((min(fitting, key=lambda one: one[:2])[2],) if fitting else ()) or (between[:1] if after else ())
    if not after and not within:
        before = (*before, *between)[-SHOWN:]
    return LastLines(silence.rank, silence.path, before, within, after, seconds * 1e3, printed_time_of(before[-1].text))


def _without_traceback(own: Sequence[SourceLine], end: int) -> tuple[SourceLine, ...]:
    """The lines without the frames above the exception that ends the silence."""
    above = [line for line in own if line.number < end]
    head = next((line.number for line in reversed(above) if message(line.text).startswith(TRACEBACK)), None)
    inside = [line for line in above if head is not None and line.number > head]
    if head is None or not all(message_with_indent(line.text)[:1].isspace() for line in inside):
        return tuple(own)
    return tuple(line for line in own if line.number < head or line.number >= end)


TRACEBACK = "Traceback (most recent call last)"


def _refined(silence: Silence, own: Sequence[SourceLine], end: int) -> tuple[int, int, float]:
    """The silence between lines that no parser reads as well: lines before and after, and the seconds between them."""
    if math.isnan(silence.seconds):
        return silence.last, end, math.nan
    times = [
        (printed, line.number)
        for line in own
        if silence.last <= line.number <= end and (printed := printed_time_of(line.text)) is not None
    ]
    if not times or times[0][1] != silence.last or (silence.next is not None and times[-1][1] != silence.next):
        return silence.last, end, silence.seconds
    gaps = [
        ((then - at).total_seconds(), line, following)
        for (at, line), (then, following) in itertools.pairwise(times)
        if (at.tzinfo is None) == (then.tzinfo is None) and at.year == then.year
    ]
    spent = sum(length for length, _, _ in gaps)
    if silence.next is None:
        gaps.append((silence.seconds - spent, times[-1][1], end))
    length, last, following = max(gaps, key=lambda gap: gap[0], default=(silence.seconds, silence.last, end))
    return (last, following, length) if length >= SHORTEST else (silence.last, end, math.nan)


Key = tuple[str | None, int | None, int | None, str]
"""A label in front of a line, a rank, a local rank and a stream: what the prefixes of one writer have in common."""

NO_PREFIX: Key = (None, None, None, "")


class Writer(Struct, frozen=True):
    """The writer of lines of a file: ``known`` are surely its own, ``foreign`` other ranks'; ``alone``: nobody else writes there."""

    known: frozenset[int]
    alone: bool
    foreign: frozenset[int] = frozenset()

    def own(self, lines: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
        """The lines that it wrote and that say anything.

        The outermost tag of a line tells its writer, unless other ranks share that tag: ``2:`` of srun stands in front of every line of
        task 2, the ``[rank2]:`` behind it only in front of some.
        """
        told = [line for line in lines if message(line.text)]
        if self.alone:
            return self._without_others(told, lines)
        for key in (outer_tag, prefix):
            own = {key(line.text) for line in lines if line.number in self.known} - {NO_PREFIX}
            if not own & {key(line.text) for line in lines if line.number in self.foreign}:
                break
        return tuple(line for line in told if line.number in self.known or key(line.text) in own)

    def _without_others(self, told: Sequence[SourceLine], lines: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
        """The lines without those that a launcher tags as another process, whose lines no parser knows."""
        tags = [_launcher_tag(line.text) for line in lines if line.number in self.known]
        if None in tags:
            return tuple(told)
        return tuple(line for line in told if _launcher_tag(line.text) in (*tags, None))


def _launcher_tag(text: str) -> Key | None:
    """The label of srun or the local rank of torchrun in front of a line; None where it has neither."""
    label, mark, _ = _parts(text)
    return (label, None, mark.local_rank, "") if label is not None or mark.local_rank is not None else None


def outer_tag(text: str) -> Key:
    """The outermost tag in front of a line: that of srun, then of torchrun, then the rank."""
    label, mark, _ = _parts(text)
    if label is not None:
        return label, None, None, ""
    if mark.local_rank is not None:
        return None, None, mark.local_rank, mark.stream
    return None, mark.rank, None, mark.stream


def prefix(text: str) -> Key:
    """What the prefixes of a line tell of its writer."""
    label, mark, _ = _parts(text)
    return label, mark.rank, mark.local_rank, mark.stream


def printed_time_of(text: str) -> datetime | None:
    """The time in front of a line, as it is printed; None where it has none."""
    return _parts(text)[1].time


def message(text: str) -> str:
    """A line without its prefixes; "" where these are all there is."""
    return message_with_indent(text).strip()


def message_with_indent(text: str) -> str:
    """A line without its prefixes, with the white space in front that belongs to the message."""
    return _parts(text)[2]


def _parts(text: str) -> tuple[str | None, Mark, str]:
    label, rest = split_label(without_codes(text))
    mark, body = read_mark(rest)
    return label, mark, body
