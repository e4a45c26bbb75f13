"""Decides when a rank has stopped, in a shorter time than the watchdog takes."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

UNKNOWN_TIMEOUT_S = 300.0
"""Taken for the timeout before any group says its own: that of a TCPStore in PyTorch."""

SHARE = 1 / 3
FLOOR_S = 30.0
"""A stall is a third of the shortest timeout without progress, at least 30 s: checkpoints and evaluations take long, too."""

LATEST = 0.8
"""The share of the timeout after which the looks must be taken, whatever the floor says."""


READINGS, FASTEST_S = 100, 1.0
"""Readings of the shared folder in a second by all ranks together, and the shortest time between two by one rank."""

USUAL = 3.0
"""Times the longest pause until now that a rank must stand still, where the timeout leaves room for it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Seconds without progress that make a stall: at least ``least``, and at most ``most`` where longer pauses are usual."""

    least: float
    most: float

    def listing_s(self, world: int | None) -> float:
        """Seconds between two readings of the shared folder by each of ``world`` ranks (None: not known).

        All ranks together read it at most :data:`READINGS` times a second, and each at least twenty times before a stall counts.
        """
        often = self.least / 20
        return often if world is None else min(often, max(FASTEST_S, world / READINGS))


def stall_limit(timeout_s: float | None, asked: float | None) -> Limit:
    """The limit for groups of which the shortest timeout is ``timeout_s``; what the user ``asked`` for counts before it.

    Raises :class:`ValueError` where that is no time.
    """
    if asked is not None:
        if not 0 < asked < math.inf:
            raise ValueError(f"stall_after={asked} is no time")
        return Limit(asked, asked)
    known = timeout_s if timeout_s is not None else UNKNOWN_TIMEOUT_S
    return Limit(min(max(known * SHARE, FLOOR_S), known * LATEST), known * LATEST)


@dataclass(slots=True)
class Standstill:
    """How long one rank has shown the same signs of progress.

    ``longest`` is the longest pause that ended, in seconds; ``looks`` are the times of those of the stall that goes on. Looks that follow
    each other closely count as one: several ranks ask at the same moment.
    """

    limit: Limit
    since: float
    signs: Hashable = None
    longest: float = 0.0
    looks: list[float] = field(default_factory=list)

    MOST_LOOKS = 2
    """Two looks show what moves in between; more add disk, not evidence."""

    def has_changed(self, signs: Hashable, now: float) -> bool:
        """True where the signs at ``now`` (seconds of any clock) differ from the last ones, which they replace."""
        if signs == self.signs:
            return False
        if self.signs is not None:
            self.longest = max(self.longest, now - self.since)
        self.signs, self.since, self.looks = signs, now, []
        return True

    def note_look(self, now: float) -> None:
        """Count a look, unless it is part of the last one."""
        if not self.looks or now - self.looks[-1] >= self.pause / 2:
            self.looks.append(now)

    def is_due(self, now: float) -> bool:
        """True where it is time for the first look of a stall, or for the next one."""
        if now - self.since < self.seconds or len(self.looks) >= self.MOST_LOOKS:
            return False
        return not self.looks or now - self.looks[-1] >= self.pause

    @property
    def seconds(self) -> float:
        """Seconds without progress that make a stall of this rank."""
        return min(max(self.limit.least, USUAL * self.longest), self.limit.most)

    @property
    def pause(self) -> float:
        """Seconds between the looks of one stall: a tenth of the limit, between 2 and 20."""
        return min(max(self.seconds / 10, 2.0), 20.0)
