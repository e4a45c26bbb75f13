"""Finds out what progress bars without a name and numbers without a loss count.

Hugging Face's Trainer draws a bar without a name and prints losses beside it, while a bar of two files may look the same. A bar counts
steps where its writer tells of steps or losses elsewhere; alone it counts something that is not known. *Step 6* may be a step or a
heading: it is a step where its writer goes on from number to number.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from msgspec.structs import replace

from nccldoctor.events import Events, Heartbeat, Progress

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
