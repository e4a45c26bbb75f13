"""Says of one main thread whether it waits for other ranks, in which call, or what it does instead.

Python frames do not always show a wait: ``work.wait()`` leaves only the user's own function on the stack, and a backward pass of DDP only
``_engine_run_backward``. An idle thread in a function of its own is taken to wait where the name speaks of communication
(``tp_reduce``); *quiet* says that nothing more is known of it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.stack_activity import (
    activity_of,
    as_any_tool_prints,
    find_activity,
    first_meaningful,
    is_neutral,
    is_waiting,
    split_frame,
    user_frames,
    wait_of,
)
from nccldoctor.events import ProcessState, Stack
from nccldoctor.patterns import lazy
from nccldoctor.words.kernel_waits import waits_for

TRANSFERS = re.compile(
    r"i?(?:send|recv)\w*|batch_isend_irecv|_?(?:communicate|send|recv)(?:_\w+)?|_wait_batch_p2p|_ring_send_recv\w*"
    r"|p?mpi_\w*(?:send|recv|wait|probe|test)\w*",
    re.IGNORECASE,
)

_OF_MPI = lazy(r"(?i:p?mpi_\w+)")
_SPECIAL = lazy(r"__\w+__")  # ``__reduce__`` pickles an object and reduces nothing

_SPEAKS_OF_PEERS = lazy(
    r"(?:^|_)(?:all_?reduce\w*|reduce|all_?gather\w*|gather|scatter|broadcast|bcast|barrier|all_?to_?all\w*|sync|synchronize"
    r"|exchange|collective|p2p|rendezvous)(?:_|$)"
)


class Posture(StrEnum):
    """What a rank does: the first four wait for others (a ``backward`` pass and a ``device`` may), ``quiet`` may."""

    CALL = "call"
    SET_UP = "set-up"
    BACKWARD = "backward"
    DEVICE = "device"
    QUIET = "quiet"
    OWN = "own"
    LEAVING = "leaving"
    STOPPED = "stopped"
    GONE = "gone"

    @property
    def is_wait(self) -> bool:
        """True where the rank waits for others, as far as frames show."""
        return self in _WAITS

    @property
    def is_outside(self) -> bool:
        """True where the rank is outside every call of its peers."""
        return self not in _WAITS and self is not Posture.QUIET

    @property
    def is_gone(self) -> bool:
        """True where the process does not run: it is stopped or has ended."""
        return self in (Posture.STOPPED, Posture.GONE)


_WAITS = (Posture.CALL, Posture.SET_UP, Posture.BACKWARD, Posture.DEVICE)


class Stance(Struct, frozen=True):
    """What one process does in one look, in which call, and where in the user's own code.

    ``words`` are the rest of a sentence about it, ``path`` are the own frames, the innermost first. Where a worker of a framework waits
    they are those of the framework. They are empty where no Python frame is known. ``shown`` are the words where more than the name of
    an own function shows them.
    """

    process: Hashable
    event: Stack | ProcessState
    posture: Posture
    op: str = ""
    words: str = ""
    path: tuple[str, ...] = ()
    shown: str = ""

    @property
    def rank(self) -> int | None:
        """The rank of the process; None where it is not known."""
        return self.event.rank

    @property
    def place(self) -> str:
        """The innermost own frame; empty where none is known."""
        return self.path[0] if self.path else ""

    def after(self, before: Stance | None) -> Stance:
        """The stance with the own frames of an earlier look, where native frames alone show that it goes on."""
        if before is None or self.path or self.posture.is_wait != before.posture.is_wait or self.posture.is_gone:
            return self
        words, shown = (self.words, self.shown) if self.words else (before.words, before.shown)
        return replace(self, op=before.op, words=words, path=before.path, shown=shown)

    @property
    def can_wait(self) -> bool:
        """True of an idle thread outside every call where no frame tells what it does: ``work.wait()`` leaves no frame."""
        is_active = (self.event.state or "").startswith("active")
        return self.posture in (Posture.QUIET, Posture.OWN) and not self.words and not is_active

    @property
    def call(self) -> tuple[str, ...]:
        """The call that it stands in: its operation and the own lines that led to it, the innermost first.

        A wait for a GPU is told by its lines alone.
        """
        return "" if self.posture is Posture.DEVICE else self.op, *self.path

    @property
    def is_comparable(self) -> bool:
        """True where another call shows that two ranks parted. A native wait alone may be for any call in the queue."""
        return bool(self.path or _OF_MPI.fullmatch(self.op))


_WAITS_IN = "waits in "
_BACKWARD = "runs the backward pass"
_LEAVES = ("is shutting down",)
_NO_PEERS = ("a file system", "a file lock", "a pipe", "a child process", "input from a terminal", "a timer")
STATES = {"stopped": Posture.STOPPED, "gone": Posture.GONE, "zombie": Posture.GONE}


def stance_of(process: Hashable, event: Stack | ProcessState) -> Stance | None:
    """The stance that an event shows; None for a process state that says nothing of where it stands."""
    if isinstance(event, ProcessState):
        posture, words = STATES.get(event.state), f"is {event.state}"
        if posture is None and event.did is not None and event.rank is not None:
            words = event.did.manner if event.did.manner != "blocked" else wait_in_kernel(event)
            posture = Posture.OWN if words else Posture.QUIET
        return Stance(process, event, posture, words=words, shown=words) if posture is not None else None
    posture, op, words, path = _read(event.frames, event.state or "")
    found = find_activity(event.frames)
    is_guess = found.is_guess if found is not None else words.startswith(_WAITS_IN)
    return Stance(process, event, posture, op, words, path, "" if is_guess else words)


def wait_in_kernel(state: ProcessState) -> str:
    """``waits for a pipe``, where the kernel shows that a process is blocked in what is no peer; else ""."""
    waits = waits_for(state.waits_in or "")
    is_blocked = state.did is not None and state.did.manner == "blocked"
    return f"waits for {waits}" if is_blocked and waits in _NO_PEERS else ""


@lru_cache(maxsize=65536)
def _read(frames: tuple[str, ...], state: str) -> tuple[Posture, str, str, tuple[str, ...]]:
    """Posture, operation, words and own frames; many ranks of a job stand at the same place."""
    wait, words, path = wait_of(frames), activity_of(frames) or "", tuple(map(as_any_tool_prints, user_frames(frames)))
    is_active = state.startswith("active")
    if wait is not None:
        kind, op = wait
        callers = tuple(frame for frame in frames if not is_waiting((frame,)))
        path = path or python_frames(callers) or python_frames(frames)  # a worker that serves a model has no own frames
        return (Posture.LEAVING if kind == "tear-down" else Posture(kind)), op, words, path
    if words == _BACKWARD:
        return (Posture.OWN if is_active else Posture.BACKWARD), "backward", words, path
    if words in _LEAVES:
        return Posture.LEAVING, "", words, path
    own = split_frame(path[0])[0] if path else ""
    if not is_active and own and first_meaningful(frames)[0] == own:
        if _SPEAKS_OF_PEERS.search(own) and not _SPECIAL.fullmatch(own):
            return Posture.CALL, own, f"{_WAITS_IN}{own}", path
        if not words:
            return Posture.QUIET, "", "", path
    return Posture.OWN, "", words, path


@lru_cache(maxsize=65536)
def python_frames(frames: tuple[str, ...]) -> tuple[str, ...]:
    """The Python frames that mean something alone, as any tool prints them. What waits in a lock polls it, and doesn't move."""
    return tuple(as_any_tool_prints(frame) for frame in frames if ".py:" in frame and not is_neutral(frame))


def is_transfer(op: str) -> bool:
    """True for a send or a receive, whose two ends stand in different places."""
    return TRANSFERS.fullmatch(op) is not None
