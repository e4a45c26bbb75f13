"""Which records prove a verdict of each class, in the order of preference.

The argument is the same for every class: what a peer did, what the culprit did, how the culprit was then. What differs is the record that
shows it best: the exit of a rank that was killed, the call with which a culprit of a mismatch arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from nccldoctor.align.stack_activity import wait_of
from nccldoctor.events import (
    Absence,
    CallTimeout,
    CollCall,
    CollectiveMismatch,
    CommInit,
    CudaError,
    DesyncReport,
    DumpNote,
    DumpSignal,
    Event,
    ExceptionRaised,
    GpuError,
    Heartbeat,
    IbError,
    KernelEvent,
    MonitoredBarrier,
    NcclError,
    NcclWarn,
    OutOfMemory,
    Phase,
    ProcessExit,
    ProcessState,
    Progress,
    RendezvousError,
    SchedulerEvent,
    SlowReport,
    SocketError,
    Stack,
    StoreError,
    WorkStatus,
)
from nccldoctor.model import CauseClass as C


class Record(StrEnum):
    """Kinds of record that serve as an exhibit; the first six are formatted, the others are quoted.

    A line that is of several kinds counts as the first of them.
    """

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


_EVENTS: tuple[tuple[Record, tuple[type[Event], ...]], ...] = (
    (Record.TIMEOUT, (CallTimeout,)),
    (Record.STATUS, (WorkStatus,)),
    (Record.REPLY, (DumpSignal, DumpNote)),
    (Record.STACK, (Stack,)),
    (Record.STATE, (ProcessState,)),
    (Record.EXIT, (ProcessExit,)),
    (Record.EXCEPTION, (ExceptionRaised,)),
    (
        Record.TROUBLE,
        (
            GpuError,
            IbError,
            SocketError,
            KernelEvent,
            NcclError,
            NcclWarn,
            CudaError,
            OutOfMemory,
            StoreError,
            SchedulerEvent,
        ),
    ),
    (Record.WORK, (Heartbeat, Progress, Phase)),
    (Record.CALL_LINE, (CollCall,)),
    (Record.SETUP, (CommInit, RendezvousError)),
    (Record.REPORT, (Absence, MonitoredBarrier, DesyncReport, CollectiveMismatch, SlowReport)),
)


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


_TABLES = (Record.CALLS, Record.COUNTS)
_STACKS = (Record.WAITING_STACK, Record.STACK)
_WAITS = (
    *_TABLES, Record.TIMEOUT, Record.STATUS, Record.CALL_LINE, Record.EXCEPTION, Record.REPORT, *_STACKS, Record.TROUBLE,
)  # fmt: skip
_STANDS = (
    Record.STATUS, Record.REPLY, Record.CALL_LINE, Record.REPORT, Record.TIMEOUT, Record.ALONE, Record.WORK,
    Record.LAST_STEP, Record.OTHER,
)  # fmt: skip
_LIVES = (
    Record.STACK,
    Record.WAITING_STACK,
    Record.STATE,
    Record.ALONE,
    Record.WORK,
    Record.REPLY,
    Record.EXIT,
    Record.TROUBLE,
    Record.OTHER,
)
_ENDS = (Record.EXIT, Record.TROUBLE, Record.EXCEPTION, Record.STATE)
_BREAKS = (Record.TROUBLE, Record.EXCEPTION, Record.EXIT)
_ARRIVES = (Record.TIMEOUT, Record.STATUS, Record.EXCEPTION, Record.WAITING_STACK)

_CALLS = (Record.CALL_LINE, Record.TIMEOUT, *_STANDS)

_MISMATCH = Plan(_TABLES, _WAITS, _CALLS, _ARRIVES, Question.ARRIVAL)
_SKIPPED = Plan(_TABLES, _WAITS, _CALLS, (Record.ALONE, Record.WORK, *_ARRIVES, Record.STACK), Question.PROGRESS)

PLANS: Mapping[C, Plan] = {
    C.NOT_ARRIVED: Plan(_TABLES, _WAITS, _STANDS, _LIVES),
    C.FROZEN: Plan(_TABLES, _WAITS, (*_STANDS, Record.SETUP), (Record.STATE, *_STACKS, Record.ALONE, Record.EXIT)),
    C.DIED: Plan(_TABLES, _WAITS, (*_STANDS, Record.SETUP), _ENDS),
    C.RAISED: Plan(_TABLES, _WAITS, _STANDS, (Record.EXCEPTION, Record.TROUBLE, Record.EXIT)),
    C.STRAGGLER: Plan((Record.LATE_CALLS, *_TABLES), _WAITS, (Record.WORK, *_STANDS), (Record.WORK, *_LIVES)),
    C.OP_MISMATCH: _MISMATCH,
    C.SIZE_MISMATCH: _MISMATCH,
    C.DTYPE_MISMATCH: _MISMATCH,
    C.MISSED_CALL: _SKIPPED,
    C.EXTRA_CALL: _SKIPPED,
    C.ORDER_INVERSION: Plan((Record.ORDER, *_TABLES), _WAITS, _CALLS, _ARRIVES, Question.ARRIVAL),
    C.UNMATCHED_P2P: Plan(
        (Record.TRANSFERS,),
        (Record.TRANSFERS, *_WAITS),
        _STANDS,
        (Record.ALONE, Record.WORK, *_ARRIVES, Record.STACK),
        Question.PROGRESS,
    ),
    C.DEVICE_STALLED: Plan(_TABLES, _WAITS, _STANDS, (Record.COUNTS, *_ARRIVES, *_LIVES)),
    C.UNFINISHED: Plan(_TABLES, _WAITS, _STANDS, _ARRIVES, Question.ARRIVAL),
    C.NETWORK: Plan((), _WAITS[2:], (*_BREAKS, *_STANDS), (*_BREAKS, *_LIVES), Question.LINK),
    C.HARDWARE: Plan((), _WAITS, (*_TABLES, *_STANDS), (*_BREAKS, *_LIVES)),
    C.INIT: Plan(
        (Record.JOINED,), (Record.SETUP, *_WAITS[2:], Record.OTHER), (Record.SETUP, *_STANDS), (*_LIVES, *_BREAKS)
    ),
}
"""A class without a row names nobody: its evidence is quoted in the order of its weight."""
