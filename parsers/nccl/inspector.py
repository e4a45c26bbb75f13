"""What NCCL's Inspector recorded: per communicator and process, the last call that finished.

Source: NVIDIA/nccl ``plugins/profiler/inspector`` (2.28 and later): a file of JSON objects for each process, one
behind the other, with or without line ends; or Prometheus text. Only finished calls are in it, by default none below
8 kB, and many releases write at the end of the process alone: a file that lags behind its peers' is a lead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from nccldoctor.events import Event, InspectorRecord, Note
from nccldoctor.model import Gap, Place, Source
from nccldoctor.parsers.base import FileParser, Line, Parsed, common, file_parser, finds
from nccldoctor.parsers.json_stream import objects, whole_number
from nccldoctor.parsers.line_prefix.timestamps import time_of_seconds
from nccldoctor.patterns import lazy

_KINDS = ("coll", "p2p")
_METRICS = ("nccl_bus_bandwidth_gbs{", "nccl_collective_exec_time_microseconds{", "nccl_p2p_")


@file_parser
class InspectorParser(FileParser):
    """One event for each communicator and operation class of a process: its last finished call."""

    def claims(self, head: bytes, path: str) -> bool:
        """JSON objects with the Inspector's own names."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return start.startswith(b"{") and any(
            name in head for name in (b'"inspector_output_format_version"', b'"coll_perf"', b'"p2p_perf"')
        )

    def parse(self, source: Source, content: bytes) -> Parsed:
        """The last records; a file that ends inside one, as that of a killed process does, gives a gap."""
        last: dict[tuple[object, ...], InspectorRecord] = {}
        number = 0
        gaps: tuple[Gap, ...] = ()
        text = content.decode("utf-8", "backslashreplace")
        try:
            for line, item in objects(text):
                number += 1
                for record in _records(Place(source.id, source.path, line), item):
                    last[(record.comm_id, record.group_rank, record.host, record.pid, record.calls)] = record
        except (ValueError, RecursionError) as error:
            why = f"broken behind object {number}: {error}"[:200]
            gaps = (Gap(f"records in {source.path}", why, source=source.id),)
        events = tuple(last.values())
        return Parsed(source, events, gaps=gaps, lines=text.count("\n") + 1, candidates=number, understood=number)


def _records(place: Place, item: dict[str, Any]) -> Iterator[InspectorRecord]:
    header, metadata = _object_in(item, "header"), _object_in(item, "metadata")
    host, dumped_us = metadata.get("hostname"), _whole_number(metadata.get("dump_timestamp_us"))
    for name in _KINDS:
        call = _object_in(item, f"{name}_perf")
        op = call.get(name)
        if not isinstance(op, str):
            continue
        count, size = _whole_number(call.get(f"{name}_sn")), _whole_number(call.get(f"{name}_msg_size_bytes"))
        micros = call.get(f"{name}_exec_time_us")
        yield InspectorRecord(
            place=place,
            text=f'"{name}_perf": {json.dumps(call)}'[:500],
            group_rank=_whole_number(header.get("rank")),
            time=time_of_seconds(dumped_us // 1_000_000) if dumped_us else None,
            host=host[:200] if isinstance(host, str) and host else None,
            pid=_whole_number(metadata.get("pid")),
            calls=name,
            op=op[:40],
            op_count=count,
            comm_id=str(header["id"])[:80] if "id" in header else None,
            nranks=_whole_number(header.get("n_ranks")),
            size=size,
            micros=float(micros) if isinstance(micros, int | float) and 0 <= micros < 1e18 else None,
        )


def _object_in(item: dict[str, Any], name: str) -> dict[str, Any]:
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def _whole_number(value: Any) -> int | None:
    number = whole_number(value)
    return number if number is not None and 0 <= number < 1 << 62 else None


_METRIC = lazy(
    r"\bnccl_(?P<p2p>p2p_)?(?P<what>bus_bandwidth_gbs|(?:collective_)?exec_time_microseconds)"
    r"\{(?P<labels>[^{}]{0,2000})\} (?P<value>[\d.eE+-]{1,24})"
)
_LABEL = lazy(r'(\w{1,40})="([^"]{0,200})"')


@finds(_METRIC, *_METRICS, sampled=True)
def inspector_metrics(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The same as Prometheus text: a *note* for each bandwidth or time, with the communicator it belongs to."""
    labels = dict(_LABEL.findall(hit["labels"]))
    fast = hit["what"].startswith("bus")
    what = (labels.get("collective") or labels.get("p2p_operation") or "calls", labels.get("message_size", ""))
    unnamed = f"a communicator of {labels['nranks']} ranks" if "nranks" in labels else "a communicator"
    names = (labels.get("comm_name"), labels.get("comm_id"))
    where = next((name for name in names if name not in (None, "", "unknown")), unnamed)
    board = labels.get("gpu") or labels.get("gpu_device_id")
    detail = " ".join(filter(None, what)) + f" in {where}" + (f" on {board}" if board else "")
    host = labels.get("node") or labels.get("hostname") or line.mark.host
    yield Note(
        **common(line, rank=None, host=host),
        what="inspector-bandwidth" if fast else "inspector-time",
        detail=f"{detail}: {hit['value']} {'GB/s' if fast else 'microseconds'}"[:300],
    )


class KernelTime(Struct, frozen=True):
    """How long the kernels of one board took for calls of one kind, on average."""

    note: Note
    calls: str
    board: str
    micros: float


_TIMED = lazy(r"^((?:All[RG]|ReduceS)\w.{0,200}) on (GPU|rank) ?(\d{1,7}): (\d[\d.e+]{0,20}) microseconds$")
"""AllReduce, AllGather and ReduceScatter end only when all ranks have entered: the first rank to enter runs the longest."""


def kernel_time(note: Note) -> KernelTime | None:
    """What such a note says of a call that needs all members; None of anything else."""
    hit = _TIMED.search(note.detail) if note.what == "inspector-time" else None
    if hit is None:
        return None
    return KernelTime(note, hit[1], f"{hit[2]} {hit[3]}" + (f" of {note.host}" if note.host else ""), float(hit[4]))
