"""Bounds the events that are kept of one source: of those that repeat, the first, the last and a sample.

A job that restarts all night prints the same timeouts a million times. Each kind, each writer within a kind and each wording
of one writer gets a fair share of the room, so that a single ``Xid 79`` stays among a million of ``Xid 31``.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from operator import attrgetter

from nccldoctor.events import KINDS, Event
from nccldoctor.model import Gap, Source

_COMMON = frozenset(Event.__struct_fields__)
_DIGITS = re.compile(r"\d+")


class Retention:
    """The events of one source in the order of their lines: ``room`` at the end, twice as many at most.

    ``counted`` is the number of all that were added. Adding the same events in the same order always keeps the same ones.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.counted = 0
        self.kept: list[Event] = []
        self._shares: list[Shares] = []  # of those that were kept the last time
        self._lines = array("q")

    def retain(self, events: Sequence[Event]) -> None:
        """Add the events of one line, which is not before the last one."""
        self.pass_over(len(events), events[0].place.line or 0)
        self.kept.extend(events)
        if len(self.kept) > 2 * self.room:
            self._shares += map(shares_of, self.kept[len(self._shares) :])
            indices = kept_places(self._shares, self.room)
            self.kept = [self.kept[i] for i in indices]
            self._shares = [self._shares[i] for i in indices]

    def pass_over(self, count: int, line: int) -> None:
        """Count events of this line, which is not before the last one."""
        self.counted += count
        if count and (not self._lines or self._lines[-1] != line):
            self._lines.append(line)

    def lines_with(self, others: Iterable[Event]) -> int:
        """The number of lines on which these or the added events stand, the dropped ones included."""
        known = frozenset(event.place.line or 0 for event in others)
        return len(known) + sum(line not in known for line in self._lines)

    def gaps(self, source: Source) -> list[Gap]:
        """What the coverage says of the events that were counted and not kept."""
        dropped = self.counted - len(self.kept)
        why = f"{dropped} of {self.counted} records repeat others: counted, not kept"
        return [Gap(source.path, why, source=source.id)] if dropped else []


Shares = tuple[Hashable, Hashable, Hashable]
"""What the room is shared by, one after the other: the kind of an event, its writer, and what it says."""


def shares_of(event: Event) -> Shares:
    """The shares that an event belongs to."""
    writer = event.rank if event.rank is not None else (event.group_rank, event.host, event.pid)
    _, group, *own = _group_and_details(event.kind)(event)
    found: list[object] = [group]
    for value in own:
        if isinstance(value, str):
            found.append(_DIGITS.sub("0", value[:80]))
        elif not isinstance(value, int) or value < 1_000:  # larger ones are no Xid and no exit code
            found.append(value if isinstance(value, int) else value is None)
    return event.kind, writer, tuple(found)


@cache
def _group_and_details(kind: str) -> Callable[[Event], tuple[object, ...]]:
    """What gives the group of an event of this kind, and its fields beside those of all."""
    own = [name for name in KINDS[kind].__struct_fields__ if name not in _COMMON]
    return attrgetter("kind", "group", *own)


def kept_places(shares: Sequence[Shares], room: int) -> list[int]:
    """The indices of at most ``room`` of the events that have these shares, in their order."""
    return sorted(_among(range(len(shares)), shares, 0, room))


def _among(places: Sequence[int], shares: Sequence[Shares], level: int, room: int) -> list[int]:
    """The indices, out of ``places``, of the events that are kept; the shares from ``level`` on tell them apart."""
    if len(places) <= room:
        return list(places)
    if level == len(shares[0]):
        return _ends_and_sample(places, room)
    parts: dict[Hashable, list[int]] = defaultdict(list)
    for i in places:
        parts[shares[i][level]].append(i)
    if len(parts) > room:
        return _ends_and_sample([part[0] for part in parts.values()], room)
    out: list[int] = []
    left = room
    by_size = sorted(parts.values(), key=len)  # what a small part leaves over goes to the larger ones
    for n, part in enumerate(by_size):
        share = min(len(part), left // (len(by_size) - n))
        out += _among(part, shares, level + 1, share)
        left -= share
    return out


def _ends_and_sample(among: Sequence[int], room: int) -> list[int]:
    """A third of the room for the first, a third for the last, and evenly chosen ones between."""
    if room <= 1:
        return list(among[-room:]) if room else []
    head = max(1, room // 3)
    middle, between = among[head:-head], room - 2 * head
    sample = [middle[k * len(middle) // between] for k in range(between)]
    return [*among[:head], *sample, *among[-head:]]
