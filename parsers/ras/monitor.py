"""NCCL's RAS service apart from its report: processes that come, go and die, and nodes that run another number of them.

Source: NVIDIA/nccl ``src/ras``, v2.24.3 to v2.30.7: ``MONITOR`` prints a line for each event since 2.29, as text or
as JSON; the log says who is declared dead; the job summary lists nodes that differ from the most.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from nccldoctor.events import Event, RasStatus
from nccldoctor.parsers.base import Line, LineParser, Sample, common, line_parser
from nccldoctor.parsers.nccl.prefix import host_part

_PLACES = 64
"""Nodes listed as different; more would not be outliers."""


@cache
def _text() -> re.Pattern[str]:
    return re.compile(
        r"PEER_(?P<what>[A-Z]{2,20}): (?P<text>Process (?P<pid>\d{1,10}) on node (?P<host>\S{1,120}).{0,120})"
        r"|RAS declaring peer (?P<peer>\S{1,100}) as DEAD"
    )


@cache
def _node() -> re.Pattern[str]:
    return re.compile(r"^\s{1,8}Node (?P<host>\S{1,120}) running process(?:es)? (?P<pids>\d[\d,\- ]{0,400})")


@line_parser
class RasMonitor(LineParser):
    """``what`` is the name of the event (*NEW*, *DEAD*, *CONNECTING* …), or *OUTLIER* for a node."""

    literals = ("PEER_NEW", "PEER_DEAD", "PEER_CONNECT", "RAS declaring peer", "The outlier node", '"LIFECYCLE"')
    samples = (
        Sample(
            "[2026-01-02 03:04:05] PEER_DEAD: Process 7 on node n3 managing GPU 0",
            ({"kind": "ras", "what": "DEAD", "host": "n3", "pid": 7},),
            "NVIDIA/nccl src/ras, v2.29.2, MONITOR",
        ),
        Sample(
            '{"timestamp": "2026-01-02 03:04:05", "group": "LIFECYCLE", "event": "PEER_DEAD", "peer": {"host": "n3", '
            '"pid": 7, "cuda_devs": [0], "nvml_devs": [0]}, "details": "no answer"}',
            (
                {
                    "kind": "ras",
                    "what": "DEAD",
                    "host": "n3",
                    "pid": 7,
                    "time": datetime(2026, 1, 2, 3, 4, 5),
                    "detail": "LIFECYCLE PEER_DEAD no answer",
                },
            ),
            "NVIDIA/nccl src/ras, v2.29.2, MONITOR in JSON",
        ),
        Sample(
            "  The outlier nodes:\n  Node 10.0.0.13 running process 71004\n  Node 10.0.0.14 running processes 1,2\n",
            (
                {"kind": "ras", "what": "OUTLIER", "host": "10.0.0.13", "pid": 71004},
                {"kind": "ras", "what": "OUTLIER", "host": "10.0.0.14", "pid": None},
            ),
            "NVIDIA/nccl src/ras/client_support.cc, v2.27.3",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
        body = line.body[:8_000]
        if "The outlier node" in body:
            yield from _outliers(line)
        elif '"event"' in body and "{" in body:
            yield from _document(line, body[body.index("{") :])
        elif hit := _text().search(body):
            host = hit["host"] or host_part(hit["peer"])
            pid = int(hit["pid"]) if hit["pid"] else None
            yield RasStatus(
                **common(line, rank=None, host=host, pid=pid),
                what=hit["what"] or "DEAD",
                detail=(hit["text"] or hit[0])[:300],
            )


def _outliers(line: Line) -> Iterator[Event]:
    for below in line.following(_PLACES):
        hit = _node().search(below.body)
        if hit is None:
            return
        alone = hit["pids"].strip()
        pid = int(alone) if alone.isdigit() and len(alone) < 11 else None
        yield RasStatus(
            **common(below, rank=None, host=hit["host"], pid=pid), what="OUTLIER", detail=hit[0].strip()[:300]
        )


def _document(line: Line, text: str) -> Iterator[Event]:
    try:
        told, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    name, peer = told.get("event"), told.get("peer")
    if not isinstance(name, str) or told.get("group") not in ("LIFECYCLE", "TRACE"):
        return
    peer = peer if isinstance(peer, dict) else {}
    host, pid = peer.get("host"), peer.get("pid")
    fields: dict[str, Any] = common(
        line,
        rank=None,
        host=host[:200] if isinstance(host, str) else None,
        pid=pid if isinstance(pid, int) and not isinstance(pid, bool) else None,
    )
    fields["time"] = _time(told.get("timestamp")) or fields["time"]
    detail = f"{told['group']} {name} {told.get('details') or ''}".strip()
    yield RasStatus(**fields, what=name[:60].removeprefix("PEER_"), detail=detail[:300])


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
