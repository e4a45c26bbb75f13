"""Which records prove a verdict of each class, in the order of preference.

The argument is the same for every class: what a peer did, what the culprit did, how the culprit was then. What differs is the record that
shows it best: the exit of a rank that was killed, the call with which a culprit of a mismatch arrived.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from nccldoctor import events
from nccldoctor.align.stack_activity import wait_of
from nccldoctor.events import Event, Stack
from nccldoctor.model import CauseClass


class Record(StrEnum):
    """Kinds of record that serve as an exhibit: the first six are formatted, the others quoted. A line counts as the first that fits."""

    ORDER = "order of calls"
    TRANSFERS = "transfers of two ranks"
    CALLS = "calls side by side"
    COUNTS = "counters of ranks"
    JOINED = "ranks that joined"
    LATE_CALLS = "late calls of a rank"
    TIMEOUT = "timeout"
    STATUS = "counters of a watchdog"
    REPLY = "answer to a dump request"
    STACK = "stack"
    WAITING_STACK = "stack inside a call"
    STATE = "state of a process"
    EXIT = "exit"
    REPORT = "report about ranks"
    EXCEPTION = "exception"
    TROUBLE = "error of a device, a link or a host"
    ALONE = "line that no peer printed"
    WORK = "work of a rank"
    LAST_STEP = "last step before the stall"
    CALL_LINE = "call that NCCL logged"
    SETUP = "init of a communicator"
    OTHER = "any other line"


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_EVENTS = [
    (Record[of], tuple(getattr(events, kind) for kind in kinds.split())) for of, kinds in _ROWS["events"].items()
]


def record_of(event: Event | None) -> Record:
    """The kind of record that a line is."""
    if isinstance(event, Stack) and (wait_of(event.frames) or ("",))[0] == "call":
        return Record.WAITING_STACK
    return next((kind for kind, types in _EVENTS if isinstance(event, types)), Record.OTHER)


class Question(StrEnum):
    """What the last part of the argument answers about the culprit."""

    LIFE = "was it alive, stopped or dead?"
    ARRIVAL = "had it arrived?"
    PROGRESS = "did it continue?"
    LINK = "did its link fail?"


class Plan(Struct, frozen=True):
    """The records that serve each part of the argument, best first.

    ``both`` show a peer and a culprit side by side; ``peer`` and ``culprit`` are asked where none of them can. ``condition`` answers the
    ``question``: of a link either end may, of all else only a record about the culprit. A call that the culprit made shows its arrival.
    """

    both: tuple[Record, ...]
    peer: tuple[Record, ...]
    culprit: tuple[Record, ...]
    condition: tuple[Record, ...]
    question: Question = Question.LIFE


def _records_in(words: str) -> tuple[Record, ...]:
    """The records of a list; a word in small letters names another list."""
    parts = ([Record[word]] if word.isupper() else _records_in(_ROWS["lists"][word]) for word in words.split())
    return tuple(record for part in parts for record in part)


def _plan(both: str, peer: str, culprit: str, condition: str, question: str) -> Plan:
    return Plan(_records_in(both), _records_in(peer), _records_in(culprit), _records_in(condition), Question[question])


PLANS: Mapping[CauseClass, Plan] = {CauseClass(cause): _plan(*row) for cause, row in _ROWS["plans"].items()}
"""A class without a row names nobody: its evidence is quoted in the order of its weight."""
