"""Values of a track: what a rank did, and the bounds of when it began to."""

from __future__ import annotations

import math
from enum import StrEnum

from msgspec import Struct

from nccldoctor.align.first_pending import Key
from nccldoctor.events import Event


class Doing(StrEnum):
    """What a rank did.

    ``STEPPED``: printed a step. ``WORKED``: printed a phase, such as a checkpoint. ``CALLED``: issued a call that hangs. ``STOOD``: its
    stack was taken. ``RAISED``: an exception of its own work. ``GAVE_UP``: its own timer fired. ``TOLD``: it answered the dump signal of a
    peer. ``LOST``: a call of it failed because of others. ``STOPPED``: a signal had stopped it. ``TORN_DOWN``: it was being ended.
    ``ENDED``: its process was gone.
    """

    STEPPED = "stepped"
    WORKED = "worked"
    CALLED = "in call"
    STOOD = "stood"
    RAISED = "raised"
    GAVE_UP = "gave up"
    TOLD = "told to dump"
    LOST = "lost others"
    STOPPED = "stopped"
    TORN_DOWN = "torn down"
    ENDED = "ended"


class Bounds(Struct, frozen=True):
    """When something began: not before ``earliest``, not after ``latest``, in seconds on the job's clock, infinite where unknown.

    ``known_by`` says what the bounds rest on: ``recorder``, ``own timer`` (the alarm less what the call ran), ``silent timer`` (a limit
    that had not run out at a line), ``line`` (its time) or ``order`` (lines around it in its file).
    """

    earliest: float = -math.inf
    latest: float = math.inf
    known_by: str = "order"

    @classmethod
    def at(cls, seconds: float, known_by: str = "line") -> Bounds:
        """One moment; no bounds where it is not known (NaN)."""
        return cls() if math.isnan(seconds) else cls(seconds, seconds, known_by)


class Span(Struct, frozen=True):
    """One thing that a rank did, with the line or the recorder row that shows it.

    ``key`` and ``row`` are those of a stuck call (None and -1: no call, no recorder entry).
    """

    doing: Doing
    what: str
    began: Bounds
    event: Event | None = None
    key: Key | None = None
    row: int = -1


class Track(Struct, frozen=True):
    """What a rank did, oldest first. ``silence`` says why no more is known, where that is known: ``no file of it was read``."""

    rank: int
    spans: tuple[Span, ...]
    silence: str = ""
