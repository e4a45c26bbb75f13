"""HCCL, the collectives of Ascend: waits for a peer in vain, devices without heartbeats, arguments that differ.

Sources: hcomm ``base/err_msg.cc`` (EI0002, EI0005, EI0015), ``task_exception_handler.cc``, ``heartbeat.cc``,
``rank_consistentcy_checker.cc`` and the runtime's ``device_error_proc.cc``, CANN 7 to 9; torch_npu ``NPUException.h`` for
the line with ``RankID``. *remote rank* and *rankId* count inside the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, GroupRef, PeerTimeout, ProcessExit
from nccldoctor.model.operations import op_type
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.line_prefix.timestamps import MONTHS, printed_time
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_CLOCK = lazy(r"(?P<date>\d{4}-[01]\d-[0-3]\d)-(?P<hms>\d\d:\d\d:\d\d)(?:\.(?P<frac>\d{3}))?")
_PID = lazy(r"\[PID: (\d{1,10})\]|\bHCCL\((\d{1,10}),")
_PROCESS = lazy(r"\(PID:(?P<pid>\d{1,10}), Device:-?\d{1,4}, RankID:(?P<rank>\d{1,7})\)")
_PEER = lazy(r"(?:remote rank:? ?\[|Waiting peer rank: )(?P<peer>\d{1,7})\b")
_CHIP = lazy(r"\(chipId:(?P<device>\d{1,4}),")
_TAG = lazy(
    r"tag\[(?:Hcom|Hccl)?(?P<op>AllReduce|AllGather|ReduceScatter|AllToAll|AlltoAll|Broadcast|BatchSendRecv|Reduce"
    r"|Scatter|Gather|Barrier|Send|Receive|Recv)[A-Za-z]{0,3}_?(?P<rest>[^\]]{0,200})\]"
)
_GROUP = lazy(r"(?:group:\[|^)(?P<name>hccl_world_group|group_name_\d{1,7}|[\w.-]{1,80})")
_INSIDE = lazy(
    r"rankSize\[(?P<size>\d{1,7})\], (?:rankId|localRank)\[(?P<own>\d{1,7})(?:[ ,]{1,2}(?P<peer>\d{1,7}))?\]"
)
_OPS = {"alltoall": "ALLTOALL", "receive": "RECV"}
_ABOVE, _BELOW = 6, 6
"""Lines above and below a message that belong to it."""


@for_rows
def hccl_line(line: Line, hit: re.Match[str] | None = None) -> dict[str, Any]:
    """The common fields, with the clock and the process that HCCL itself prints.

    The rank is that of torch_npu's line above: ``[ERROR] … (PID:4711, Device:3, RankID:11) ERR02200 DIST call hccl api failed.``
    """
    clock, pid = _CLOCK.search(line.body), _PID.search(line.body)
    fields = common(line)
    if clock:
        fields["time"] = printed_time(clock.groupdict()) or fields["time"]
    if pid:
        fields["pid"] = int(pid[1] or pid[2])
    if fields["rank"] is None:
        heads = (head for above in line.preceding(_ABOVE) if (head := _PROCESS.search(above.body)))
        head = next(heads, None)
        if head and fields["pid"] in (None, int(head["pid"])):
            fields |= {"rank": int(head["rank"]), "pid": int(head["pid"])}
    return fields


@for_rows
def hccl_timeout(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*peer-timeout*: the peer that did not answer, the call, the group, and the rank inside it."""
    text = line.body
    for below in line.following(_BELOW):
        is_part = "Task run failed, " in below.body and "base information is" not in below.body
        if (
            (_PID.search(below.body) and not is_part)
            or "Possible Cause" in below.body
            or "raceBack (most recent" in below.body
        ):
            break
        text += f" {below.body.strip()}"
    yield PeerTimeout(**hccl_line(line) | _call_fields(text), by="HCCL")


def _call_fields(text: str) -> dict[str, Any]:
    peer, tag, inside = _PEER.search(text), _TAG.search(text), _INSIDE.search(text)
    chip = _CHIP.search(text)
    fields: dict[str, Any] = {
        "peer": int(peer["peer"]) if peer else None,
        "device": int(chip["device"]) if chip else None,
    }
    if tag:
        op = tag["op"].lower()
        fields["op"] = _OPS.get(op, op_type(re.sub(r"^(all|reduce)(?=gather|reduce|scatter)", r"\1_", op)))
        named = _GROUP.search(text, text.find("group:[")) if "group:[" in text else _GROUP.search(tag["rest"])
        fields["group"] = GroupRef(uid=named["name"]) if named else None
    if inside:
        fields |= {"size": int(inside["size"]), "group_rank": int(inside["own"])}
        if fields["peer"] is None and inside["peer"]:
            fields["peer"] = int(inside["peer"])
    return fields


@for_rows
def lost_heartbeat(line: Line, lost: re.Match[str]) -> Iterator[Event]:
    """*process-exit* of a device that sent no heartbeat."""
    fields = common(line, rank=None, pid=None)
    if lost["month"] in MONTHS:
        fields["time"] = printed_time({k: lost[k] for k in ("month", "day", "hms", "year")}) or fields["time"]
    host, device = lost["host"] or lost["server"], lost["device"] or lost["id"]
    yield ProcessExit(**fields | {"host": host, "local_rank": int(device)}, reporter="hccl")


_ASPECTS = {"count": "size", "dataType": "dtype", "datatype": "dtype"} | dict.fromkeys(
    ("opType", "cmdType", "cclOp", "op", "tag"), "op"
)


@for_rows
def hccl_aspects(name: str) -> tuple[str]:
    """What differs where a parameter of this name does."""
    return (next((known for word, known in _ASPECTS.items() if word in name), "parameters"),)
