"""Stacks of debuggers that see native frames: gdb, cuda-gdb and pystack.

Sources: gdb ``thread apply all bt``, pystack 1.3 ``remote --native``.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Stack
from nccldoctor.parsers.base import Line, LineParser, line_parser
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


@line_parser
class GdbParser(LineParser):
    """gdb and cuda-gdb, ``thread apply all bt``. Its thread 1 is the main thread, whose id is the process's."""

    literals = ("(LWP ",)

    def parse(self, line: Line) -> Iterator[Event]:
        hit = _GDB.search(line.body)
        if hit is None:
            return
        frames = sf.collect(line, sf.gdb_frame)
        if frames:
            main = hit["no"] == "1"
            fields = owner_of(line, FAR if main else NEAR).stack_fields(line)
            if main and fields["pid"] is None:
                fields["pid"] = int(hit["lwp"])
            yield Stack(**fields, thread=hit["name"], frames=frames, main=main, tool="gdb")


_BARE = lazy(r"^(?:[^\s#]{1,60}[: ] {0,4})?#0 {1,2}0x[0-9a-f]{1,16} in ")


@line_parser
class BareBacktraceParser(LineParser):
    """``bt`` of gdb or cuda-gdb without the head that names its thread.

    A debugger that attaches stands in the main thread.
    """

    literals = ("#0  0x", "#0 0x")

    def parse(self, line: Line) -> Iterator[Event]:
        """One stack, where no head stands above."""
        if _BARE.search(line.body) is None or any(_GDB.search(above.body) for above in line.preceding(3)):
            return
        first, below = sf.gdb_frame(line.body), sf.collect(line, sf.gdb_frame)
        if first and below:
            yield Stack(
                **owner_of(line, FAR).stack_fields(line), thread=None, frames=(first, *below), main=True, tool="gdb"
            )


@line_parser
class PystackParser(LineParser):
    """pystack prints the innermost frame last."""

    literals = ("Traceback for thread ",)

    def parse(self, line: Line) -> Iterator[Event]:
        hit = _PYSTACK.search(line.body)
        if hit is None:
            return
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
