"""What a rank waits for inside its own process: another thread of it, or a child that it started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.align.stack_activity import activity_of, is_waiting, split_frame, user_frames
from nccldoctor.align.standing.stances import wait_in_kernel
from nccldoctor.events import ProcessState, Stack
from nccldoctor.model.stack_frames import innermost, is_user_code

A_LOCK, AN_EVENT = "for a lock", "for an event"
_WAITS = (
    (A_LOCK, ("pthread_mutex_lock", "___pthread_mutex_lock", "__lll_lock_wait", "PyThread_acquire_lock_timed"), ()),
    (A_LOCK, ("acquire", "__enter__"), ("threading.py", "logging/__init__.py", "multiprocessing/synchronize.py")),
    (AN_EVENT, ("wait", "wait_for"), ("threading.py",)),
    ("in Queue.put", ("put",), ("queue.py", "multiprocessing/queues.py")),
    ("in Queue.get", ("get",), ("queue.py", "multiprocessing/queues.py")),
    ("in Queue.join", ("join",), ("queue.py",)),
    ("in Thread.join", ("join", "_wait_for_tstate_lock"), ("threading.py",)),
    ("in Future.result", ("result",), ("concurrent/futures/_base.py",)),
)
"""Waits of one thread for another: the words, the functions, and how their file ends."""
_IDLE = (AN_EVENT, "in Queue.get")
"""How a thread waits for its next order."""


class Inside(Struct, frozen=True):
    """``held`` says how the main thread waits ("in Queue.put", empty where no frame tells), ``shown`` is whom it waits for.

    ``name`` is that of the thread, or the command of the child, ``does`` what it does: ``waits for a lock in flush (log.py:54)``.
    """

    held: str
    shown: Stack | ProcessState
    name: str
    does: str
    is_stuck: bool = False


def thread_inside(facts: Facts, rank: int) -> Inside | None:
    """The one other thread that the main thread of a rank waits for, or that waits for a lock.

    It is of the program, waits for no order, and no other rank has a thread in the same lines.
    """
    own = facts.liveness.activity(rank).stacks
    main = next((stack for stack in own if stack.main), None)
    if main is None or is_waiting(main.frames):
        return None
    held, did = _wait_in(main.frames), facts.looks.did(rank)
    is_blocked = did is not None and did.manner == "blocked"
    elsewhere = {
        _own_path(s) for r, left in facts.liveness.by_rank.items() if r != rank for s in left.stacks if not s.main
    }
    threads = [s for s in own if not (s.main or s.helper) and (s.look, s.pid) == (main.look, main.pid)]
    odd = [s for s in threads if _wait_in(s.frames) not in _IDLE and _own_path(s) and _own_path(s) not in elsewhere]
    stuck = [stack for stack in odd if _wait_in(stack.frames)]
    found = stuck or (odd if (held and elsewhere) or is_blocked else [])
    if len(found) != 1:
        return None
    (other,), waits = found, _wait_in(found[0].frames)
    is_in_own_code = _own_path(main)[:1] == main.frames[:1]
    is_still = not (facts.looks.has_moved(rank) or (main.state or "").startswith("active"))
    if not held and not ((waits == A_LOCK or is_blocked) and is_in_own_code and is_still):
        return None
    at = innermost(other.frames)
    name = other.thread or split_frame(_own_path(other)[-1])[0]
    return Inside(held, other, name, f"waits {waits} in {at}" if waits else f"is in {at}", bool(waits))


def child_inside(facts: Facts, rank: int) -> Inside | None:
    """The one child that the main thread of a rank waits for, by a table of processes."""
    main, state = next((s for s in facts.liveness.activity(rank).stacks if s.main), None), facts.looks.work.get(rank)
    waits = activity_of(main.frames) if main is not None else wait_in_kernel(state) if state is not None else ""
    if "for a child process" not in (waits or ""):
        return None
    parent = main.pid if main is not None and main.pid is not None else facts.case.rank_pid.get(rank)
    found = {e.pid: e for e in facts.case.of(ProcessState) if e.parent is not None and e.parent == parent}
    if len(found) != 1:
        return None
    ((pid, child),) = found.items()
    does = f"is {child.state}" + (f" in {child.waits_in}" if child.waits_in else "")
    name = ", ".join(filter(None, ((child.command or "")[:60], child.elapsed and f"{child.elapsed} old")))
    return Inside("for a child process", child, f"{pid} ({name})", does, child.state != "running")


def busy_workers(facts: Facts, ranks: Collection[int | None], doing: Iterable[str]) -> list[Stack]:
    """The workers of a loader or a pool that are at work while one of these ranks waits."""
    are_waited_for = any(words.endswith(("data loader", "child process", "thread that it started")) for words in doing)
    helpers = facts.looks.helpers if are_waited_for else ()
    return [h for h in helpers if h.rank in ranks and not is_waiting(h.frames) and not _is_idle(h)]


def _is_idle(worker: Stack) -> bool:
    """True of a worker that waits for its next order."""
    inner = [frame.partition(" (")[0] for frame in worker.frames]
    at = next((at for at, name in enumerate(inner) if name in ("_worker_loop", "worker")), 0)
    return any(name.endswith("Queue.get") or name == "get" for name in inner[:at])


def _wait_in(frames: Sequence[str]) -> str:
    """How a thread waits for another one, by the outermost such frame inside its own code; "" for none."""
    found = ""
    for function, file in map(split_frame, frames):
        if is_user_code(file):
            break
        found = next((w for w, names, ends in _WAITS if function in names and file.endswith(ends or "")), found)
    return found


def _own_path(stack: Stack) -> tuple[str, ...]:
    return tuple(user_frames(stack.frames))
