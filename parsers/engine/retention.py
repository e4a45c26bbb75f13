"""Bounds the events that are kept of one source: of those that repeat, the first, the last and a sample.

A job that restarts all night prints the same timeouts a million times. Each kind, each writer within a kind and each wording
of one writer gets a fair share of the room, so that a single ``Xid 79`` stays among a million of ``Xid 31``.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields
from functools import cache

from nccldoctor.events import KINDS, Event
from nccldoctor.model import Gap, Source

_COMMON = frozenset(field.name for field in fields(Event))
_LARGEST_CODE = 1_000  # larger numbers count something or name a process; smaller ones may be an Xid or an exit code
_CHARS = 80
_DIGITS = re.compile(r"\d+")


class Retention:
    """The events of one source in the order of their lines: ``room`` at the end, twice as many at most.

    ``counted`` is the number of all that were added. Adding the same events in the same order always keeps the same ones.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.counted = 0
        self.kept: list[Event] = []
        self._lines = array("q")

    def retain(self, events: Sequence[Event]) -> None:
        """Add the events of one line, which is not before the last one."""
        self.counted += len(events)
        self.kept.extend(events)
        line = events[0].place.line or 0
        if not self._lines or self._lines[-1] != line:
            self._lines.append(line)
        if len(self.kept) > 2 * self.room:
            self.kept = thinned(self.kept, self.room)

    def lines_with(self, others: Iterable[Event]) -> int:
        """The number of lines on which these or the added events stand, the dropped ones included."""
        known = frozenset(event.place.line or 0 for event in others)
        return len(known) + sum(line not in known for line in self._lines)

    def gaps(self, source: Source) -> list[Gap]:
        """What the coverage says of the events that were counted and not kept."""
        dropped = self.counted - len(self.kept)
        why = f"{dropped} of {self.counted} records repeat others: counted, not kept"
        return [Gap(source.path, why, source=source.id)] if dropped else []


def thinned(events: list[Event], room: int) -> list[Event]:
    """At most ``room`` of the events, in their order."""
    return [events[i] for i in sorted(_chosen(events, range(len(events)), room, _SHARES))]


@cache
def _own_fields(kind: str) -> tuple[str, ...]:
    """The fields that a kind of event has beside those of all."""
    return tuple(field.name for field in fields(KINDS[kind]) if field.name not in _COMMON)


def _subject(event: Event) -> Hashable:
    """What an event says beside its numbers: the names and the small codes among its details."""
    found: list[object] = []
    for name in _own_fields(event.kind):
        value = getattr(event, name)
        if isinstance(value, str):
            found.append(_DIGITS.sub("0", value[:_CHARS]))
        elif not isinstance(value, int) or value < _LARGEST_CODE:
            found.append(value if isinstance(value, int) else value is None)
    return (event.group, *found)


def _writer(event: Event) -> Hashable:
    if event.rank is not None:
        return event.rank
    return event.group_rank, event.host, event.pid


_SHARES: tuple[Callable[[Event], Hashable], ...] = (lambda event: event.kind, _writer, _subject)
"""What the room is shared by, one after the other."""


def _chosen(
    events: list[Event], among: Sequence[int], room: int, shares: tuple[Callable[[Event], Hashable], ...]
) -> list[int]:
    """The indices, out of ``among``, of the events that are kept."""
    if len(among) <= room:
        return list(among)
    if not shares:
        return _ends_and_sample(among, room)
    parts: dict[Hashable, list[int]] = defaultdict(list)
    for i in among:
        parts[shares[0](events[i])].append(i)
    if len(parts) > room:
        heads = [part[0] for part in parts.values()]
        return _ends_and_sample(heads, room)
    out: list[int] = []
    left = room
    by_size = sorted(parts.values(), key=len)  # what a small part leaves over goes to the larger ones
    for n, part in enumerate(by_size):
        share = min(len(part), left // (len(by_size) - n))
        out += _chosen(events, part, share, shares[1:])
        left -= share
    return out


def _ends_and_sample(among: Sequence[int], room: int) -> list[int]:
    """A third of the room for the first, a third for the last, and evenly chosen ones between."""
    if room <= 1:
        return list(among[-room:]) if room else []
    head = max(1, room // 3)
    tail = max(1, room // 3)
    middle = among[head : len(among) - tail]
    between = room - head - tail
    sample = [middle[k * len(middle) // between] for k in range(between)]
    return [*among[:head], *sample, *among[len(among) - tail :]]
