"""What a job shows of itself while it runs: heartbeats, progress, phases outside the step, stacks, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nccldoctor.events.base import Event, kind


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Event):
    """A line in which a rank says that it lives and where it is."""

    kind: ClassVar[str] = "heartbeat"
    step: int | None = None
    epoch: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Event):
    """A progress bar or trainer line. ``total`` steps, ``rate`` in steps per second, ``label`` what the bar is about."""

    kind: ClassVar[str] = "progress"
    step: int | None = None
    epoch: int | None = None
    total: int | None = None
    rate: float | None = None
    label: str | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(Event):
    """A line that says what a rank is doing outside the step: ``what`` is checkpoint, evaluation, sampling, data,
    compile, epoch-end, finished, starting, ready.
    """

    kind: ClassVar[str] = "phase"
    what: str = ""
    detail: str = ""


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class Stack(Event):
    """The stack of one thread, innermost frame first, each ``function (file:line)``; ``main`` marks the main thread,
    ``state`` is idle, active or active+gil where the tool tells.
    """

    kind: ClassVar[str] = "stack"
    thread: str | None = None
    frames: tuple[str, ...] = ()
    main: bool = False
    state: str | None = None
    tool: str = ""


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Event):
    """An environment variable, or a timeout in code, seen being set."""

    kind: ClassVar[str] = "setting"
    name: str = ""
    value: str = ""
