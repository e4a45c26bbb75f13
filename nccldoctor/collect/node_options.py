"""What is asked of a node."""

from __future__ import annotations

from msgspec import Struct

PATIENCE = 30.0
"""Seconds that a node gets on top of its own limit to end its answer."""


class NodeOptions(Struct, frozen=True):
    """What is asked of a node: ``pid`` is ``all`` or process ids with commas.

    ``where`` are variables (NAME=VALUE) that a process must have.
    ``gdb`` lets tools read stacks that stop a process for seconds.
    ``twice`` is the number of seconds between two looks, 0 for one look; ``seconds`` and ``limit_mb`` bound the whole answer.
    """

    pid: str = "all"
    where: tuple[str, ...] = ()
    twice: float = 0.0
    seconds: float = 90.0
    limit_mb: int = 512
    gdb: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The options as words of a command line, behind ``python3 -``."""
        more = [word for pair in self.where for word in ("--where", pair)]
        stacks = ("--gdb",) if self.gdb else ()
        twice = ("--twice", f"{self.twice:g}") if self.twice else ()
        limits = ("--seconds", f"{self.seconds:g}", "--limit-mb", str(self.limit_mb))
        return ("--pid", self.pid, *more, *stacks, *twice, *limits)

    @property
    def patience(self) -> float:
        """Seconds after which a node that has not ended its answer is given up."""
        return self.seconds + self.twice + PATIENCE
