"""Reads NCCL's RAS messages apart from its report: processes that come, go and die, and nodes that differ.

Source: NVIDIA/nccl ``src/ras``, v2.24.3 to v2.30.7: ``MONITOR`` prints a line for each event since 2.29, as text or
as JSON; the log says who is declared dead; the job summary lists nodes that run another number of processes than most.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, RasStatus
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.json_stream import whole_number
from nccldoctor.parsers.line_prefix.timestamps import iso_time
from nccldoctor.parsers.nccl.prefix import host_part
from nccldoctor.parsers.ras.blocks import comm_id_of
from nccldoctor.patterns import lazy

_PLACES = 64
"""Nodes listed as different; more would not be outliers."""

_TEXT = lazy(
    r"PEER_(?P<what>[A-Z]{2,20}): (?P<text>Process (?P<pid>\d{1,10}) on node (?P<host>\S{1,120}).{0,120})"
    r"|RAS declaring peer (?P<peer>\S{1,100}) as DEAD"
)
_CULPRIT = lazy(
    r"(?:World rank (?P<rank>\d{1,7})|An unidentified worker) "
    r"\((?:host (?P<host>[\w.:-]{1,120}))?(?:, )?(?:pid (?P<pid>\d{1,10}))?[^()]{0,40}\), "
    r"rank (?P<inside>\d{1,7}) of communicator (?P<comm>\S{1,80}?)(?:/\S{1,80})?, "
    r"is (?P<state>unresponsive(?: \(considered dead\))?|behind by \d{1,12} \w{1,30} launch\(es\))"
)
"""A culprit as Ray's hang detector names it (python/ray/train/v2, nv_hang_detector), from two reports of RAS."""

_NODE = lazy(r"^\s{1,8}Node (?P<host>\S{1,120}) running process(?:es)? (?P<pids>\d[\d,\- ]{0,400})")


@reads(
    "PEER_NEW",
    "PEER_DEAD",
    "PEER_CONNECT",
    "RAS declaring peer",
    "The outlier node",
    '"LIFECYCLE"',
    " of communicator 0x",
)
def ras_monitor(line: Line) -> Iterator[Event]:
    """``what`` is the name of the event (*NEW*, *DEAD*, *CONNECTING* …), or *OUTLIER* for a node."""
    body = line.body[:8_000]
    if "The outlier node" in body:
        yield from _outliers(line)
    elif '"event"' in body and "{" in body:
        yield from _lifecycle_event(line, body[body.index("{") :])
    elif hit := _CULPRIT.search(body):
        yield _culprit(line, hit)
    elif hit := _TEXT.search(body):
        host = hit["host"] or host_part(hit["peer"])
        pid = int(hit["pid"]) if hit["pid"] else None
        yield RasStatus(
            **common(line, rank=None, host=host, pid=pid),
            what=hit["what"] or "DEAD",
            detail=(hit["text"] or hit[0])[:300],
        )


def _culprit(line: Line, hit: re.Match[str]) -> RasStatus:
    """A rank that does not answer, or launched fewer calls than the others."""
    is_dead, is_silent = "dead" in hit["state"], "unresponsive" in hit["state"]
    rank = int(hit["rank"]) if hit["rank"] else None
    return RasStatus(
        **common(line, rank=rank, host=hit["host"], pid=int(hit["pid"]) if hit["pid"] else None),
        group_rank=int(hit["inside"]),
        what="DEAD" if is_dead else "INCOMPLETE" if is_silent else "MISMATCH",
        missing=Ranks((int(hit["inside"]),)) if is_silent and not is_dead else Ranks(),
        comm_id=comm_id_of(hit["comm"]),
        detail=hit[0][:300],
    )


def _outliers(line: Line) -> Iterator[Event]:
    for below in line.following(_PLACES):
        hit = _NODE.search(below.body)
        if hit is None:
            return
        alone = hit["pids"].strip()
        pid = int(alone) if alone.isdigit() and len(alone) < 11 else None
        yield RasStatus(
            **common(below, rank=None, host=hit["host"], pid=pid), what="OUTLIER", detail=hit[0].strip()[:300]
        )


def _lifecycle_event(line: Line, text: str) -> Iterator[Event]:
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    name, peer = document.get("event"), document.get("peer")
    if not isinstance(name, str) or document.get("group") not in ("LIFECYCLE", "TRACE"):
        return
    peer = peer if isinstance(peer, dict) else {}
    host = peer.get("host")
    fields: dict[str, Any] = common(
        line,
        rank=None,
        host=host[:200] if isinstance(host, str) else None,
        pid=whole_number(peer.get("pid")),
    )
    fields["time"] = iso_time(document.get("timestamp")) or fields["time"]
    detail = f"{document['group']} {name} {document.get('details') or ''}".strip()
    yield RasStatus(**fields, what=name[:60].removeprefix("PEER_"), detail=detail[:300])
