"""What NCCL's Inspector recorded: per communicator and process, the last call that finished.

Source: NVIDIA/nccl ``plugins/profiler/inspector`` (2.28 and later): a file of JSON objects for each process, one
behind the other, with or without line ends; or Prometheus text. Only finished calls are in it, by default none below
8 kB, and many releases write at the end of the process alone: a file that lags behind its peers' is a lead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from nccldoctor.events import Event, InspectorRecord, Note
from nccldoctor.model import Gap, Place, Source
from nccldoctor.parsers.base import FileParser, Line, LineParser, Parsed, Sample, common, file_parser, line_parser
from nccldoctor.parsers.json_stream import objects

_KINDS = ("coll", "p2p")
_METRICS = ("nccl_bus_bandwidth_gbs{", "nccl_collective_exec_time_microseconds{", "nccl_p2p_")


@file_parser
class InspectorParser(FileParser):
    """One event for each communicator and operation class of a process: its last finished call."""

    samples = (
        Sample(
            '{"header": {"id": "0x7f8c", "rank": 2, "n_ranks": 8, "nnodes": 1}, "metadata": '
            '{"inspector_output_format_version": "v4.0", "dump_timestamp_us": 1767322999000000, "hostname": "node7", '
            '"pid": 81}, "coll_perf": {"coll": "AllReduce", "coll_sn": 40, "coll_msg_size_bytes": 65536, '
            '"coll_exec_time_us": 90, "coll_busbw_gbs": 12.5}}{"header": {"id": "0x7f8c", "rank": 2, "n_ranks": 8, '
            '"nnodes": 1}, "metadata": {"dump_timestamp_us": 1767323000000000, "hostname": "node7", "pid": 81}, '
            '"coll_perf": {"coll": "AllReduce", "coll_sn": 41, "coll_msg_size_bytes": 65536, "coll_exec_time_us": 110, '
            '"coll_busbw_gbs": 11.5}}',
            (
                {
                    "kind": "inspector",
                    "group_rank": 2,
                    "comm_id": "0x7f8c",
                    "op": "AllReduce",
                    "op_count": 41,
                    "nranks": 8,
                    "size": 65536,
                    "micros": 110.0,
                    "host": "node7",
                    "pid": 81,
                    "time": datetime(2026, 1, 2, 3, 3, 20, tzinfo=UTC),
                },
            ),
            "NVIDIA/nccl plugins/profiler/inspector, format v4.0",
        ),
    )

    def claims(self, head: bytes, path: str) -> bool:
        """JSON objects with the Inspector's own names."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return start.startswith(b"{") and any(
            name in head for name in (b'"inspector_output_format_version"', b'"coll_perf"', b'"p2p_perf"')
        )

    def parse(self, source: Source, content: bytes) -> Parsed:
        """The last records; a file that ends in the middle of one, as that of a killed process does, gives a gap."""
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
            gaps = (
                Gap(f"records in {source.path}", f"broken behind object {number}: {error}"[:200], source=source.id),
            )
        events = tuple(last.values())
        return Parsed(source, events, gaps=gaps, lines=text.count("\n") + 1, candidates=number, understood=number)


def _records(place: Place, item: dict[str, Any]) -> Iterator[InspectorRecord]:
    header, metadata = _part(item, "header"), _part(item, "metadata")
    host = metadata.get("hostname")
    for name in _KINDS:
        told = _part(item, f"{name}_perf")
        op = told.get(name)
        if not isinstance(op, str):
            continue
        count, size = _whole(told.get(f"{name}_sn")), _whole(told.get(f"{name}_msg_size_bytes"))
        micros = told.get(f"{name}_exec_time_us")
        yield InspectorRecord(
            place=place,
            text=f'"{name}_perf": {json.dumps(told)}'[:500],
            group_rank=_whole(header.get("rank")),
            time=_time(metadata.get("dump_timestamp_us")),
            host=host[:200] if isinstance(host, str) and host else None,
            pid=_whole(metadata.get("pid")),
            calls=name,
            op=op[:40],
            op_count=count,
            comm_id=str(header["id"])[:80] if "id" in header else None,
            nranks=_whole(header.get("n_ranks")),
            size=size,
            micros=float(micros) if isinstance(micros, int | float) and not isinstance(micros, bool) else None,
        )


def _part(item: dict[str, Any], name: str) -> dict[str, Any]:
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _time(micros: Any) -> datetime | None:
    """In whole microseconds since 1970, UTC."""
    number = _whole(micros)
    try:
        return datetime.fromtimestamp(number // 1_000_000, tz=UTC) if number else None
    except (ValueError, OverflowError, OSError):
        return None


@cache
def _metric() -> re.Pattern[str]:
    return re.compile(
        r"\bnccl_(?P<p2p>p2p_)?(?P<what>bus_bandwidth_gbs|(?:collective_)?exec_time_microseconds)"
        r"\{(?P<labels>[^{}]{0,2000})\} (?P<value>[\d.eE+-]{1,24})"
    )


@cache
def _label() -> re.Pattern[str]:
    return re.compile(r'(\w{1,40})="([^"]{0,200})"')


@line_parser
class InspectorMetrics(LineParser):
    """The same as Prometheus text: a *note* for each bandwidth or time, with the communicator it belongs to."""

    sampled = True
    literals = _METRICS
    samples = (
        Sample(
            'nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="4711",node="node7",gpu="GPU0",comm_name="DP Group 0",'
            'n_nodes="1",nranks="4",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 678.263\n'
            'nccl_p2p_exec_time_microseconds{node="node7",gpu="GPU1",comm_name="PP",p2p_operation="Send"} 1154.87\n',
            (
                {
                    "kind": "note",
                    "what": "inspector-bandwidth",
                    "host": "node7",
                    "detail": "AllReduce 4-5GB in DP Group 0 on GPU0: 678.263 GB/s",
                },
                {
                    "kind": "note",
                    "what": "inspector-time",
                    "host": "node7",
                    "detail": "Send in PP on GPU1: 1154.87 microseconds",
                },
            ),
            "NVIDIA/nccl plugins/profiler/inspector, Prometheus mode, v5.1",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One note for a metric."""
        hit = _metric().search(line.body)
        if hit is None:
            return
        told = dict(_label().findall(hit["labels"]))
        fast = hit["what"].startswith("bus")
        what = (told.get("collective") or told.get("p2p_operation") or "calls", told.get("message_size", ""))
        where = told.get("comm_name") or told.get("comm_id") or "a communicator"
        board = told.get("gpu") or told.get("gpu_device_id")
        detail = " ".join(filter(None, what)) + f" in {where}" + (f" on {board}" if board else "")
        host = told.get("node") or told.get("hostname") or line.mark.host
        yield Note(
            **common(line, rank=None, host=host),
            what="inspector-bandwidth" if fast else "inspector-time",
            detail=f"{detail}: {hit['value']} {'GB/s' if fast else 'microseconds'}"[:300],
        )
