"""Counts the looks at a job: all stacks of one look were taken at about the same time.

The path of a stack names its look (``stacks-2/``, ``08-44-28``). Where it does not, the second stack of a process is of the second
look. Files of one look may differ by seconds: ``rank_0.08-44-28`` and ``rank_1.08-44-29`` are one look, because no process is in both.
A file that lies in a bundle and beside it is one look, too. Looks that all have a time are counted in the order of their times.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime, time, timedelta

from msgspec.structs import replace

from nccldoctor.events import Event, Events, ProcessState, Stack
from nccldoctor.identify.event_times import YEARLESS
from nccldoctor.model import Source


def with_looks(events: Events, sources: Mapping[int, Source]) -> Events:
    """The events, stacks and states of processes with the number and the time of their look."""
    looked = events.of_kind(Stack, ProcessState)
    if not looked:
        return events
    # lines with a zone only where no others have one
    times = [e.time for e in events if e.time is not None and e.time.year != YEARLESS]
    naive = [t for t in times if t.tzinfo is None]
    newest = max(naive or times, default=None)
    taken = {s.id: _time_of_look(s.taken, newest) for s in sources.values() if s.taken is not None}
    counted = [e for e in looked if _is_counted(e)]
    numbers = _by_time(_numbers(counted, sources), {id(e): e.time or taken.get(e.place.source) for e in counted})
    of_source = {e.place.source: numbers[id(e)] for e in looked if id(e) in numbers}
    return Events(
        replace(
            e,
            look=numbers.get(id(e), of_source.get(e.place.source, 0)),
            time=e.time if e.time is not None else taken.get(e.place.source),
        )
        if isinstance(e, Stack | ProcessState)
        else e
        for e in events
    )


def _is_counted(event: Event) -> bool:
    """True of a main thread, and of the error that a tool printed instead of it."""
    return event.main if isinstance(event, Stack) else isinstance(event, ProcessState) and event.tool == "stack tool"


def process_of(event: Event) -> Hashable:
    """The rank of a process, else its host and pid, else its file and the number of its main thread."""
    if event.rank is not None:
        return event.rank
    if event.pid is not None:
        return event.host or "", event.pid
    return event.place.path.rpartition("/")[2], event.ident if isinstance(event, Stack) else None


def _numbers(events: Iterable[Event], sources: Mapping[int, Source]) -> dict[int, int]:
    """The look of each event, by its id; a copy has that of its original."""
    originals: dict[Hashable, Event] = {}
    copies: dict[int, Event] = {}
    groups: dict[tuple[str, str], dict[Hashable, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in sorted(events, key=lambda e: (_natural(e.place.path), e.place.line or 0)):
        source = sources[event.place.source]
        original = originals.setdefault(_identity_of_copies(event, source), event)
        if original.place.source != event.place.source:
            copies[id(event)] = original
            continue
        # the clocks of hosts differ, their counts do not
        taken = str(source.taken or "") if source.collected is None else ""
        groups[taken, source.look][process_of(event)].append(event)
    numbers: dict[int, int] = {}
    number, seen = 0, set[Hashable]()
    for key in sorted(groups, key=lambda key: (key[0], _natural(key[1]))):
        for depth in range(max(map(len, groups[key].values()))):
            layer = {process: taken[depth] for process, taken in groups[key].items() if depth < len(taken)}
            if not number or depth or seen & layer.keys() or not any(key):
                number, seen = number + 1, set()
            seen |= layer.keys()
            numbers |= {id(event): number for event in layer.values()}
    return numbers | {copy: numbers[id(original)] for copy, original in copies.items()}


def _identity_of_copies(event: Event, source: Source) -> Hashable:
    """What a file and its copy share: the names of file and folder, line, time, process and frames. Two looks differ in one of them."""
    if source.taken is None:
        return id(event)
    shown = event.frames if isinstance(event, Stack) else event.text
    return tuple(event.place.path.split("/")[-2:]), event.place.line, str(source.taken), process_of(event), shown


def _by_time(numbers: Mapping[int, int], times: Mapping[int, datetime | None]) -> dict[int, int]:
    """The same looks in the order of their median times; as they were where one look has none."""
    of_look: dict[int, list[datetime]] = defaultdict(list)
    for event, number in numbers.items():
        if (at := times.get(event)) is not None:
            of_look[number].append(at)
    every = [at for own in of_look.values() for at in own]
    if len(of_look) < len(set(numbers.values())) or len({at.tzinfo is None for at in every}) > 1:
        return dict(numbers)
    median = {number: sorted(own)[len(own) // 2] for number, own in of_look.items()}
    order = {number: place for place, number in enumerate(sorted(median, key=lambda n: (median[n], n)), 1)}
    return {event: order[number] for event, number in numbers.items()}


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """A key that puts ``stacks-10`` behind ``stacks-9``."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text))


def _time_of_look(taken: datetime | time, newest: datetime | None) -> datetime | None:
    """When a look was taken, on the clock of the lines. Without a date it is the time nearest to the newest line."""
    if isinstance(taken, datetime):
        if newest is None or (taken.tzinfo is None) == (newest.tzinfo is None):
            return taken
        return taken.replace(tzinfo=newest.tzinfo) if taken.tzinfo is None else taken
    if newest is None:
        return None
    near = datetime.combine(newest.date(), taken, newest.tzinfo or None)
    days = (near + timedelta(days=offset) for offset in (-1, 0, 1))
    return min(days, key=lambda day: abs(day - newest))
