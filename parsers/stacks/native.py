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
from nccldoctor.parsers.stacks.owner import FAR, NEAR, owner_of, stacks
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
    yield from stacks(line, sf.collect(line, sf.gdb_frame), "gdb", hit["no"] == "1", hit["name"], pid=hit["lwp"])


_BARE = lazy(r"^(?:[^\s#]{1,60}[: ] {0,4})?#0 {1,2}0x[0-9a-f]{1,16} in ")


@finds(_BARE, "#0  0x", "#0 0x")
def bare_backtrace(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """``bt`` of gdb or cuda-gdb without the head that names its thread. A debugger that attaches stands in the main thread."""
    first, below = sf.gdb_frame(line.body), sf.collect(line, sf.gdb_frame)
    if first and below and not any(_GDB.search(above.body) for above in line.preceding(3)):
        yield from stacks(line, (first, *below), "gdb", main=True)


@finds(_PYSTACK, "Traceback for thread ")
def pystack(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """Pystack prints the innermost frame last."""
    frames = sf.collect(line, sf.pystack_frame)[::-1]
    state = hit["state"] or None
    yield from stacks(line, frames, "pystack", sf.is_of_program(frames), hit["name"], hit["id"], reach=FAR, state=state)


_TID = lazy(r"^TID (?P<tid>\d{1,10}):$")
_PID = lazy(r"^PID (?P<pid>\d{1,10}) - (?:process|core)$")


@finds(_TID, "TID ")
def eu_stack(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """``eu-stack -p PID``: *TID 7:* heads each thread. The main thread has the number of the process."""
    if frames := sf.collect(line, sf.eu_stack_frame):
        pid, noted = line.mark.pid, line.window.noted
        for above in line.preceding(FAR):
            if (found := _PID.search(above.body)) or ("TID", above.place) in noted:
                pid = int(found["pid"]) if found else noted["TID", above.place]
                break
        noted["TID", line.place] = pid
        fields = owner_of(line, NEAR).stack_fields(line) | ({"pid": pid} if pid is not None else {})
        yield Stack(**fields, thread=None, frames=frames, main=pid == int(hit["tid"]), tool="eu-stack")


@reads("Traceback (most recent call first)")
def py_bt(line: Line) -> Iterator[Event]:
    """``py-bt`` of gdb: the Python frames of the thread that it stands in, the innermost first.

    The thread is the one named above, else the main one if it rests on a module.
    """
    frames = sf.collect(line, sf.faulthandler_frame)
    head = next((found for above in line.preceding(3) if (found := _GDB.search(above.body))), None)
    if head:
        yield from stacks(line, frames, "gdb", head["no"] == "1", head["name"], pid=head["lwp"])
    else:
        yield from stacks(line, frames, "gdb", bool(frames) and frames[-1].startswith("<module> "))
