"""What a process group says when it is made, where INFO lines of c10 are on: its size, timeout and name.

Text: pytorch ``ProcessGroupNCCL.cpp``, constructor, v2.0 to v2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nccldoctor.events import Event, GroupRef, Note
from nccldoctor.parsers.base import Line, LineParser, Sample, common, line_parser
from nccldoctor.parsers.process_group.prefix import member

_FIELDS = {
    "size": re.compile(r"\bsize: (\d{1,9})"),
    "global_rank": re.compile(r"\bglobal rank: (\d{1,9})"),
    "timeout_ms": re.compile(r"\bTIMEOUT\(ms\): (\d{1,15})"),
    "name": re.compile(r"\bPG Name: ([^\s,]{1,200})"),
}


@line_parser
class Options(LineParser):
    """The options of a new group; ``detail`` holds ``size=``, ``global_rank=``, ``timeout_ms=`` and ``name=`` as far as
    they are told.
    """

    literals = ("NCCL initialization options",)
    samples = (
        Sample(
            "[rank3]:[I303 10:00:00.000000001 ProcessGroupNCCL.cpp:905] [PG ID 1 PG GUID 4 Rank 1] ProcessGroupNCCL "
            "initialization options: size: 4, global rank: 3, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0, PG "
            "Name: 4\n",
            (
                {
                    "kind": "note",
                    "rank": 3,
                    "group_rank": 1,
                    "group": GroupRef(pg_id=1, uid="4"),
                    "what": "group-options",
                    "detail": "size=4 global_rank=3 timeout_ms=600000 name=4",
                },
            ),
            "pytorch/pytorch v2.5.1",
        ),
    )

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
