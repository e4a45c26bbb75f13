"""How an end reads: who ended, how, and who says so."""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.events import (
    Event,
    OutOfMemory,
    ProcessExit,
    RasStatus,
    SchedulerEvent,
)
from nccldoctor.failures import FATAL

BRIEF = 120
"""Characters of a scheduler's message in a headline."""


def process(event: Event) -> str:
    """A process whose global rank is not known, as its launcher calls it."""
    local = event.local_rank if isinstance(event, ProcessExit) else None
    name = f"local rank {local}" if local is not None else "a process"
    where = f" on {event.host}" if event.host is not None else ""
    return f"{name} (pid {event.pid}){where}" if event.pid is not None else f"{name}{where}"


def how(events: Sequence[Event]) -> str:
    """How a process ended, by the first of these events."""
    event = events[0]
    if isinstance(event, OutOfMemory):
        return f"killed because memory ran out ({event.process or event.scope})"
    if isinstance(event, SchedulerEvent):
        return (
            f"{event.what.replace('-', ' ')} ({_brief(event.detail)})" if event.detail else event.what.replace("-", " ")
        )
    if isinstance(event, RasStatus):
        return "RAS, NCCL's own service, considers the process dead"
    if isinstance(event, ProcessExit):
        name = (
            event.signal
            or FATAL.get(event.exitcode or 0)
            or (FATAL.get(128 - event.exitcode) if event.exitcode and event.exitcode > 128 else None)
        )
        if name is None and event.exitcode is None:
            return "nobody says how"
        return f"killed by {name}" if name else f"exit code {event.exitcode}"
    return event.text[:80]


def _brief(text: str) -> str:
    """The sentences of a scheduler's message that fit, at least the first; a longer one is cut behind a word."""
    flat = " ".join(text.split())
    if len(flat) <= BRIEF:
        return flat
    whole = flat[: BRIEF + 1].rpartition(". ")[0]
    return whole or flat[:BRIEF].rpartition(" ")[0] + "…"


def says(event: Event) -> str:
    """Who ended, and how."""
    who = f"rank {event.rank}" if event.rank is not None else process(event)
    return f"{who}: {how([event])}"


def observer(event: Event) -> str:
    """Who reports an end."""
    if isinstance(event, OutOfMemory):
        return f"kernel:{event.host or ''}"
    if isinstance(event, RasStatus):
        return "ras"
    return "scheduler" if isinstance(event, SchedulerEvent) else "launcher"
