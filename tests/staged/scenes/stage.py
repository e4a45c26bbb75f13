"""The register of scenes, and what a scene may change of the programs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from staged.plan import Call, Group, Plan, Program
from staged.play import Scene


@dataclass
class Stage:
    """The job before it goes wrong; ``at`` is the step in which it does."""

    plan: Plan
    programs: list[Program]
    at: int

    @property
    def rng(self) -> random.Random:
        """The chance of this job."""
        return self.plan.rng

    def someone(self) -> int:
        """Any rank; often the first or the last."""
        return self.rng.choice([0, self.plan.world - 1, *[self.rng.randrange(self.plan.world) for _ in range(6)]])

    def place(self, rank: int, role: str = "", last: bool = True) -> int:
        """A place among the collectives of a step of that rank (``last``: also its final call)."""
        calls = self.programs[rank][self.at]
        fits = [i for i, c in enumerate(calls) if c.peer is None and role in ("", c.group.role)]
        fits = [i for i in fits if last or i + 1 < len(calls)] or fits
        return self.rng.choice(fits)

    def group(self, rank: int, place: int) -> Group:
        """The group of the call at that place."""
        return self.programs[rank][self.at][place].group

    def change(self, rank: int, place: int, **fields: Any) -> None:
        """The rank issues another call there."""
        calls = list(self.programs[rank][self.at])
        calls[place] = replace(calls[place], **fields)
        self.programs[rank][self.at] = calls

    def rewrite(self, rank: int, calls: list[Call]) -> None:
        """The rank does something else in that step."""
        self.programs[rank][self.at] = calls

    def leave(self, scene: Scene, rank: int, doing: str) -> Scene:
        """The rank stops before some call of the step, and stands elsewhere."""
        scene.away[rank] = (self.at, self.place(rank))
        scene.doing[rank] = doing
        return scene


Make = Callable[[Stage], Scene]
SCENES: dict[str, tuple[Make, dict[str, object]]] = {}
STRANGE: dict[str, tuple[Make, dict[str, object]]] = {}
"""Scenes of :func:`strange`, by name. Apart from the others, for which seeds stand in measurements."""


def scene(**needs: object) -> Callable[[Make], Make]:
    """Registers a scene under the name of its function; ``needs`` fix what chance would draw."""

    return _registered(SCENES, needs)


def strange(**needs: object) -> Callable[[Make], Make]:
    """Registers a scene that no seed draws: it is asked for by name."""
    return _registered(STRANGE, needs)


def _registered(
    register: dict[str, tuple[Make, dict[str, object]]], needs: dict[str, object]
) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        register[make.__name__] = (make, needs)
        return make

    return add
