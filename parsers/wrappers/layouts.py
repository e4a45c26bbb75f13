"""Where collectors put the text of a line, its time, and the node, pod and process that it came from.

Sources: moby ``daemon/logger/jsonfilelog/jsonlog``, systemd ``shared/logs-show.c`` (``journalctl -o json``), grafana/loki
``pkg/logcli/output`` and ``pkg/loghttp``, stern ``cmd/cmd.go``, fluent-bit ``plugins/filter_kubernetes``, Google
``google/logging/v2/log_entry.proto``, AWS CloudWatch Logs (``GetLogEvents``, ``FilterLogEvents``, ``GetQueryResults``), and exports of
Filebeat, Vector, Splunk and Azure Monitor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from nccldoctor.parsers.json_stream import whole_number
from nccldoctor.parsers.line_prefix.timestamps import iso_time
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

Record = Mapping[str, Any]


_TABLE: dict[str, Any] = Table(__file__).data

_PARTS = {"logtag": ("P",), "partial_message": ("true", True), "CONTAINER_PARTIAL_MESSAGE": ("true", True)}
"""Keys that say that a record holds only the beginning of a line."""

DAEMON = lazy(r"(?:kernel|systemd|slurm|kubelet|dockerd|containerd|nv|nvidia|oom)[\w-]{0,40}$")
"""Senders whose name belongs to their message: parsers know them by it."""


class Origin(Struct, frozen=True):
    """Where a line came from; None for what its record does not name."""

    node: str | None = None
    pod: str | None = None
    box: str | None = None
    pid: int | None = None


class Row(Struct, frozen=True):
    """The text of one record, when it was collected, and from where.

    ``is_part``: the next record goes on with the same line. ``keeps_ends``: its collector keeps line ends, so that a text without one
    is a part.
    """

    text: str
    time: datetime | None = None
    origin: Origin = Origin()
    stream: str = ""
    is_part: bool = False
    keeps_ends: bool = False


def rows_of(item: Any, depth: int = 0) -> Iterator[Row]:
    """Every line in a JSON value: one for a record, many for an answer of an interface."""
    if depth > 6 or not isinstance(item, dict | list):
        return
    if isinstance(item, list):
        if item and all(isinstance(cell, dict) and "field" in cell for cell in item):
            item = {str(cell["field"]): cell.get("value") for cell in item}
        else:
            for inner in item:
                yield from rows_of(inner, depth + 1)
            return
    own = row_of(item)
    if own is not None:
        yield own
    elif isinstance(item.get("values"), list) and isinstance(item.get("stream"), dict):
        yield from _loki_rows(item["values"], origin_of(item["stream"]))
    else:
        for key in _TABLE["lists"]:
            yield from rows_of(item.get(key), depth + 1)


def row_of(record: Record) -> Row | None:
    """The line in one record; None where it is that of no collector."""
    for key in _TABLE["envelopes"]:
        inner = record.get(key)
        if isinstance(inner, dict) and (row := row_of({**record, **inner, key: None})) is not None:
            return row
    for collector in _TABLE["collectors"]:
        if not all(sign in record for sign in collector["signs"]):
            continue
        text = next((found for path in collector["texts"] if (found := _text(_at(record, path))) is not None), None)
        if text is not None:
            time = next((when for path in collector["times"] if (when := time_of(_at(record, path))) is not None), None)
            stream = record.get("stream")
            sender = record.get("SYSLOG_IDENTIFIER")
            return Row(
                f"{sender}: {text}" if isinstance(sender, str) and DAEMON.match(sender) else text,
                time,
                origin_of(record),
                stream if isinstance(stream, str) else "",
                any(record.get(key) in values for key, values in _PARTS.items()),
                keeps_ends="log" in collector["texts"] and "logtag" not in record and "kubernetes" not in record,
            )
    return None


def _loki_rows(values: Iterable[Any], origin: Origin) -> Iterator[Row]:
    for value in values:
        if isinstance(value, list) and len(value) >= 2 and isinstance(value[1], str):
            yield Row(value[1], time_of(value[0]), origin)


def _at(record: Any, path: str) -> Any:
    for key in path.split("."):
        record = record.get(key) if isinstance(record, dict) else None
    return record


def _text(value: Any) -> str | None:
    """A message as text: journald writes odd bytes as numbers, and some programs log objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(n, int) and 0 <= n < 256 for n in value):
        return bytes(value).decode("utf-8", "backslashreplace")
    return json.dumps(value) if isinstance(value, dict) and value else None


def origin_of(record: Record) -> Origin:
    """The node, pod, container and process that a record, or an object in it, names."""
    inner = [record[key] for key in _TABLE["inside"] if isinstance(record.get(key), dict)]
    inner += [deeper["labels"] for deeper in inner if isinstance(deeper.get("labels"), dict)]
    named = [*inner, record]
    pid = record.get("_PID", record.get("pid"))
    number = int(pid) if isinstance(pid, str) and pid.isdecimal() and len(pid) < 11 else whole_number(pid)
    pod = _name(named, _TABLE["pods"])
    node = _name(named, _TABLE["nodes"]) or (_name(named, _TABLE["streams"]) if pod is None else None)
    return Origin(node, pod, _name(named, _TABLE["boxes"]), number)


def _name(objects: Iterable[Record], keys: Iterable[str]) -> str | None:
    """The first name under one of the keys; an object has it under ``name``."""
    objects = list(objects)
    for key in keys:
        for one in objects:
            value = one.get(key)
            value = value.get("name") if isinstance(value, dict) else value
            if isinstance(value, str) and value:
                return value[:253]
    return None


def time_of(value: Any) -> datetime | None:
    """An ISO time, or a number of seconds, milli-, micro- or nanoseconds since 1970, also as text."""
    if isinstance(value, str):
        if not value.replace(".", "", 1).isdecimal() or not value.isascii():
            found = iso_time(value.strip())
            return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found
        value = float(value) if "." in value else int(value[:25])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e9 <= value < 4e18:
        return None
    for unit in (10**9, 10**6, 10**3, 1):
        seconds = value / unit
        if 1e9 <= seconds < 4e9:
            return datetime.fromtimestamp(int(value) // unit, UTC).replace(microsecond=int(seconds % 1 * 1e6))
    return None
