"""Finds out what progress bars without a name count.

Hugging Face's Trainer draws a bar without a name and prints losses beside it, while a bar of two files may look the same. A bar counts
steps where its writer tells of steps or losses elsewhere; alone it counts something that is not known.
"""

from __future__ import annotations

from dataclasses import replace

from nccldoctor.events import Events, Heartbeat, Progress


def with_counted_bars(events: Events) -> Events:
    """The events, with the bars that count steps by the other lines of their rank, else of their file."""
    bars = [e for e in events.of_kind(Progress) if not e.counts]
    if not bars:
        return events
    trainers = [e for e in events.of_kind(Heartbeat, Progress) if e.is_step]
    ranks, files = {e.rank for e in trainers}, {e.place.source for e in trainers}

    def is_of_trainer(bar: Progress) -> bool:
        return bar.place.source in files if bar.rank is None else bar.rank in ranks

    counted = {id(bar): replace(bar, counts="steps") for bar in bars if is_of_trainer(bar)}
    return Events(counted.get(id(e), e) for e in events) if counted else events
