"""The prefix of NCCL's own log lines, taken apart.

Forms by release (NVIDIA/nccl ``src/debug.cc``, tags v2.3.5 to v2.30.7; text of the 2.31.2 and 2.32.3 libraries):
``host:pid:tid [dev] NCCL INFO msg``; WARN adds ``file:line`` and from 2.30.7 ``(function)``; from 2.26 a time in
square brackets may stand in front, in a format of the user's choice; DIAG (2.31) has only ``host:pid``. A launcher
may put anything before it, several processes may write into one line, and excerpts lose the front, so the search
starts at ``NCCL <LEVEL>``. The closed releases before 2.3.5 write ``host:pid:tid [dev] file:line WARN msg`` without
NCCL's name (logs of 2.1 and 2.2 in public reports): there the whole front is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.parsers.base import Line, Mark, common
from nccldoctor.parsers.line_prefix.timestamps import iso_time
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_HEADS, _RECORD = ("NCCL error", "NCCL timeout", "NCCL version"), 8
"""What the first line of PyTorch's report of an NCCL error holds, and the lines such a report has."""


class NcclMessage(Struct, frozen=True):
    """One message with what its prefix says. ``device`` is the index inside the process, not the board of the node.

    ``is_glued`` is true behind a message of another process in one line: the label in front of the line is not that of its writer.
    """

    level: str
    message: str
    host: str | None = None
    pid: int | None = None
    device: int | None = None
    file: str | None = None
    time: datetime | None = None
    is_glued: bool = False


_LEVEL = lazy(r"NCCL (INFO|WARN|ATTN|DIAG|CALL|TRACE) ")
_HEAD = lazy(
    r"(?:\[(?P<time>[^\[\]]{5,40})\] {0,3})?"
    r"(?:(?<=:)\d{1,10}(?=[A-Za-z]))?(?P<host>[A-Za-z0-9_][A-Za-z0-9_.\-]{0,252}):(?P<pid>\d{1,10}):(?P<tid>-?\d{1,10}) "
    r"(?:\[(?P<dev>-?\d{1,5})\] )?"
    r"(?:(?P<file>[\w./+\-]{1,120})[: ]\d{1,6} (?:\([^()]{0,120}\) )?|[\d.]{1,20} \w{1,80}:\d{1,6} )?$"
)
"""Where another prefix was torn off in front, the number of its thread is no part of the host."""
_NAMELESS = lazy(
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.\-]{0,252}):(?P<pid>\d{1,10}):\d{1,10} \[(?P<dev>\d{1,5})\] "
    r"(?:(?P<file>[\w/]{1,80}\.(?:cu|cc|h)):\d{1,6} WARN |INFO (?=[\w/]{1,80}\.(?:cu|cc|h):\d{1,6} -> \d))"
)
"""Before 2.3.5; of what it writes at INFO only the trail of an error."""
_THIN_HEAD = lazy(
    r"(?:\[(?P<time>[^\[\]]{5,40})\] {0,3})?(?<![\w.\-])(?P<host>[A-Za-z][A-Za-z0-9_.\-]{0,200}[\d\-][A-Za-z0-9_.\-]{0,50}) "
    r"\[(?P<dev>\d{1,5})\] (?:(?P<file>[\w./+\-]{1,120}):\d{1,6} (?:\([^()]{0,120}\) )?)?$"
)
"""Without process and thread, which filters for public texts take out."""
_BARE_HEAD = lazy(r"(?P<file>[\w./+\-]{1,120}):\d{1,6} (?:\([^()]{0,120}\) )?$")
_DIAG_HEAD = lazy(r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.\-]{0,252}):(?P<pid>\d{1,10}) $")


def messages(body: str) -> list[NcclMessage]:
    """Every NCCL message of a line, in order; empty where there is none."""
    if "NCCL " not in body:
        return _nameless(body)
    found = []
    floor = 0
    for hit in _LEVEL.finditer(body):
        front = body[max(floor, hit.start() - 400) : hit.start()]
        head = _HEAD.search(front) or _THIN_HEAD.search(front)
        head = head or (_DIAG_HEAD if hit[1] == "DIAG" else _BARE_HEAD).search(front)
        found.append((hit, head, hit.start() - len(front) + head.start() if head else hit.start()))
        floor = hit.end()
        if len(found) == 16:  # a torn line of a crowded log holds a handful
            break
    ends = [*(start for _, _, start in found[1:]), len(body)] if found else []
    told = [_message(hit, head, body[hit.end() : end]) for (hit, head, _), end in zip(found, ends, strict=True)]
    return [replace(one, is_glued=True) if _is_of_another(one, told[0]) else one for one in told]


