"""Errors of the TCP store whose rows need code: set-up records, barriers, addresses. The sources stand in ``store_rows.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, Note, StoreError
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_SET_UP = "is setting up NCCL communicator"

_UNIQUE_ID = lazy(
    r"(?:\[(?P<rank>\d{1,7})\] )?is setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueId from "
    r"(?:\[(?P<peer>\d{1,7})\]|roots)"
)
_ADDRESS = lazy(r"got error: .{0,80}?(?:failed to format addr|unknown family=|Address family not supported)")
"""The socket of the store failed over its address: the peer is not shown to be late."""

_KEY = lazy(r"(?:keys: |waiting for key: )(?P<path>/?[^\s,]{1,300})|by key '(?P<name>[^']{1,2000})'")
_PORT = lazy(r"(?:\bport: |\]:|\d:)(?P<port>\d{2,5})\b(?=[\s,]|$)")
_BRACKETS = lazy(r"^\[([^\[\]:]{1,253})\]:")
"""Around the name of a host, which needs none; an IPv6 address does."""


@for_rows
def store_line(line: Line, hit: re.Match[str]) -> dict[str, Any] | None:
    """With the number of clients that are missing, or the first of the keys, where the wording has them."""
    if _is_tail(line):
        return None
    groups, fields = hit.groupdict(), common(line)
    if "all" in groups:
        fields["missing"] = max(0, int(hit["all"]) - int(hit["here"]))
    if "keys" in groups:
        fields["key"] = (hit["keys"] or "").partition(",")[0].strip() or None
    if groups.get("at"):
        fields["address"] = _BRACKETS.sub(r"\1:", hit["at"].replace(", ", ":"))
    elif "in use" in line.body or "EADDRINUSE" in line.body:
        # newer versions print it on a line of its own
        texts = (line.body, *(above.body for above in line.preceding(4)))
        fields["address"] = next((f"port {found['port']}" for text in texts if (found := _PORT.search(text))), None)
    return fields


def _is_tail(line: Line) -> bool:
    """True for the second half of a set-up record that a terminal wrapped."""
    if line.mark.severity is not None or ("key-value" not in line.body and "store->get" not in line.body):
        return False
    return any(_SET_UP in above.body for above in line.preceding(2))


@for_rows
def unique_id(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """A rank waits for the id of a communicator, from the root or from the roots."""
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
        yield StoreError(**common(line, rank=own, **fields | {"operation": "connect", "peer": None}))
    else:
        yield StoreError(**common(line, **fields))


@for_rows
def store_barrier(line: Line, match: re.Match[str]) -> Iterator[Event]:
    """Its rank is the global one. Lines of ranks that still wait are notes: the others may come yet; where more came than belong, waiting
    does not help.
    """
    missing = int(match["all"]) - int(match["here"])
    fields = common(line, rank=int(match["rank"]))
    if _is_tail(line):
        return
    if missing < 0:
        yield StoreError(**fields, operation="crowded", key=match["key"], missing=0)
    elif "Waiting" in line.body:
        detail = f"{missing} of {match['all']} not there yet, key {match['key']}"
        yield Note(**fields, what="store-barrier-waiting", detail=detail)
    else:
        yield StoreError(**fields, operation="barrier", key=match["key"], missing=missing)
