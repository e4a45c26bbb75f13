"""HCCL, the collectives of Ascend: waits for a peer in vain, devices without heartbeats, arguments that differ.

Sources: hcomm ``base/err_msg.cc`` (EI0002, EI0005, EI0015), ``task_exception_handler.cc``, ``heartbeat.cc``,
``rank_consistentcy_checker.cc`` and the runtime's ``device_error_proc.cc``, CANN 7 to 9; torch_npu ``NPUException.h`` for
the line with ``RankID``. *remote rank* and *rankId* count inside the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import (
    AbsenceReport,
    CollectiveMismatch,
    Event,
    GroupRef,
    PeerTimeout,
    ProcessExit,
    ProcessId,
)
from nccldoctor.model.operations import op_type
from nccldoctor.parsers.base import Line, common, finds, ranks_in, reads
from nccldoctor.parsers.line_prefix.timestamps import MONTHS, printed_time
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


def own_fields(line: Line) -> dict[str, Any]:
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


@finds(_PROCESS, ", RankID:")
def hccl_process(line: Line, head: re.Match[str]) -> Iterator[Event]:
    """*process-id*: the rank of a process, from the line that torch_npu puts above each error."""
    yield ProcessId(**common(line, rank=int(head["rank"]), pid=int(head["pid"])))


@reads(
    "the Notify register times out",
    "the Notify register waits for execution",
    "Task run failed, base information is",
    "fftsplus task timeout",
    "notify wait timeout occurred",
)
def hccl_timeouts(line: Line) -> Iterator[Event]:
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
    yield PeerTimeout(**own_fields(line) | _call_fields(text), by="HCCL")


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


_UNCONNECTED = lazy(r"List of unconnected ranks: \"?\[(?P<ranks>\d[\d, ]{0,60000})\]")
_LOCATION = lazy(
    r"Exception Location\[IP/ID\]:\[(?P<host>[\w.:%-]{1,80})/(?P<device>\d{1,4})\]"
    r"(?:, Arrival Time:\[\w{3} (?P<month>\w{3}) {1,2}(?P<day>\d{1,2}) (?P<hms>\d\d:\d\d:\d\d) (?P<year>\d{4})\])?"
    r".{0,200}?\[?Heartbeat Lost Occurred"
    r"|serverId\[(?P<server>[\w.*:%-]{1,80})\], deviceId\[(?P<id>\d{1,4})\], Heartbeat Lost Occurred"
)


@reads("List of unconnected ranks", "Heartbeat Lost Occurred")
def hccl_cluster_faults(line: Line) -> Iterator[Event]:
    """Ranks that did not connect to the root, and devices that sent no heartbeat."""
    if hit := _UNCONNECTED.search(line.body):
        missing = ranks_in(hit["ranks"])
        yield AbsenceReport(**own_fields(line), by="HCCL", what="set-up", call="communicator", missing=missing)
    elif lost := _LOCATION.search(line.body):
        fields = common(line, rank=None, pid=None)
        if lost["month"] in MONTHS:
            fields["time"] = printed_time({k: lost[k] for k in ("month", "day", "hms", "year")}) or fields["time"]
        host, device = lost["host"] or lost["server"], lost["device"] or lost["id"]
        yield ProcessExit(**fields | {"host": host, "local_rank": int(device)}, reporter="hccl")


_DIFFERS = lazy(
    r"inconsistent between ranks: tag \[(?P<tag>[^\]]{0,200})\], parameter \[(?P<name>[^\]]{0,80})\], "
    r"local \[(?P<left>[^\]]{0,80})\], remote \[(?P<right>[^\]]{0,80})\]"
    r"|inconsistent between ranks: parameter (?P<name2>\w{1,80}), local end (?P<left2>\S{1,80}), remote end (?P<right2>\S{1,80})"
    r"|inconsistent between ranks, parameter (?P<name3>\w{1,80}) is (?P<left3>.{1,80}?) on the local rank and "
    r"(?P<right3>.{1,80}?) on the remote rank"
    r"|CMD information (?P<name4>\w{1,80}) check fail\. local\[(?P<left4>[^\]]{0,80})\], remote\[(?P<right4>[^\]]{0,80})\]"
)
_ASPECTS = {"count": "size", "dataType": "dtype", "datatype": "dtype"} | dict.fromkeys(
    ("opType", "cmdType", "cclOp", "op", "tag"), "op"
)


@finds(_DIFFERS, "are inconsistent between ranks", "CMD information ")
def hccl_mismatches(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*collective-mismatch*: two ranks pass other arguments to one call."""
    name, left, right = (
        next(value for end in ("", "2", "3", "4") if (value := hit[part + end]) is not None)
        for part in ("name", "left", "right")
    )
    aspect = next((known for word, known in _ASPECTS.items() if word in name), "parameters")
    yield CollectiveMismatch(**own_fields(line), left=f"{name} {left}", right=f"{name} {right}", aspects=(aspect,))
