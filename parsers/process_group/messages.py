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
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.process_group.prefix import grouped, member
from nccldoctor.parsers.rows import Row, RowParser
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

    rows = (
        Row("currently unknown", r"using (?:best-guess )?GPU \d{1,5} .{0,120}?(?:is|are) currently unknown", what="device-guessed"),
        Row("Guessing device ID", r"Guessing device ID based on global rank", what="device-guessed"),
        Row("An unbatched P2P op", r"An unbatched P2P op \(send/recv\) was called .{0,400}", what="unbatched-p2p"),
        Row(": NCCL communicator ", r"Rank \d{1,7}: NCCL communicator \S{1,200} is initialized", what="communicator-ready"),
        Row("Failed to check the", r"Failed to check the \W{0,2}should dump\W{0,2} flag .{0,200}", what="store-unreachable"),
        Row("Dump signal received through pipe", r"Dump signal received through pipe", what="dump-by-pipe"),
        Row("to trigger NCCL Debug Dump", r"Pipe file \S{1,300} has been opened, write to it to trigger", what="dump-pipe"),
        Row("hread is disabled, but would", r"\w{1,20} [Mm]onitor [Tt]hread is disabled, but would .{0,200}", what="monitor-disabled"),
        Row("NO watchdog thread is created", r"TORCH_NCCL_BLOCKING_WAIT is enabled, NO watchdog thread is created", what="no-watchdog"),
        Row("Using TorchComms backend", r"Using TorchComms backend .{1,300}", what="torchcomms"),
        Row("to copy child error file", r"no error file defined for parent, to copy child error file.{0,300}", what="error-file"),
    )  # fmt: skip

    def text(self, line: Line) -> str:
        """See :class:`RowParser`."""
        return line.body[:4_000]

    def fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the group that stands before the words."""
        return grouped(line, line.body[: hit.start()])


@line_parser
class GroupOptions(LineParser):
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
