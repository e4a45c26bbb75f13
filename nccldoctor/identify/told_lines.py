"""Sets right what lines tell once their ranks are known: exceptions in several files, and bars that count steps.

Under torchrun one traceback stands in the rank's own log, in the launcher's copy of that log, in ``error.json`` and in the launcher's
table of failures. They are one observation by one rank, and must not count as several.

Hugging Face's Trainer draws a bar without a name and prints losses beside it, while a bar of two files may look the same. A bar counts
steps where its writer tells of steps or losses elsewhere; alone it counts something that is not known. *Step 6* may be a step or a
heading: it is a step where its writer goes on from number to number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise, zip_longest

from msgspec.structs import replace

from nccldoctor.events import Event, Events, ExceptionRaised, Heartbeat, Progress
from nccldoctor.model import Source

_MESSAGE = 200
"""Characters of a message that all copies keep."""

_Indexed = tuple[int, ExceptionRaised]


def without_copies(events: Events, sources: Sequence[Source]) -> Events:
    """The events, with each exception of a rank once: at its fullest place, with the time of any.

    A file tells an exception as often as it was raised: of two files the last tellings belong together, then those before. Example: rank
    3 raised ``RuntimeError: Timed out waiting 5000ms`` at 12:00:05. Its log shows the frames and ``error.json`` the time: one event with
    both, in its log.
    """
    attempts = {source.id: source.attempt for source in sources if source.attempt is not None}
    alike: dict[tuple[int, str, str], list[_Indexed]] = defaultdict(list)
    for at in events.places_of(ExceptionRaised):
        event = events[at]
        if isinstance(event, ExceptionRaised) and event.rank is not None and event.message:
            alike[event.rank, event.type.rpartition(".")[2], event.message[:_MESSAGE]].append((at, event))
    kept: dict[int, Event] = {}
    dropped: set[int] = set()
    for same in alike.values():
        if len({_telling(event) for _, event in same}) > 1:
            for copies in _exceptions(same, attempts):
                (at, best), *others = sorted(copies, key=_order_of_fullness)
                every = (best, *(event for _, event in others))
                time, host = (
                    next((e.time for e in every if e.time), None),
                    next((e.host for e in every if e.host), None),
                )
                kept[at] = replace(
                    best, time=time, host=host, pid=next((e.pid for e in every if e.pid is not None), None)
                )
                dropped.update(at for at, _ in others)
    if not dropped:
        return events
    return Events(kept.get(at, event) for at, event in enumerate(events) if at not in dropped)


def _telling(event: ExceptionRaised) -> tuple[int, bool]:
    """What tells each exception once: a file, or the launcher's table in it."""
    return event.place.source, event.local_rank is not None


def _exceptions(same: Sequence[_Indexed], attempts: Mapping[int, int]) -> list[list[_Indexed]]:
    """The copies of each exception: those of several tellings of one attempt that stand equally far from the end."""
    tellings: dict[tuple[int, bool], list[_Indexed]] = defaultdict(list)
    for one in same:
        tellings[_telling(one[1])].append(one)
    found: list[list[_Indexed]] = []
    for copies in zip_longest(*(reversed(told) for told in tellings.values())):
        apart: list[list[_Indexed]] = []
        for one in filter(None, copies):
            fitting = (group for group in apart if all(_can_be_same(one[1], other, attempts) for _, other in group))
            group = next(fitting, None)
            if group is None:
                apart.append([one])
            else:
                group.append(one)
        found += apart
    return found


def _can_be_same(one: ExceptionRaised, other: ExceptionRaised, attempts: Mapping[int, int]) -> bool:
    """True unless they were raised in different places or attempts, or at times far apart. Launchers note when they saw the end."""
    first, second = (attempts.get(event.place.source) for event in (one, other))
    if first is not None and second is not None and first != second:
        return False
    if one.frame is not None and other.frame is not None and one.frame != other.frame:
        return False
    a, b = one.time, other.time
    is_comparable = a is not None and b is not None and (a.tzinfo is None) == (b.tzinfo is None) and a.year == b.year
    return not is_comparable or a is None or b is None or abs(a - b) <= timedelta(minutes=15)


def _order_of_fullness(told: _Indexed) -> tuple[bool, bool, bool, int]:
    """Sorts a traceback in a log before ``error.json``, the launcher's table, and a line without frames."""
    at, event = told
    return not event.frames, event.local_rank is not None, event.place.path.endswith(".json"), at


_FEWEST = 3
"""Growing numbers that make a loop."""


def with_counted_bars(events: Events) -> Events:
    """The events, with the bars and numbers that count steps by other lines of their writer."""
    bars = [e for e in events.of_kind(Progress) if not e.counts]
    if not bars:
        return events
    trainers = [e for e in events.of_kind(Heartbeat, Progress) if e.is_step]
    writers = {_writer(e) for e in trainers} | {("file", e.place.source) for e in trainers} | _loops(bars)
    counted = {id(bar): replace(bar, counts="steps") for bar in bars if _writer(bar) in writers}
    return Events(counted.get(id(e), e) for e in events) if counted else events


def _loops(bars: list[Progress]) -> set[tuple[str, int]]:
    """The writers of lone numbers that grow from line to line."""
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for bar in bars:
        if bar.step is not None and bar.total is None and bar.rate is None:
            numbers[_writer(bar)].append(bar.step)
    return {who for who, own in numbers.items() if len(own) >= _FEWEST and all(a < b for a, b in pairwise(own))}


def _writer(event: Heartbeat | Progress) -> tuple[str, int]:
    return ("file", event.place.source) if event.rank is None else ("rank", event.rank)
