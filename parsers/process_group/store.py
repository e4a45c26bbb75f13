"""Reads the errors of the TCP store: keys nobody sets, clients that do not come, a host that is gone.

pytorch ``torch/csrc/distributed/c10d/TCPStore.cpp``, ``socket.cpp``, ``ProcessGroupNCCL.cpp`` and
``torch/distributed/distributed_c10d.py``: 1.8 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from nccldoctor.events import Event, Note, StoreError
from nccldoctor.parsers.base import Line, common, line_parser
from nccldoctor.parsers.rows import Row, RowParser
from nccldoctor.patterns import lazy

_SET_UP = "is setting up NCCL communicator"

_UNIQUE_ID = lazy(
    r"(?:\[(?P<rank>\d{1,7})\] )?is setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueId from "
    r"(?:\[(?P<peer>\d{1,7})\]|roots)"
)
_KEY = lazy(r"(?:keys: |waiting for key: )(?P<path>/?[^\s,]{1,300})|by key '(?P<name>[^']{1,2000})'")
_BARRIER = lazy(
    r"store[- ]based barrier (?:to initialize process group for |on )?rank:? (?P<rank>\d{1,7}),"
    r" (?:for )?key: (?P<key>\S{1,200}) "
    r"\(world_size=(?P<all>\d{1,9}), (?:worker_count|num_workers_joined)=(?P<here>\d{1,9})"
)


def _first_key(hit: re.Match[str]) -> str | None:
    return (hit["keys"] or "").partition(",")[0].strip() or None


@line_parser
class StoreErrors(RowParser):
    """*store-error*: who waits, for which key or which rank, and how many are missing."""

    literals = (_SET_UP, "in store based barrier", "store-based barrier")
    event = StoreError
    rows = (
        Row(("waiting for clients. ", "waiting for workers. "),
            r"Timed out after \d{1,9} seconds waiting for (?:clients|workers)\. (?P<here>\d{1,9})/(?P<all>\d{1,9})"
            r" (?:clients|workers) joined",
            operation="clients-missing", missing=lambda hit: max(0, int(hit["all"]) - int(hit["here"]))),
        Row("The server socket has ", r"The server socket has failed to listen on any local network address", operation="set-up"),
        Row(("ddress already in use", "EADDRINUSE"),
            r"The server socket has failed to bind to .{1,200}(?:EADDRINUSE|[Aa]ddress already in use)"
            r"|(?:RuntimeError|DistNetworkError): .{0,200}Address already in use|EADDRINUSE", operation="set-up"),
        Row("The client socket has ", r"The client socket has timed out after .{1,40} while trying to connect", operation="connect"),
        Row("The client socket has ", r"The client socket has failed to connect to (?:any network address|\S)", operation="connect"),
        Row(" cannot be retrieved", r"network addresses of .{1,300} cannot be retrieved"
            r"|The hostname of the client socket cannot be retrieved", operation="connect"),
        Row("TCP client failed to connect/validate", r"TCP client failed to connect/validate to host .{1,300}? - timed out",
            operation="connect"),
        Row("connect() timed out", r"connect\(\) timed out\b", operation="connect"),
        Row("TCP client failed to connect/validate", r"^.*", Note, what="connect-retry"),
        Row("wait timeout after ", r"wait timeout after \d{1,12}\s?ms(?:, keys: (?P<keys>[^\n]{1,1000}))?",
            operation="wait", key=_first_key),
        Row("Timeout waiting for key: ", r"Timeout waiting for key: (?P<keys>\S{1,300})", operation="wait", key=_first_key),
        Row("Socket Timeout", r"Socket Timeout\b", operation="wait"),
        Row("waitForInput: ", r"waitForInput: (?:poll for socket .{1,400}? returned 0|socket .{1,400}? timed out after)", operation="wait"),
        Row(("recvValue", "recvVector failed on", "recvString failed on"),
            r"(?:recvValueWithTimeout|recvValue|recvVector|recvString) failed on", operation="recv"),
        Row("sendBytes failed on", r"sendBytes failed on", operation="send"),
        Row("ailed to recv, got 0 bytes", r"[Ff]ailed to recv, got 0 bytes", operation="recv"),
        Row("DistNetworkError: ", r"DistNetworkError: Connection reset by peer", operation="recv"),
        Row("DistNetworkError: ", r"DistNetworkError: Broken pipe", operation="send"),
    )  # fmt: skip

    def parse(self, line: Line) -> Iterable[Event]:
        """One event for a line; a barrier's and a set-up record have shapes of their own."""
        if _SET_UP in line.body:
            return [_set_up(line)]
        if _is_tail(line):
            return []
        if match := _BARRIER.search(line.body):
            return [_store_barrier(line, match)]
        return super().parse(line)


def _is_tail(line: Line) -> bool:
    """True for the second half of a set-up record that a terminal wrapped."""
    if line.mark.severity is not None or ("key-value" not in line.body and "store->get" not in line.body):
        return False
    return any(_SET_UP in above.body for above in line.preceding(2))


def _set_up(line: Line) -> Event:
    text = line.body
    if "got error" not in text or "keys:" not in text:
        for below in line.following(3):
            if below.mark.severity is not None or "Exception raised from" in below.body or "frame #" in below.body:
                break
            text += below.body
    match = _UNIQUE_ID.search(text)
    keys = {name: value for found in _KEY.finditer(text) for name, value in found.groupdict().items() if value}
    path = keys.get("path", "").rstrip(".")
    fields: dict[str, Any] = {"operation": "unique-id", "key": path or keys.get("name")}
    if match is not None:
        fields["group_rank"] = int(match["rank"]) if match["rank"] else None
        fields["peer"] = int(match["peer"]) if match["peer"] else None
    return StoreError(**common(line, **fields))


def _store_barrier(line: Line, match: re.Match[str]) -> Event:
    """Its rank is the global one. Lines of ranks that still wait are notes: the others may come yet; where more came than belong, waiting
    does not help.
    """
    missing = int(match["all"]) - int(match["here"])
    fields = common(line, rank=int(match["rank"]))
    if missing < 0:
        return StoreError(**fields, operation="crowded", key=match["key"], missing=0)
    if "Waiting" in line.body:
        detail = f"{missing} of {match['all']} not there yet, key {match['key']}"
        return Note(**fields, what="store-barrier-waiting", detail=detail)
    return StoreError(**fields, operation="barrier", key=match["key"], missing=missing)
