"""What a process group says when it is made, where INFO lines of c10 are on: its size, timeout and name.

Text: pytorch ``ProcessGroupNCCL.cpp``, constructor, v2.0 to v2.13.
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import Event, GroupRef, Note
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.process_group.prefix import member
from nccldoctor.patterns import lazy

_FIELDS = {
    "size": lazy(r"\bsize: (\d{1,9})"),
    "global_rank": lazy(r"\bglobal rank: (\d{1,9})"),
    "timeout_ms": lazy(r"\bTIMEOUT\(ms\): (\d{1,15})"),
    "name": lazy(r"\bPG Name: ([^\s,]{1,200})"),
}


@line_parser
class Options(LineParser):
    """The options of a new group; ``detail`` holds ``size=``, ``global_rank=``, ``timeout_ms=`` and ``name=`` as far as
    they are told.
    """

    literals = ("NCCL initialization options",)

    def parse(self, line: Line) -> Iterable[Event]:
        """One note with what the line tells."""
        told = {name: m[1] for name, p in _FIELDS.items() if (m := p.search(line.body))}
        if not told:
            return
        group, group_rank = member(line.body)
        rank = int(told["global_rank"]) if "global_rank" in told else line.mark.rank
        group = group or (GroupRef(uid=told["name"]) if "name" in told else None)
        detail = " ".join(f"{name}={value}" for name, value in told.items())
        yield Note(**common(line, rank=rank, group=group, group_rank=group_rank), what="group-options", detail=detail)
