"""Stacks of debuggers that see native frames: gdb, cuda-gdb and pystack.

Sources: gdb ``thread apply all bt``, pystack 1.3 ``remote --native``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from nccldoctor.events import Event, Stack
from nccldoctor.parsers.base import Line, LineParser, Sample, line_parser
from nccldoctor.parsers.stacks import frames as sf
from nccldoctor.parsers.stacks.owner import FAR, NEAR, owner_of


@cache
def _gdb() -> re.Pattern[str]:
    return re.compile(
        r"Thread (?P<no>\d{1,6}) \(Thread 0x[0-9a-f]{1,16} \(LWP (?P<lwp>\d{1,10})\)(?: \"(?P<name>[^\"]{0,100})\")?\)"
    )


@cache
def _pystack() -> re.Pattern[str]:
    return re.compile(
        r"Traceback for thread (?P<id>\d{1,10})(?: \((?P<name>[^)]{0,100})\))? \[(?P<state>[^\]]{0,80})\] \(most recent"
        r" call last\)"
    )


@line_parser
class GdbParser(LineParser):
    """gdb and cuda-gdb, ``thread apply all bt``. Its thread 1 is the main thread, whose id is the process's."""

    literals = ("(LWP ",)
    samples = (
        Sample(
            'Thread 2 (Thread 0x7f11 (LWP 4712) "pt_nccl_watchdg"):\n#0  0x00007f in pthread_cond_wait@@GLIBC_2.3.2 ()'
            ' from /lib64/libpthread.so.0\nThread 1 (Thread 0x7f10 (LWP 4711) "python"):\n#0  0x00007f in sched_yield'
            " () from /lib64/libc.so.6\n#1  0x00007f in ncclLaunchKernelBefore_NoUncapturedCuda (comm=0x1) at"
            " enqueue.cc:12\n#2  main ()",
            (
                {
                    "kind": "stack",
                    "thread": "pt_nccl_watchdg",
                    "main": False,
                    "frames": ("pthread_cond_wait@@GLIBC_2.3.2 (libpthread.so.0)",),
                },
                {
                    "kind": "stack",
                    "main": True,
                    "pid": 4711,
                    "tool": "gdb",
                    "frames": (
                        "sched_yield (libc.so.6)",
                        "ncclLaunchKernelBefore_NoUncapturedCuda (enqueue.cc:12)",
                        "main (?)",
                    ),
                },
            ),
            "gdb 14 thread apply all bt",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One stack for each thread with frames."""
        hit = _gdb().search(line.body)
        if hit is None:
            return
        frames = sf.collect(line, sf.gdb_frame)
        if frames:
            main = hit["no"] == "1"
            fields = owner_of(line, FAR if main else NEAR).fields(line)
            if main and fields["pid"] is None:
                fields["pid"] = int(hit["lwp"])
            yield Stack(**fields, thread=hit["name"], frames=frames, main=main, tool="gdb")


@cache
def _bare() -> re.Pattern[str]:
    return re.compile(r"^(?:[^\s#]{1,60}[: ] {0,4})?#0 {1,2}0x[0-9a-f]{1,16} in ")


@line_parser
class BareBacktraceParser(LineParser):
    """``bt`` of gdb or cuda-gdb without the head that names its thread: a debugger that attaches stands in the main one."""

    literals = ("#0  0x", "#0 0x")
    samples = (
        Sample(
            "(cuda-gdb) bt\n#0  0x00007f in clock_nanosleep () from /lib/x86_64-linux-gnu/libc.so.6\n"
            "#1  0x00007f in ?? () from /lib/x86_64-linux-gnu/libnccl.so.2\n"
            "#2  0x00007f in pncclCommInitRankConfig () from /lib/x86_64-linux-gnu/libnccl.so.2",
            (
                {
                    "kind": "stack",
                    "main": True,
                    "tool": "gdb",
                    "frames": (
                        "clock_nanosleep (libc.so.6)",
                        "?? (libnccl.so.2)",
                        "pncclCommInitRankConfig (libnccl.so.2)",
                    ),
                },
            ),
            "gdb 14 bt, cuda-gdb 12",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One stack, where no head stands above."""
        if _bare().search(line.body) is None or any(_gdb().search(above.body) for above in line.preceding(3)):
            return
        first, below = sf.gdb_frame(line.body), sf.collect(line, sf.gdb_frame)
        if first and below:
            yield Stack(**owner_of(line, FAR).fields(line), thread=None, frames=(first, *below), main=True, tool="gdb")


@line_parser
class PystackParser(LineParser):
    """pystack prints the innermost frame last."""

    literals = ("Traceback for thread ",)
    samples = (
        Sample(
            "Traceback for thread 4711 (python) [Has the GIL] (most recent call last):\n    (Python) File"
            ' "/opt/train.py", line 12, in <module>\n        main()\n    (Python) File "/opt/train.py", line 9, in'
            ' main\n        load()\n    (C) File "???", line 0, in read (libc.so.6)',
            (
                {
                    "kind": "stack",
                    "main": True,
                    "state": "Has the GIL",
                    "frames": ("read (libc.so.6)", "main (/opt/train.py:9)", "<module> (/opt/train.py:12)"),
                },
            ),
            "pystack 1.3 remote --native",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One stack for each thread with frames."""
        hit = _pystack().search(line.body)
        if hit is None:
            return
        frames = tuple(reversed(sf.collect(line, sf.pystack_frame)))
        if frames:
            main = any(frame.startswith("<module> ") for frame in frames) and not sf.started_by_threading(frames)
            yield Stack(
                **owner_of(line).fields(line),
                thread=hit["name"],
                frames=frames,
                main=main,
                state=hit["state"] or None,
                tool="pystack",
            )
