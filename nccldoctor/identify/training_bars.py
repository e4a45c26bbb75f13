"""Finds out what progress bars without a name count.

Hugging Face's Trainer draws a bar without a name and prints losses beside it, while a bar of two files may look the same. A bar counts
steps where its writer tells of steps or losses elsewhere; alone it counts something that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nccldoctor.events import Event, Heartbeat, Progress


def with_counted_bars(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events, with the bars that count steps by the other lines of their rank, else of their file."""
    events = tuple(events)
    trainers = [e for e in events if isinstance(e, Heartbeat | Progress) and e.is_step]
    ranks, files = {e.rank for e in trainers}, {e.place.source for e in trainers}

    def is_of_trainer(bar: Progress) -> bool:
        return bar.place.source in files if bar.rank is None else bar.rank in ranks

    return tuple(
        replace(e, counts="steps") if isinstance(e, Progress) and not e.counts and is_of_trainer(e) else e
        for e in events
    )
