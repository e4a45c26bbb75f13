"""Finds texts whose lines are not in the order in which a rank wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nccldoctor.events import Event
from nccldoctor.model import Gap, Source
from nccldoctor.model.ranks import Ranks

TOLERATED = 0.01
"""Seconds that threads of a process may cross each other."""

WHY = "the times of its lines go back: they are not in the order in which they were written"


def line_gaps(events: Iterable[Event], sources: Iterable[Source]) -> Iterator[Gap]:
    """A gap for each text in which one rank's lines of one kind go back in time.

    One logger writes lines of a kind in their order. Lines of several kinds may cross, since a buffered stream arrives late. Only
    times with a fraction of a second count: others are cut.
    """
    before: dict[tuple[int, int, type[Event]], Event] = {}
    unordered: dict[int, set[int]] = {}
    for event in events:
        if event.rank is None or event.time is None or event.place.line is None or not event.time.microsecond:
            continue
        key = (event.place.source, event.rank, type(event))
        if _is_earlier(event, before.get(key)):
            unordered.setdefault(event.place.source, set()).add(event.rank)
        before[key] = event
    for source in sources:
        if source.id in unordered:
            yield Gap(source.path, WHY, Ranks(unordered[source.id]), source.id, odd=True)


def _is_earlier(event: Event, than: Event | None) -> bool:
    before, after = than.time if than is not None else None, event.time
    if before is None or after is None or (before.tzinfo is None) != (after.tzinfo is None):
        return False
    return TOLERATED < (before - after).total_seconds() < 12 * 3600  # beyond, a clock without a date passed midnight
