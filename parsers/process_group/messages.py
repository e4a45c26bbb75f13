"""Reads what process groups log while nothing is wrong yet: guessed devices, modes, readiness, options.

None of it is an error, but a device that was guessed, or a send that is serialised with collectives, explains later
hangs; with blocking wait, and with TorchComms, none of the watchdog's lines can be expected.
Wordings: pytorch ``ProcessGroupNCCL.cpp`` and ``NCCLUtils.cpp``, 1.9 to 2.13; the options stand in the constructor,
v2.0 to v2.13, where INFO lines of c10 are on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from nccldoctor.events import Event, GroupRef, Note
from nccldoctor.parsers.base import Line, common, line_parser, reads
from nccldoctor.parsers.process_group.prefix import grouped, member
from nccldoctor.parsers.rows import RowParser, Table
from nccldoctor.patterns import lazy

_FIELDS = {
    "size": lazy(r"\bsize: (\d{1,9})"),
    "global_rank": lazy(r"\bglobal rank: (\d{1,9})"),
    "timeout_ms": lazy(r"\bTIMEOUT\(ms\): (\d{1,15})"),
    "name": lazy(r"\bPG Name: ([^\s,]{1,200})"),
}


@line_parser
class GroupMessages(RowParser):
    """*note* for each of these lines."""

    longest = 4_000
    rows = Table(__file__).rows

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the group that stands before the words."""
        return grouped(line, line.body[: hit.start()])


@reads("NCCL initialization options")
def group_options(line: Line) -> Iterable[Event]:
    """The options of a new group; ``detail`` holds ``size=``, ``global_rank=``, ``timeout_ms=`` and ``name=`` as far as
    they are told.
    """
    options = {name: m[1] for name, p in _FIELDS.items() if (m := p.search(line.body))}
    if not options:
        return
    group, group_rank = member(line.body)
    rank = int(options["global_rank"]) if "global_rank" in options else line.mark.rank
    group = group or (GroupRef(uid=options["name"]) if "name" in options else None)
    detail = " ".join(f"{name}={value}" for name, value in options.items())
    yield Note(**common(line, rank=rank, group=group, group_rank=group_rank), what="group-options", detail=detail)