def _is_of_another(message: NcclMessage, first: NcclMessage) -> bool:
    own, other = (message.host, message.pid), (first.host, first.pid)
    return None not in own and None not in other and own != other


def _nameless(body: str) -> list[NcclMessage]:
    head = _NAMELESS.search(body) if " WARN " in body or "] INFO " in body else None
    if head is None:
        return []
    return [
        NcclMessage(
            level="WARN" if head["file"] else "INFO",
            message=body[head.end() :].strip(),
            host=head["host"],
            pid=int(head["pid"]),
            device=int(head["dev"]),
            file=head["file"],
        )
    ]


def _message(hit: re.Match[str], head: re.Match[str] | None, text: str) -> NcclMessage:
    part = head.groupdict() if head else {}
    return NcclMessage(
        level=hit[1],
        message=text.strip(),
        host=part.get("host"),
        pid=int(part["pid"]) if part.get("pid") else None,
        device=int(part["dev"]) if part.get("dev") else None,
        file=part.get("file"),
        time=iso_time(part.get("time")),
    )


def message_fields(line: Line, message: NcclMessage, **more: Any) -> dict[str, Any]:
    """The common fields of an event that comes from ``message``: host and pid as NCCL names them. What PyTorch quotes
    of NCCL belongs to the rank that quotes it.
    """
    mark = line.mark if message.level else quoted_by(line) or line.mark
    own = {"rank": None if message.is_glued else mark.rank} if message.is_glued or mark is not line.mark else {}
    return common(
        line,
        host=message.host or mark.host,
        pid=message.pid if message.pid is not None else mark.pid,
        time=mark.time or message.time or mark.collected,
        **(own | more),
    )


def quoted_by(line: Line) -> Mark | None:
    """The mark of the record that ends in ``Last error:`` and this line; None for a line with a mark."""
    if line.mark.rank is not None or line.mark.severity is not None:
        return None
    above = line.preceding(_RECORD)
    first = next(above, None)
    if first is None or "Last error:" not in first.body:
        return None
    return next((other.mark for other in above if any(head in other.body for head in _HEADS)), None)


@for_rows
def host_part(peer: str | None) -> str | None:
    """The address of ``10.0.0.3<47712>`` or ``[fe80::1%ib0]<0>``; the port is short-lived and joins nothing."""
    return peer.split("<")[0].strip("[]") or None if peer else None


def messages_or_line(line: Line) -> list[NcclMessage]:
    """The NCCL messages of a line; the line itself where the prefix is lost, as after ``Last error:``."""
    return messages(line.body) or [NcclMessage("", line.body.strip())]


_Pieces = Iterator[tuple[str, Callable[[Line, re.Match[str]], dict[str, Any]]]]


@for_rows
def nccl_messages(line: Line) -> _Pieces:
    """Each message of NCCL in a line, or the line, with what its prefix says."""
    return ((one.message, _fields_behind(one)) for one in messages_or_line(line))


@for_rows
def nccl_informations(line: Line) -> _Pieces:
    """Each message of the level INFO."""
    return ((one.message[:1_000], _fields_behind(one)) for one in messages(line.body) if one.level == "INFO")


@for_rows
def nccl_traces(line: Line) -> _Pieces:
    """Each call and trace, behind its level."""
    traces = (one for one in messages(line.body) if one.level in ("CALL", "TRACE"))
    return ((f"{one.level} {one.message[:1_000]}", _fields_behind(one)) for one in traces)


def _fields_behind(message: NcclMessage) -> Callable[[Line, re.Match[str]], dict[str, Any]]:
    return lambda line, hit: message_fields(line, message, cuda_dev=message.device)


@for_rows
def nccl_prefixed(line: Line) -> _Pieces:
    """Each message behind a prefix of NCCL."""
    return ((one.message, _fields_behind(one)) for one in messages(line.body))
