"""Reads NCCL's RAS messages apart from its report, as far as their rows need code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, RasStatus
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.json_stream import whole_number
from nccldoctor.parsers.line_prefix.timestamps import iso_time
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_NODE = lazy(r"^\s{1,8}Node (?P<host>\S{1,120}) running process(?:es)? (?P<pids>\d[\d,\- ]{0,400})")


@for_rows
def outlier_nodes(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The nodes below that run another number of processes."""
    for below in line.following(64):  # more would not be outliers
        node = _NODE.search(below.body)
        if node is None:
            return
        alone = node["pids"].strip()
        pid = int(alone) if alone.isdigit() and len(alone) < 11 else None
        fields = common(below, rank=None, host=node["host"], pid=pid)
        yield RasStatus(**fields, what="OUTLIER", detail=node[0].strip()[:300])


@for_rows
def lifecycle_event(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The event of a JSON object."""
    try:
        document, _ = json.JSONDecoder().raw_decode(hit["json"])
    except (ValueError, RecursionError):
        return
    name, peer = document.get("event"), document.get("peer")
    if not isinstance(name, str) or document.get("group") not in ("LIFECYCLE", "TRACE"):
        return
    peer = peer if isinstance(peer, dict) else {}
    host = peer.get("host")
    host = host[:200] if isinstance(host, str) else None
    fields: dict[str, Any] = common(line, rank=None, host=host, pid=whole_number(peer.get("pid")))
    fields["time"] = iso_time(document.get("timestamp")) or fields["time"]
    detail = f"{document['group']} {name} {document.get('details') or ''}".strip()
    yield RasStatus(**fields, what=name[:60].removeprefix("PEER_"), detail=detail[:300])
