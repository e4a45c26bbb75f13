"""Stacks of debuggers that see native frames: gdb, cuda-gdb, eu-stack and pystack.

Sources: gdb ``thread apply all bt`` and ``py-bt`` (CPython ``Tools/gdb/libpython.py``), elfutils 0.188 ``src/stack.c``, pystack 1.3 to 1.7
``remote --native``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, Stack
from nccldoctor.parsers.base import Line, finds, reads
from nccldoctor.parsers.stacks import frames as sf
from nccldoctor.parsers.stacks.owner import FAR, NEAR, owner_of
from nccldoctor.patterns import lazy

_GDB = lazy(
    r"Thread (?P<no>\d{1,6}) \(Thread 0x[0-9a-f]{1,16} \(LWP (?P<lwp>\d{1,10})\)(?: \"(?P<name>[^\"]{0,100})\")?\)"
)
_PYSTACK = lazy(
    r"Traceback for thread (?P<id>\d{1,10})(?: \((?P<name>[^)]{0,100})\))? \[(?P<state>[^\]]{0,80})\] \(most recent"
    r" call last\)"
)


@finds(_GDB, "(LWP ")
def gdb(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """Gdb and cuda-gdb, ``thread apply all bt``. Its thread 1 is the main thread, whose id is the process's."""
    frames = sf.collect(line, sf.gdb_frame)
    if frames:
        main = hit["no"] == "1"
        fields = owner_of(line, FAR if main else NEAR).stack_fields(line)
        if main and fields["pid"] is None:
            fields["pid"] = int(hit["lwp"])
        yield Stack(**fields, thread=hit["name"], frames=frames, main=main, tool="gdb")


_BARE = lazy(r"^(?:[^\s#]{1,60}[: ] {0,4})?#0 {1,2}0x[0-9a-f]{1,16} in ")


@reads("#0  0x", "#0 0x", needs=(_BARE,))
def bare_backtrace(line: Line) -> Iterator[Event]:
    """``bt`` of gdb or cuda-gdb without the head that names its thread.

    A debugger that attaches stands in the main thread. One stack, where no head stands above.
    """
    if _BARE.search(line.body) is None or any(_GDB.search(above.body) for above in line.preceding(3)):
        return
    first, below = sf.gdb_frame(line.body), sf.collect(line, sf.gdb_frame)
    if first and below:
        yield Stack(
            **owner_of(line, FAR).stack_fields(line), thread=None, frames=(first, *below), main=True, tool="gdb"
        )


@finds(_PYSTACK, "Traceback for thread ")
def pystack(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """Pystack prints the innermost frame last."""
    frames = tuple(reversed(sf.collect(line, sf.pystack_frame)))
    if frames:
        main = any(frame.startswith("<module> ") for frame in frames) and not sf.is_started_by_threading(frames)
        is_helper = main and sf.is_helper_process(frames)
        fields = owner_of(line).stack_fields(line)
        if main and fields["pid"] is None:
            fields["pid"] = int(hit["id"])
        yield Stack(
            **fields,
            thread=hit["name"],
            frames=frames,
            main=main and not is_helper,
            helper=is_helper,
            state=hit["state"] or None,
            tool="pystack",
        )


@reads("TID ")
def eu_stack(line: Line) -> Iterator[Event]:
    """``eu-stack -p PID``: *TID 7:* heads each thread. The main thread has the number of the process.

    One stack for each thread with frames.
    """
    hit = _TID.search(line.body)
    frames = sf.collect(line, sf.eu_stack_frame) if hit else ()
    if hit is None or not frames:
        return
    above = (_PID.search(one.body) for one in line.preceding(FAR))
    pid = next((int(found["pid"]) for found in above if found), line.mark.pid)
    main = pid == int(hit["tid"])
    fields = owner_of(line, NEAR).stack_fields(line) | ({"pid": pid} if pid is not None else {})
    yield Stack(**fields, thread=None, frames=frames, main=main, tool="eu-stack")


_TID = lazy(r"^TID (?P<tid>\d{1,10}):$")
_PID = lazy(r"^PID (?P<pid>\d{1,10}) - (?:process|core)$")


@reads("Traceback (most recent call first)")
def py_bt(line: Line) -> Iterator[Event]:
    """``py-bt`` of gdb: the Python frames of the thread that it stands in, the innermost first.

    One stack, of the thread named above it, else of the main one if it rests on a module.
    """
    frames = sf.collect(line, sf.faulthandler_frame)
    if not frames:
        return
    head = next((found for above in line.preceding(3) if (found := _GDB.search(above.body))), None)
    main = head["no"] == "1" if head else frames[-1].startswith("<module> ")
    fields = owner_of(line, FAR if main else NEAR).stack_fields(line)
    if main and head and fields["pid"] is None:
        fields["pid"] = int(head["lwp"])
    is_helper = main and sf.is_helper_process(frames)
    yield Stack(
        **fields,
        thread=head["name"] if head else None,
        frames=frames,
        main=main and not is_helper,
        helper=is_helper,
        tool="gdb",
    )
