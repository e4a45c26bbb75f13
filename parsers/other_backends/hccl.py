"""HCCL, the collectives of Ascend: waits for a peer in vain, connections and communicators that did not come up.

Sources: hcomm ``base/err_msg.cc`` (EI0002 to EI0015), ``task_exception_handler.cc``, ``heartbeat.cc`` and the runtime's
``device_error_proc.cc``, CANN 7 to 8.5. *remote rank* and *rankId* count inside the group.
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
    IbError,
    OutOfMemory,
    PeerTimeout,
    ProcessExit,
    StoreError,
)
from nccldoctor.model.operations import op_type
from nccldoctor.parsers.base import Line, LineParser, common, line_parser, ranks_in
from nccldoctor.parsers.line_prefix.timestamps import MONTHS, printed_time
from nccldoctor.parsers.rows import Row, RowParser
from nccldoctor.patterns import lazy

_CLOCK = lazy(r"(?P<date>\d{4}-[01]\d-[0-3]\d)-(?P<hms>\d\d:\d\d:\d\d)(?:\.(?P<frac>\d{3}))?")
_PID = lazy(r"\[PID: (\d{1,10})\]")
_PEER = lazy(r"remote rank:? ?\[(?P<peer>\d{1,7})\]")
_TAG = lazy(
    r"tag\[(?:Hcom|Hccl)?(?P<op>AllReduce|AllGather|ReduceScatter|AllToAll|AlltoAll|Broadcast|BatchSendRecv|Reduce"
    r"|Scatter|Gather|Barrier|Send|Receive|Recv)[A-Za-z]{0,3}_?(?P<rest>[^\]]{0,200})\]"
)
_GROUP = lazy(r"(?:group:\[|^)(?P<name>hccl_world_group|group_name_\d{1,7}|[\w.-]{1,80})")
_INSIDE = lazy(
    r"rankSize\[(?P<size>\d{1,7})\], (?:rankId|localRank)\[(?P<own>\d{1,7})(?:[ ,]{1,2}(?P<peer>\d{1,7}))?\]"
)
_OPS = {"alltoall": "ALLTOALL", "receive": "RECV"}
_BELOW = 6
"""Lines below a message that belong to it."""


def _own_fields(line: Line) -> dict[str, Any]:
    """The common fields, with the clock and the process that HCCL itself prints."""
    clock, pid = _CLOCK.search(line.body), _PID.search(line.body)
    fields = common(line)
    if clock:
        fields["time"] = printed_time(clock.groupdict()) or fields["time"]
    if pid:
        fields["pid"] = int(pid[1])
    return fields


@line_parser
class HcclTimeouts(LineParser):
    """*peer-timeout*: the peer that did not answer, the call, the group, and the rank inside it."""

    literals = (
        "the Notify register times out",
        "Stream synchronize timeout",
        "fftsplus task timeout",
        "notify wait timeout occurred",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        text = line.body
        for below in line.following(_BELOW):
            if "Possible Cause" in below.body or "raceBack (most recent" in below.body or _PID.search(below.body):
                break
            text += f" {below.body.strip()}"
        yield PeerTimeout(**_own_fields(line) | _call_fields(text))


def _call_fields(text: str) -> dict[str, Any]:
    peer, tag, inside = _PEER.search(text), _TAG.search(text), _INSIDE.search(text)
    fields: dict[str, Any] = {"peer": int(peer["peer"]) if peer else None}
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


@line_parser
class HcclClusterFaults(LineParser):
    """Ranks that did not connect to the root, and devices that sent no heartbeat."""

    literals = ("List of unconnected ranks", "Heartbeat Lost Occurred")

    def parse(self, line: Line) -> Iterator[Event]:
        if hit := _UNCONNECTED.search(line.body):
            missing = ranks_in(hit["ranks"])
            yield AbsenceReport(**_own_fields(line), by="HCCL", what="set-up", call="communicator", missing=missing)
        elif lost := _LOCATION.search(line.body):
            fields = common(line, rank=None, pid=None)
            if lost["month"] in MONTHS:
                fields["time"] = printed_time({k: lost[k] for k in ("month", "day", "hms", "year")}) or fields["time"]
            host, device = lost["host"] or lost["server"], lost["device"] or lost["id"]
            yield ProcessExit(**fields | {"host": host, "local_rank": int(device)}, reporter="hccl")


_DIFFERS = lazy(
    r"inconsistent between ranks: tag \[(?P<tag>[^\]]{0,200})\], parameter \[(?P<name>[^\]]{0,80})\], "
    r"local \[(?P<left>[^\]]{0,80})\], remote \[(?P<right>[^\]]{0,80})\]"
)
_ASPECTS = {"count": "size", "dataType": "dtype", "datatype": "dtype", "opType": "op", "op": "op", "cclOp": "op"}


@line_parser
class HcclMismatches(LineParser):
    """*collective-mismatch*: two ranks pass other arguments to one call."""

    literals = ("for collective communication are inconsistent between",)

    def parse(self, line: Line) -> Iterator[Event]:
        if hit := _DIFFERS.search(line.body):
            aspect = next((known for word, known in _ASPECTS.items() if word in hit["name"]), "parameters")
            left, right = (f"{hit['name']} {hit[side]}" for side in ("left", "right"))
            yield CollectiveMismatch(**_own_fields(line), left=left, right=right, aspects=(aspect,))


@line_parser
class HcclErrors(RowParser):
    """Connections, memory and links of which HCCL complains."""

    rows = (
        Row("Getting socket times out", r"Getting socket times out\. Reason", StoreError, operation="connect"),
        Row(
            "based on rootInfo detection",
            r"cluster information of the communicator based on rootInfo detection(?!.{0,300}List of unconnected ranks)",
            StoreError,
            operation="set-up",
        ),
        Row(
            "An error CQE occurred during operator execution",
            r"An error CQE occurred during operator execution.{0,300}?Peer information: server (?P<peer>[\w.:-]{1,64})",
            IbError,
            what="completion",
        ),
        Row(
            "EI0011",
            r"EI0011.{0,120}Failed to allocate \[?\d{1,20}\]? bytes of NPU memory",
            OutOfMemory,
            scope="device",
        ),
        Row("EI0007", r"EI0007.{0,120}Failed to allocate resource", OutOfMemory, scope="device"),
        Row("EJ0002", r"EJ0002.{0,120}The network port is down", IbError, what="port"),
    )

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the clock and the process that HCCL prints."""
        return _own_fields(line)
