"""Log lines in a reader's words: ``watchdog timeout``, ``stack: in refresh_expert_table (moe.py:88)``, ``killed by
SIGKILL``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from nccldoctor.align.call_sequences import LIBRARY
from nccldoctor.events import (
    KINDS,
    BlockingWaitTimeout,
    CallTimeout,
    CollCall,
    CollectiveMismatch,
    CollectiveTimeout,
    CommInit,
    CudaError,
    DesyncReport,
    DumpNote,
    DumpSignal,
    Event,
    ExceptionRaised,
    FailedStack,
    FrAnalysis,
    GpuError,
    Heartbeat,
    HeartbeatStuck,
    IbError,
    InspectorRecord,
    KernelEvent,
    MonitoredBarrier,
    NcclError,
    NcclWarn,
    OutOfMemory,
    Phase,
    ProcessExit,
    Progress,
    ProxyDump,
    RasStatus,
    RendezvousError,
    SchedulerEvent,
    Setting,
    SocketError,
    Stack,
    StoreError,
    TearDown,
    Version,
    WorkStatus,
)

CHARACTERS = 120
"""Of one such phrase at most."""


def sighting(event: Event) -> str:
    """What a line says, in a few words; of a kind without words of its own, its text."""
    for cls in type(event).__mro__:
        words = _WORDS.get(cls)
        if words is not None:
            return " ".join(words(event).split())[:CHARACTERS]
    return " ".join(event.text.split())[:CHARACTERS]


def mark(event: Event) -> str:
    """The kind of the symbol it gets in a timeline; "" where it gets none."""
    return _mark_of(event.kind)


@cache
def _mark_of(kind: str) -> str:
    return next((symbol for classes, symbol in _MARKS if issubclass(KINDS[kind], classes)), "")


def innermost(frames: tuple[str, ...]) -> str:
    """The innermost frame of the user's own code, else the innermost one, with the file's name alone."""
    own = next((f for f in frames if ".py:" in f and not any(part in f for part in (*LIBRARY, "/threading.py"))), None)
    frame = own if own is not None else (frames[0] if frames else "")
    name, opening, place = frame.partition(" (")
    return f"{name} ({place.rpartition('/')[2]}" if opening else name


def _stack(event: Event) -> str:
    frames = event.frames if isinstance(event, Stack) else ()
    return f"stack: in {innermost(frames)}" if frames else "stack"


def _timeout(event: Event) -> str:
    if not isinstance(event, CallTimeout):
        return "timeout"
    call = f" of {event.op}" if event.op else ""
    number = f" #{event.seq}" if event.seq is not None else ""
    return f"watchdog timeout{call}{number}"


def _exit(event: Event) -> str:
    if not isinstance(event, ProcessExit):
        return "ended"
    if event.signal:
        return f"ended by {event.signal}"
    return "ended" if event.exitcode is None else f"ended with exit code {event.exitcode}"


def _exception(event: Event) -> str:
    if not isinstance(event, ExceptionRaised):
        return "exception"
    name = event.type.rpartition(".")[2] or "an exception"
    place = f" in {innermost((event.frame,))}" if event.frame else ""
    return f"{name}{place}" + (f": {event.message}" if event.message and not place else "")


def _step(event: Event) -> str:
    step = getattr(event, "step", None)
    return f"reported step {step}" if step is not None else "progress line"


def _phase(event: Event) -> str:
    what = getattr(event, "what", "") or getattr(event, "name", "")
    return f"phase: {what}" if what else "another phase"


_TEAR_DOWN = {
    "closing-signal": "told to close by its launcher",
    "death-signal": "received the launcher's closing signal",
    "forced-kill": "killed by its launcher while it closed the job",
    "monitor-kills": "its heartbeat monitor ended the process",
    "comm-aborted": "aborted its communicator",
    "watchdog-terminated": "its watchdog thread ended after a timeout",
    "process-down": "took itself down after a timeout",
    "terminate-called": "aborted after an unhandled C++ error",
    "exit-barrier": "its workers done, the launcher found the store gone",
}


def _teardown(event: Event) -> str:
    what = getattr(event, "what", "")
    return _TEAR_DOWN.get(what, f"tear-down: {what}" if what else "tear-down")


def _gpu(event: Event) -> str:
    if not isinstance(event, GpuError):
        return "device error"
    return f"Xid {event.xid}" if event.xid is not None else f"device error: {event.message}"


_COMM = {
    "start": "began to set up a communicator{}",
    "complete": "its communicator{} came up",
    "abort": "aborted a communicator{}",
    "destroy": "closed a communicator{}",
    "revoke": "gave up a communicator{}",
    "bootstrap": "looked for the others of a communicator{}",
}


def _comm(event: Event) -> str:
    size = getattr(event, "nranks", None)
    words = _COMM.get(getattr(event, "what", ""), "told of a communicator{}")
    return words.format(f" of {size} ranks" if size else "")


_CONNECTION = {
    "closed": "a peer closed its connection",
    "reset": "a connection to a peer was reset",
    "timed-out": "a connection to a peer timed out",
    "unreachable": "could not reach a peer",
    "refused": "a peer refused a connection",
    "stranger": "something that is no peer answered",
    "setup": "could not make a connection",
}


def _connection(event: Event) -> str:
    return _CONNECTION.get(getattr(event, "how", ""), "a connection failed")


_FABRIC = {
    "completion": "a transfer failed",
    "port": "its port or adapter failed",
    "async": "the adapter reported a dead queue",
    "notice": "the adapter reported an event",
    "stall": "a transfer did not complete",
    "speed": "the link became slower",
    "setup": "a queue or a registration could not be made",
    "fabric": "the libfabric plug-in reported an error",
}


def _infiniband(event: Event) -> str:
    what, device, status = (getattr(event, name, None) for name in ("what", "hca", "status"))
    where = (f" on {device}" if device else "") + (f", status {status}" if status is not None else "")
    return f"InfiniBand: {_FABRIC.get(what or '', 'error')}{where}"


def _words(text: str) -> Callable[[Event], str]:
    return lambda _: text


def _named(text: str, field: str) -> Callable[[Event], str]:
    return lambda event: f"{text}: {getattr(event, field, '') or event.text}"


_WORDS: Mapping[type, Callable[[Event], str]] = {
    Stack: _stack,
    CollectiveTimeout: _timeout,
    BlockingWaitTimeout: _timeout,
    ProcessExit: _exit,
    ExceptionRaised: _exception,
    Heartbeat: _step,
    Progress: _step,
    Phase: _phase,
    TearDown: _teardown,
    GpuError: _gpu,
    WorkStatus: _words("printed its counters after a timeout"),
    HeartbeatStuck: _words("heartbeat monitor: the watchdog stood still"),
    DumpSignal: _words("told to dump its flight recorder"),
    DumpNote: _words("logged that it dumps its flight recorder"),
    DesyncReport: _words("printed a desync report"),
    MonitoredBarrier: _words("monitored barrier gave up"),
    OutOfMemory: _named("out of memory", "scope"),
    NcclError: _named("NCCL error", "code"),
    NcclWarn: _words("NCCL warning"),
    CommInit: _comm,
    CollCall: lambda event: f"issued {getattr(event, 'op', '') or 'a call'}",
    CollectiveMismatch: _words("was told that calls differ"),
    CudaError: _named("CUDA error", "message"),
    FailedStack: _words("printed the stack of the call that timed out"),
    FrAnalysis: _words("an analysis of recorder dumps"),
    InspectorRecord: _words("finished a call that NCCL's Inspector saw"),
    ProxyDump: _words("its proxy thread listed its transfers"),
    RasStatus: _words("named by NCCL's RAS service"),
    RendezvousError: _words("the launcher's rendezvous failed"),
    Version: _words("printed its versions"),
    IbError: _infiniband,
    SocketError: _connection,
    KernelEvent: _named("kernel", "what"),
    SchedulerEvent: _named("scheduler", "what"),
    StoreError: _named("store error", "operation"),
    Setting: _words("printed a setting"),
}

_MARKS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((CallTimeout, MonitoredBarrier, HeartbeatStuck), "timeout"),
    ((ProcessExit,), "exit"),
    ((ExceptionRaised,), "exception"),
    ((DumpSignal, DumpNote), "dump"),
    ((Stack,), "stack"),
    ((GpuError, IbError, SocketError, KernelEvent, SchedulerEvent, OutOfMemory, NcclError), "trouble"),
    ((Heartbeat, Progress, Phase), "life"),
)
