"""Says how far one rank has come in one process group."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.events import Event

UNORDERED = 1 << 60
"""Position of a call that only a log line names: after everything that was recorded."""


class GroupProgress(Struct, frozen=True):
    """How far one rank has come in one group, in sequence numbers of that group.

    ``enqueued`` is the last call that its host issued, ``completed`` the last one that its device finished (-1: none). ``pending``
    is the first call that did not complete (None: all did) and ``row`` its row in the table of calls (-1: known from a line or a
    counter only). ``position`` is its place in the rank's own order over all groups, ``started`` is true when its kernel is known
    to run. ``oldest`` is the first number that the ring still holds. ``known_by`` is ``dump``, ``status`` (counters of a dump),
    ``log``, or the observer that counted calls; ``event`` is the line it was learned from.

    Rank 3 issued #18 and completed #16: ``enqueued`` is 18, ``completed`` 16, ``pending`` 17.
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
