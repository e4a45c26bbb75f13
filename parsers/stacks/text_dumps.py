"""Stacks that tools printed as text: py-spy, faulthandler, gdb and pystack, alone, in a log, or collected by
``torch.distributed.debug``.

Sources: output of py-spy 0.4, CPython ``Python/traceback.c`` (3.8 to 3.14), gdb ``thread apply all bt``, pystack
1.3; pytorch ``torch/distributed/debug/_frontend.py`` 2.13 for ``=== Rank 3: http://… ===`` and ``PARTIAL DATA``.
What comes out has the innermost frame first, as py-spy and faulthandler print it; ids of faulthandler are those of
pthread, not of the system.
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
def _pyspy() -> re.Pattern[str]:
    return re.compile(
        r"Thread (?P<id>\d{1,10}|0x[0-9A-Fa-f]{1,16}) \((?P<state>idle|active(?:\+gil)?|idle\+gil)\)(?::"
        r" \"(?P<name>[^\"]{0,100})\")?"
    )


@cache
def _faulthandler() -> re.Pattern[str]:
    return re.compile(
        r"(?:(?:Current thread|Thread) 0x(?P<id>[0-9a-f]{4,16})(?: \[(?P<name>[^\]]{0,100})\])?|Stack) \(most recent"
        r" call first\):"
    )


@line_parser
class PySpyParser(LineParser):
    """``py-spy dump``, with or without ``--native``, ``--locals`` and ``--subprocesses``."""

    literals = (" (idle)", " (active)", " (active+gil)", " (idle+gil)")
    samples = (
        Sample(
            "Process 99: /opt/venv/bin/python -u train.py\nPython v3.11.9 (/opt/venv/bin/python3.11)\n\nThread 99"
            ' (idle): "MainThread"\n    synchronize (torch/cuda/__init__.py:983)\n    main (/opt/train.py:291)\n   '
            ' <module> (/opt/train.py:301)\nThread 101 (active+gil): "Thread-1"\n    Condition.wait'
            " (threading.py:331)\n        Locals:\n            self: <x>\n    run (a.py:60)",
            (
                {
                    "kind": "stack",
                    "thread": "MainThread",
                    "main": True,
                    "pid": 99,
                    "state": "idle",
                    "tool": "py-spy",
                    "frames": (
                        "synchronize (torch/cuda/__init__.py:983)",
                        "main (/opt/train.py:291)",
                        "<module> (/opt/train.py:301)",
                    ),
                },
                {
                    "kind": "stack",
                    "main": False,
                    "pid": 99,
                    "frames": ("Condition.wait (threading.py:331)", "run (a.py:60)"),
                },
            ),
            "py-spy 0.4 dump --locals",
        ),
        Sample(
            "Thread 0x7F10 (active)\n    ncclGroupEnd (libnccl.so.2)\n    all_reduce"
            " (torch/distributed/distributed_c10d.py:2501)",
            (
                {
                    "kind": "stack",
                    "thread": None,
                    "main": False,
                    "frames": (
                        "ncclGroupEnd (libnccl.so.2)",
                        "all_reduce (torch/distributed/distributed_c10d.py:2501)",
                    ),
                },
            ),
            "py-spy 0.4 dump --native",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One stack for each thread with frames; that of a data loader's worker is no main thread of a rank."""
        hit = _pyspy().search(line.body)
        if hit is None:
            return
        frames = sf.collect(line, sf.pyspy_frame)
        if not frames:
            return
        named_other = hit["name"] not in (None, "MainThread")
        above = owner_of(line, NEAR if named_other else FAR)
        main = hit["name"] == "MainThread" or (
            hit["name"] is None and above.pid is not None and hit["id"] == str(above.pid)
        )
        yield Stack(
            **above.fields(line),
            thread=hit["name"],
            frames=frames,
            main=main and not above.helper,
            state=hit["state"],
            tool="py-spy",
        )


@line_parser
class FaulthandlerParser(LineParser):
    """CPython's ``faulthandler``: by signal, by timer, or as the last words of a crash."""

    literals = ("Current thread 0x", "Thread 0x", "Stack (most recent call first)")
    samples = (
        Sample(
            'Timeout (0:10:00)!\nThread 0x00007f6bad7fa6c0 (most recent call first):\n  File "/opt/train.py", line 279'
            ' in write_dump\n  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap\n\nCurrent thread'
            ' 0x00007f6be9259b80 [python] (most recent call first):\n  File "/opt/train.py", line 318 in worker\n  File'
            ' "/opt/train.py", line 363 in <module>',
            (
                {
                    "kind": "stack",
                    "main": False,
                    "frames": ("write_dump (/opt/train.py:279)", "_bootstrap (/usr/lib/python3.11/threading.py:1002)"),
                },
                {
                    "kind": "stack",
                    "main": True,
                    "thread": "python",
                    "tool": "faulthandler",
                    "frames": ("worker (/opt/train.py:318)", "<module> (/opt/train.py:363)"),
                },
            ),
            "CPython 3.11 and 3.14 faulthandler",
        ),
        Sample(
            "=== Rank 3: http://node4.cluster:41234/handler/dump_traceback? ===\nThread 0x00007f6be9259b80 (most recent"
            ' call first):\n  File "/opt/train.py", line 363 in <module>',
            ({"kind": "stack", "rank": 3, "host": "node4", "main": True},),
            "pytorch torch/distributed/debug 2.13, stacks_<time>.txt",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One stack for each thread; the main thread rests on ``<module>``, or is cut off and printed last."""
        hit = _faulthandler().search(line.body)
        if hit is None:
            return
        frames = sf.collect(line, sf.faulthandler_frame)
        if not frames:
            return
        main = frames[-1].startswith("<module> ") or (
            not sf.started_by_threading(frames)
            and not sf.helps_by_name(hit["name"] or "")
            and not self._another_below(line, len(frames))
        )
        above = owner_of(line, FAR if main else NEAR)
        yield Stack(**above.fields(line), thread=hit["name"], frames=frames, main=main, tool="faulthandler")

    @staticmethod
    def _another_below(line: Line, depth: int) -> bool:
        """Whether the same dump goes on with another thread."""
        for number, below in enumerate(line.following(depth + 8)):
            if _faulthandler().search(below.body):
                return True
            if number >= depth and below.body.strip() and not sf.belongs(below.body):
                return False
        return False
