"""The whole answer, and what it says of the job, its ranks and the course of events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from nccldoctor.model.figures import CallDiff, Lateness, StackDiff, Timeline
from nccldoctor.model.findings import Avoid, Condition, Finding, RemedyAdvice
from nccldoctor.model.inputs import Group, Place, Source
from nccldoctor.model.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Job:
    """What is known about the job as a whole.

    ``world_guessed`` where nothing states ``world_size``: then it is one more than the highest rank that was heard of.
    """

    world_size: int | None
    hosts: tuple[str, ...]
    torch: str | None
    nccl: str | None
    groups: tuple[Group, ...]
    world_guessed: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was found of one kind of input, against what the job would leave."""

    input: str
    expected: Ranks
    found: Ranks
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """May the job be restarted as it is: ``now``, ``after-fix``, ``after-replacing-node``, ``unknown``."""

    restart: str
    why: str
    cordon: tuple[str, ...] = ()


class Role(StrEnum):
    """What a rank is in the incident."""

    CULPRIT = "culprit"
    SUSPECT = "suspect"
    VICTIM = "victim"
    UNINVOLVED = "uninvolved"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RankState:
    """One row of *progress by rank*: where the rank stands in the group that matters most for it.

    ``completed`` and ``enqueued`` are its two fronts in ``group`` (None: not known); ``waits_in`` is the call
    it waits in; ``last_sign`` the last thing seen of it, in words, with ``where``.
    """

    rank: int
    role: Role
    host: str | None = None
    device: str | None = None
    pid: int | None = None
    group: str | None = None
    completed: int | None = None
    enqueued: int | None = None
    waits_in: str | None = None
    last_sign: str = ""
    where: Place | None = None


@dataclass(frozen=True, slots=True)
class Alarm:
    """Who complained first; most often a victim."""

    rank: int | None
    where: Place | None = None
    time: datetime | None = None


class EventRole(StrEnum):
    """What an event is in the story of an incident."""

    INITIATING = "initiating"
    CASCADE = "cascade"
    TEAR_DOWN = "tear-down"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """One row of the story: an event, or several that say the same of ``ranks`` (``count`` of them, ``where`` the first).

    ``cause`` marks the first cause that fits the verdict; at most one row has it. ``time`` is as printed, but for a host whose
    clock was found wrong and set right.
    """

    role: EventRole
    kind: str
    says: str
    where: Place
    time: datetime | None = None
    ranks: Ranks = field(default_factory=Ranks)
    host: str | None = None
    count: int = 1
    cause: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole answer, as plain values; reports show this and nothing else.

    ``findings[0]`` is the verdict. ``capture`` holds the settings that would have told more, ready to
    paste; ``ruled_out`` the hypotheses that were looked at, with met False (ruled out) or None (not checked).
    ``alarm`` is the first complaint in the input; ``catalogue`` names the remedies that were asked ("42 remedies").
    ``run_up``, ``timeline``, ``stacks`` and ``streams`` are what the pictures are drawn from, None where the input holds nothing of it.
    ``story`` is what happened, in order, with the first cause that fits. ``notices`` say what of the input the answer does not rest on:
    files of other runs, and files that could not be read.
    """

    findings: tuple[Finding, ...]
    remedies: tuple[RemedyAdvice, ...]
    avoid: tuple[Avoid, ...]
    job: Job
    coverage: tuple[Coverage, ...]
    action: Action
    ranks: tuple[RankState, ...]
    sources: tuple[Source, ...] = ()
    ruled_out: tuple[Condition, ...] = ()
    capture: tuple[str, ...] = ()
    alarm: Alarm | None = None
    catalogue: str = ""
    run_up: Lateness | None = None
    timeline: Timeline | None = None
    stacks: StackDiff | None = None
    streams: CallDiff | None = None
    story: tuple[IncidentEvent, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def verdict(self) -> Finding:
        """The first finding: what the job as a whole suffers from."""
        return self.findings[0]
