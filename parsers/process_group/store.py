"""The TCP store and what waits on it: keys that nobody sets, clients that do not come, a host that is gone.

pytorch ``torch/csrc/distributed/c10d/TCPStore.cpp``, ``socket.cpp``, ``ProcessGroupNCCL.cpp`` and
``torch/distributed/distributed_c10d.py``: 1.8 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, Note, StoreError
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_SET_UP = "is setting up NCCL communicator"

_UNIQUE_ID = lazy(
    r"(?:\[(?P<rank>\d{1,7})\] )?is setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueId from "
    r"(?:\[(?P<peer>\d{1,7})\]|roots)"
)
_KEY = lazy(r"(?:keys: |waiting for key: )(?P<path>/?[^\s,]{1,300})|by key '(?P<name>[^']{1,2000})'")
_WAIT = lazy(
    r"wait timeout after \d{1,12}\s?ms(?:, keys: (?P<keys>[^\n"
    r"]{1,1000}))?|Timeout waiting for key: (?P<key>\S{1,300})"
    r"|(?P<socket>Socket Timeout)\b|waitForInput: (?:poll for socket .{1,400}? returned 0|socket .{1,400}? "
    r"timed out after)"
)
_CLIENTS = lazy(
    r"Timed out after \d{1,9} seconds waiting for (?:clients|workers)\. (?P<here>\d{1,9})/(?P<all>\d{1,9}) "
    r"(?:clients|workers) joined"
)
_BARRIER = lazy(
    r"store[- ]based barrier (?:to initialize process group for |on )?rank:? (?P<rank>\d{1,7}),"
    r" (?:for )?key: (?P<key>\S{1,200}) "
    r"\(world_size=(?P<all>\d{1,9}), (?:worker_count|num_workers_joined)=(?P<here>\d{1,9})"
)
_CONNECT = lazy(
    r"The client socket has (?:timed out after .{1,40} while trying to connect|failed to connect to any network "
    r"address"
    r"|failed to connect to \S)|network addresses of .{1,300} cannot be retrieved"
    r"|TCP client failed to connect/validate to host .{1,300}? - timed out|connect\(\) timed out\b"
    r"|The hostname of the client socket cannot be retrieved"
)
_LISTEN = lazy(
    r"The server socket has failed to listen on any local network address"
    r"|The server socket has failed to bind to .{1,200}(?:EADDRINUSE|[Aa]ddress already in use)"
    r"|(?:RuntimeError|DistNetworkError): .{0,200}Address already in use|EADDRINUSE"
)
_GONE = lazy(
    r"(?P<recv>recvValueWithTimeout|recvValue|recvVector|recvString) failed on|(?P<send>sendBytes) failed on"
    r"|(?P<zero>[Ff]ailed to recv, got 0 bytes)|DistNetworkError: (?:Connection reset by peer|(?P<pipe>Broken pipe))"
)


@line_parser
class Store(LineParser):
    """*store-error*: who waits, for which key or which rank, and how many are missing."""

    literals = (
        _SET_UP,
        "wait timeout after ",
        "Timeout waiting for key: ",
        "Socket Timeout",
        "waitForInput: ",
        "waiting for clients. ",
        "waiting for workers. ",
        "in store based barrier",
        "store-based barrier",
        "The client socket has ",
        "hostname of the client socket",
        " cannot be retrieved",
        "TCP client failed to connect/validate",
        "connect() timed out",
        "The server socket has ",
        "ddress already in use",
        "EADDRINUSE",
        "recvValue",
        "recvVector failed on",
        "recvString failed on",
        "sendBytes failed on",
        "ailed to recv, got 0 bytes",
        "DistNetworkError: ",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
        body = line.body
        if _SET_UP in body:
            yield _set_up(line)
        elif _is_tail(line):
            return
        elif match := _BARRIER.search(body):
            yield _store_barrier(line, match)
        elif match := _CLIENTS.search(body):
            yield StoreError(
                **common(line), operation="clients-missing", missing=max(0, int(match["all"]) - int(match["here"]))
            )
        elif _LISTEN.search(body):
            yield StoreError(**common(line), operation="set-up")
        elif _CONNECT.search(body):
            yield StoreError(**common(line), operation="connect")
        elif "TCP client failed to connect/validate" in body:
            yield Note(**common(line), what="connect-retry", detail=body.strip()[:300])
        elif match := _WAIT.search(body):
            key = (match["keys"] or match["key"] or "").partition(",")[0].strip()
            yield StoreError(**common(line), operation="wait", key=key or None)
        elif match := _GONE.search(body):
            yield StoreError(**common(line), operation="send" if match["send"] or match["pipe"] else "recv")


def _is_tail(line: Line) -> bool:
    """Whether this is the second half of a set-up record that a terminal wrapped."""
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
