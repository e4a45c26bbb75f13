"""Jobs told by texts that libraries, launchers and tools print, each with its truth: ``make(seed)`` writes the next scene.

A third author beside ``tests/simulator`` and ``tests/staged``, which play a whole job: here a scene is what one of many programs says
of one fault (Horovod's list of ready ranks, the report of a monitored barrier, two stacks). Sizes, ranks, numbers and times are drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Files = dict[str, str | bytes]


@dataclass(frozen=True)
class Quoted:
    """What a scene leaves: the class, the culprits that its files tell (none where they leave them open), and the files."""

    cls: str
    culprits: tuple[int, ...]
    files: Files

    def write(self, folder: Path) -> Path:
        """Write the files below ``folder``; returns it."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder


Make = Callable[[random.Random], Quoted]
SCENES: dict[str, tuple[Make, tuple[str, ...]]] = {}
"""By name: what makes a job of it, and the places of ``tests/budgets/reach.toml`` that it is there for."""


def scene(*reaches: str) -> Callable[[Make], Make]:
    """Registers a scene under the name of its function, with the places that it reaches."""

    def add(make: Make) -> Make:
        SCENES[make.__name__] = (make, reaches)
        return make

    return add


def make(seed: int, *, scenario: str | None = None) -> Quoted:
    """The job of a seed: each seed plays the next scene, and draws anew when all were played."""
    from quoted.scenes import dumps, frameworks, lines, looks, setup

    assert all((dumps, frameworks, lines, looks, setup))
    name = scenario or sorted(SCENES)[seed % len(SCENES)]
    return SCENES[name][0](random.Random(f"{name} {seed}"))
