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
from nccldoctor.parsers.event_details import BARRIER_COUNTS
from nccldoctor.parsers.rows import RowParser, Table, needs_of
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_SET_UP = "is setting up NCCL communicator"

_UNIQUE_ID = lazy(
    r"(?:\[(?P<rank>\d{1,7})\] )?is setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueId from "
    r"(?:\[(?P<peer>\d{1,7})\]|roots)"
)
_ADDRESS = lazy(r"got error: .{0,80}?(?:failed to format addr|unknown family=|Address family not supported)")
"""The socket of the store failed over its address: the peer is not shown to be late."""

_KEY = lazy(r"(?:keys: |waiting for key: )(?P<path>/?[^\s,]{1,300})|by key '(?P<name>[^']{1,2000})'")
_BARRIER = lazy(
    r"store[- ]based barrier (?:to initialize process group for |on )?rank:? (?P<rank>\d{1,7}),"
    r" (?:for )?key: (?P<key>\S{1,200}) "
    r"\(" + BARRIER_COUNTS.pattern
)
_PORT = lazy(r"(?:\bport: |\]:|\d:)(?P<port>\d{2,5})\b(?=[\s,]|$)")
_BRACKETS = lazy(r"^\[([^\[\]:]{1,253})\]:")
"""Around the name of a host, which needs none; an IPv6 address does."""

_COMPLETED = lazy(r"(?:Rank (?P<rank>\d{1,7}): )?Completed store-based barrier for key:\s?(?P<key>\S{1,200}) with \d")


@line_parser
class StoreErrors(RowParser):
    """*store-error*: who waits, for which key or which rank, and how many are missing."""

    literals = (_SET_UP, *_TABLE.literals)
    event = StoreError
    rows = _TABLE.rows
    needs = (lazy(_SET_UP), _BARRIER, _COMPLETED, *needs_of(rows))

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the number of clients that are missing, or the first of the keys, where the wording has them."""
        groups, fields = hit.groupdict(), common(line)
        if "all" in groups:
            fields["missing"] = max(0, int(hit["all"]) - int(hit["here"]))
        if "keys" in groups:
            fields["key"] = (hit["keys"] or "").partition(",")[0].strip() or None
        if groups.get("at"):
            fields["address"] = _BRACKETS.sub(r"\1:", hit["at"].replace(", ", ":"))
        elif "in use" in line.body or "EADDRINUSE" in line.body:
            fields["address"] = _taken_port(line)
        return fields

    def parse(self, line: Line) -> Iterable[Event]:
        """One event for a line; a barrier's and a set-up record have shapes of their own."""
        if _SET_UP in line.body:
            return [_set_up(line)]
        if _is_tail(line):
            return []
        if match := _BARRIER.search(line.body):
            return [_store_barrier(line, match)]
        if match := _COMPLETED.search(line.body):
            rank = int(match["rank"]) if match["rank"] else line.mark.rank
            return [Note(**common(line, rank=rank), what="store-barrier-passed", detail=f"key {match['key']}")]
        return super().parse(line)


def _taken_port(line: Line) -> str | None:
    """The port that was in use; newer versions print it on a line of its own, ``port: 29500``."""
    texts = (line.body, *(above.body for above in line.preceding(4)))
    return next((f"port {hit['port']}" for text in texts if (hit := _PORT.search(text))), None)


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
    keys = {name: value for named in _KEY.finditer(text) for name, value in named.groupdict().items() if value}
    path = keys.get("path", "").rstrip(".")
    fields: dict[str, Any] = {"operation": "unique-id", "key": path or keys.get("name")}
    if match is not None:
        fields["group_rank"] = int(match["rank"]) if match["rank"] else None
        fields["peer"] = int(match["peer"]) if match["peer"] else None
    if _ADDRESS.search(text):
        own = line.mark.rank if line.mark.rank == fields.get("group_rank") else None  # else a line of another process
        return StoreError(**common(line, rank=own, **fields | {"operation": "connect", "peer": None}))
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
