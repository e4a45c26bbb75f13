"""How far one rank came in one group, whoever tells it."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.events import Event

UNORDERED = 1 << 60
"""Position of a call that is known from a line only: after everything that was recorded."""


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far one rank came in one group; sequence numbers, -1 where nothing was issued, finished or started.

    ``pending`` is the first call that did not complete (None: all did), ``row`` its row in the table of calls (-1: known from
    a line or a counter only), ``position`` its place in the rank's own order over all groups, ``started`` whether its kernel is
    known to run. ``oldest`` is the first number still in the ring: what was before it is not known.
    ``known_by`` is ``dump``, ``status`` (counters of a dump), ``log``, or who counted launches; ``event`` the line it was learned from.
    """

    group: int
    rank: int
    enqueued: int
    completed: int
    pending: int | None = None
    row: int = -1
    position: int = UNORDERED
    started: bool = False
    oldest: int = 0
    known_by: str = "dump"
    event: Event | None = None
