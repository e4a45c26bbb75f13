"""Registers the scenarios: each edits healthy programs and states its class and the ranks at fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulator.program import Call, Group, Instruction, Issue, Job, Program
from simulator.steps import Model


@dataclass(slots=True)
class Fault:
    """A scenario as it was played. ``call``: the call it is about; ``position``: where in the fault step."""

    cls: str = ""
    scenario: str = ""
    what: str = ""
    culprits: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()  # other right answers
    rank_sets: tuple[tuple[int, ...], ...] = ()  # other right sets
    group: Group | None = None
    call: Call | None = None
    hang: bool = True
    slow: dict[int, float] = field(default_factory=dict)
    traits: dict[str, Any] = field(default_factory=dict)  # what writers of lines need: echo, xid, text of an error …
    suspects: tuple[int, ...] = ()
    ends: dict[int, tuple[float, int]] = field(default_factory=dict)  # rank → seconds after the stall, exit code


@dataclass(slots=True)
class Stage:
    """All that a scenario may change. ``at``: index of the fault step in every program."""

    job: Job
    model: Model
    rng: random.Random
    programs: list[Program]
    at: int

    def step(self, rank: int) -> list[Instruction]:
        return self.programs[rank][self.at]

    def replace_step(self, rank: int, instructions: list[Instruction]) -> None:
        self.programs[rank][self.at] = instructions

    def cut(self, rank: int, position: int, *instead: Instruction) -> None:
        """The rank does something else from that position on, and nothing after it."""
        self.programs[rank] = [*self.programs[rank][: self.at], [*self.step(rank)[:position], *instead]]

    def issues(self, rank: int, want: Callable[[Call], bool] = lambda call: True) -> list[int]:
        """Positions in the fault step where that rank issues such a call."""
        return [k for k, i in enumerate(self.step(rank)) if isinstance(i, Issue) and want(i.call)]

    def call(self, rank: int, position: int) -> Call:
        issue = self.step(rank)[position]
        assert isinstance(issue, Issue)
        return issue.call

    def change(self, rank: int, position: int, call: Call) -> None:
        """That rank issues another call at this position."""
        issue = self.step(rank)[position]
        assert isinstance(issue, Issue)
        steps = list(self.step(rank))
        steps[position] = issue._replace(call=call)
        self.replace_step(rank, steps)

    def someone(self) -> int:
        return self.rng.randrange(self.job.knobs.world)


Play = Callable[[Stage], Fault]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario's class, its play, and the knobs that it needs (values, or choices as a tuple)."""

    cls: str
    play: Play
    needs: dict[str, Any]
    what: str


SCENARIOS: dict[str, Scenario] = {}


def scenario(cls: str, what: str, **needs: Any) -> Callable[[Play], Play]:
    """Register a scenario under the name of its function."""

    def add(play: Play) -> Play:
        SCENARIOS[play.__name__] = Scenario(cls, play, needs, what)
        return play

    return add
