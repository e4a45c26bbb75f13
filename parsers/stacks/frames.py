"""Reads one frame of a stack, as each tool prints it, to ``function (file:line)``, and all frames below a head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from nccldoctor.parsers.base import Line
from nccldoctor.patterns import lazy

MOST_FRAMES = 300
"""Deeper stacks are recursion; the innermost frames tell what there is to tell."""

_PATIENCE = 30
"""Lines between two frames that may be locals, sources or another writer's; more of them end the stack."""

_PYSPY = lazy(r"^ {0,8}(?P<name>\S(?:[^\"=]{0,300}?\S)?) \((?P<where>[^()\s][^()]{0,400})\)$")
_SOURCE = lazy(r"^\S{1,300}(?:\.\w{1,4}:\d{1,7}|\.so[.\d]{0,20})$")
"""What a frame must say where its indent was lost on the way."""

_FAULTHANDLER = lazy(r'File "(?P<file>[^"]{1,600})", line (?P<line>\d{1,9}|\?\?\?),? in (?P<name>\S.{0,200})')
_GDB = lazy(r"#(?P<no>\d{1,4})  ?(?:0x[0-9a-f]{1,16} in )?(?P<name>[^\s(][^(]{0,300}?)(?:<.{0,200}?>)? ?\(")
_GDB_WHERE = lazy(r"\) (?:at (?P<at>\S{1,300}:\d{1,7})|from (?P<lib>\S{1,300}))$")
_PYSTACK = lazy(
    r'\((?P<kind>Python|C)\) File "(?P<file>[^"]{1,600})", line (?P<line>\d{1,9}), in (?P<name>\S{1,200})(?:'
    r" \((?P<lib>[^)]{1,200})\))?"
)
_EU_STACK = lazy(
    r"^#\d{1,4} {1,3}0x[0-9a-f]{8,16}(?: - 1)?(?: {1,4}(?P<name>\S[^\n]{0,300}?))?(?: - (?P<lib>/\S{1,300}))?$"
)
_HEAD = lazy(
    r"Thread (?:\d{1,10}|0x[0-9A-Fa-f]{1,16}) \(|Current thread 0x|Process \d{1,10}: |=== Rank \d{1,7}: |Traceback"
    r" for thread |Traceback \(most recent|TID \d{1,10}:$|PID \d{1,10} - "
)
"""What begins the next thread or process in any of the tools' outputs."""


def pyspy_frame(body: str) -> str | None:
    """``Condition.wait (threading.py:331)``, ``ncclGroupEnd (libnccl.so.2)``; None for arguments and locals."""
    hit = _PYSPY.search(body)
    if hit is None or ": " in hit["name"] or body.startswith(" " * 9):
        return None
    if body[:1] != " " and not _SOURCE.search(hit["where"]):
        return None
    return f"{hit['name']} ({hit['where']})"


def faulthandler_frame(body: str) -> str | None:
    """``File "/a.py", line 3 in f`` as ``f (/a.py:3)``."""
    hit = _FAULTHANDLER.search(body)
    return f"{hit['name'].strip()} ({hit['file']}:{hit['line']})" if hit else None


def gdb_frame(body: str) -> str | None:
    """``#1  0x7f in f (a=1) at b.cc:12`` as ``f (b.cc:12)``, with the library where the source is not known."""
    hit = _GDB.search(body)
    if hit is None:
        return None
    where = _GDB_WHERE.search(body[-620:])
    place = (where["at"] or PurePosixPath(where["lib"]).name) if where else "?"
    return f"{hit['name'].strip()} ({place})"


def eu_stack_frame(body: str) -> str | None:
    """``#1  0x00007fbb select_poll_poll - /usr/lib/x.so`` as ``select_poll_poll (x.so)``."""
    hit = _EU_STACK.search(body)
    if hit is None:
        return None
    return f"{hit['name'] or '??'} ({PurePosixPath(hit['lib']).name if hit['lib'] else '?'})"


def pystack_frame(body: str) -> str | None:
    """``(Python) File "/a.py", line 3, in f`` as ``f (/a.py:3)``. A C frame without a known source gets its library."""
    hit = _PYSTACK.search(body)
    if hit is None:
        return None
    where = hit["lib"] if hit["lib"] and hit["file"].startswith("?") else f"{hit['file']}:{hit['line']}"
    return f"{hit['name']} ({where})"


def collect(head: Line, read: Callable[[str], str | None]) -> tuple[str, ...]:
    """The frames below ``head`` in the order printed, up to the next thread, a blank line, or something else."""
    frames: list[str] = []
    idle = 0
    for below in head.following(MOST_FRAMES + _PATIENCE):
        frame = read(below.body)
        if frame is not None:
            frames.append(frame)
            idle = 0
            if len(frames) == MOST_FRAMES:
                break
            continue
        idle += 1
        if not below.body.strip() or _HEAD.search(below.body) or idle > _PATIENCE or below.body[:1] not in " \t":
            break  # locals, arguments, source lines and ``...`` are indented; a log line of someone else is not
    return tuple(frames)


def is_inside_dump(body: str) -> bool:
    """True for a line inside a faulthandler dump: a frame, ``  ...``, or a frame that it could not read."""
    return faulthandler_frame(body) is not None or body.strip() == "..." or "<invalid frame>" in body


def is_helper_name(thread: str) -> bool:
    """True for a name that PyTorch or Python gives to its helper threads."""
    return thread != "pt_main_thread" and thread.startswith(("pt_", "Thread-", "ThreadPool", "asyncio_", "cuda-"))


def is_started_by_threading(frames: Iterable[str]) -> bool:
    """True when the stack rests on Python's ``threading``, as those of all threads but the main one do."""
    return any(frame.startswith(("_bootstrap (", "Thread._bootstrap (")) for frame in frames)


_HELPER = lazy(
    r"^(?:_worker_loop \(.{0,300}torch/utils/data/_utils/worker\.py|main \(.{0,300}multiprocessing/(?:resource_tracker|forkserver)"
    r"\.py|main \(.{0,300}torch/_inductor/compile_worker/)"
)
_LAUNCHER = lazy(
    r"^(?:\w{0,40}\.)?(?:_invoke_run|_monitor_workers|launch_agent|join|start_processes|launch_command|elastic_launch)"
    r" \(.{0,300}(?:torch/distributed/(?:elastic|launcher)/|torch/multiprocessing/spawn\.py|accelerate/commands/)"
)
_STARTED = lazy(r"^_wrap \(.{0,300}torch/(?:multiprocessing/spawn|distributed/elastic/multiprocessing/api)\.py")
"""The function that ``torch.multiprocessing`` runs in each rank that it starts."""


def is_spawned_rank(frames: Iterable[str]) -> bool:
    """True when ``torch.multiprocessing`` runs the function of a rank in the process, whose command is that of a worker."""
    return any(_STARTED.search(frame) for frame in frames)


def is_helper_process(frames: Iterable[str]) -> bool:
    """True when the stack is that of no rank: of a worker of a data loader, a tracker, a launcher.

    A rank that was forked keeps the frames of its launcher below its own.
    """
    for frame in frames:
        if _STARTED.search(frame):
            return False
        if _HELPER.search(frame) or _LAUNCHER.search(frame):
            return True
    return False


def is_of_program(frames: Sequence[str]) -> bool:
    """True when the stack rests on a module and on no thread of Python, as that of a main thread."""
    return any(frame.startswith("<module> ") for frame in frames) and not is_started_by_threading(frames)
