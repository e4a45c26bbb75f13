"""Gives the time, and waits: tests bring a clock of their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What code that watches a job needs of time."""

    def now(self) -> float:
        """Seconds since the epoch, as files count them."""

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class WallClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)
