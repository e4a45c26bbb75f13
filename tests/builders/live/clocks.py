"""A clock that stands still until somebody sleeps by it."""

from __future__ import annotations

from collections.abc import Callable


class FakeClock:
    """Starts at ``at`` seconds since the epoch; ``on_sleep`` is called with the new time after each sleep."""

    def __init__(self, at: float = 1_780_000_000.0, on_sleep: Callable[[float], None] = lambda now: None) -> None:
        self.at = at
        self.on_sleep = on_sleep
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
        self.on_sleep(self.at)
