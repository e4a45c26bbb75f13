"""How long NCCL's kernels took in one rank, as torch.profiler traced them.

Source: pytorch ``torch/profiler/profiler.py`` (``distributedInfo``) and ``torch/csrc/distributed/c10d/ParamCommsUtils.hpp``, 2.3 to 2.13,
which libkineto writes as a Chrome trace. A trace shows a part of a run, so it cannot tell which call a rank never made.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from nccldoctor.events import Note
from nccldoctor.model import Gap, Place, Source
from nccldoctor.parsers.base import FileParser, Parsed, file_parser
from nccldoctor.parsers.json_stream import whole_number
from nccldoctor.patterns import lazy

_BEGIN = lazy(rb"(?:\xef\xbb\xbf)?\s{0,99}\{\s{0,9}\"schemaVersion\"")
_KERNEL = lazy(r"nccl(?:Dev)?Kernel_?(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)")


@file_parser
class TorchProfile(FileParser):
    """A note of rank and world, and one of the average time of each kind of NCCL kernel."""

    def claims(self, head: bytes, path: str) -> bool:
        """The first key of a trace of libkineto."""
        return _BEGIN.match(head) is not None and (b'"traceEvents"' in head or b'"distributedInfo"' in head)

    def parse(self, source: Source, content: bytes) -> Parsed:
        """The notes; a trace that is cut off gives a gap."""
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            gap = Gap(f"trace in {source.path}", f"not readable as JSON: {error}"[:200], source=source.id)
            return Parsed(source, gaps=(gap,))
        told, traced = document.get("distributedInfo"), document.get("traceEvents")
        rank, world = (_count(told.get(key)) if isinstance(told, dict) else None for key in ("rank", "world_size"))
        times = _kernel_times(traced) if isinstance(traced, list) else {}
        details = [f"torch.profiler traced rank {rank} of {world}, with {len(times)} kinds of NCCL kernels"]
        details += [f"{what} on rank {rank}: {micros:.6g} microseconds" for what, micros in sorted(times.items())]
        events = tuple(
            Note(place=Place(source.id, source.path), text=detail, rank=rank, what=what, detail=detail)
            for what, detail in zip(["torch-profile", *["inspector-time"] * len(times)], details, strict=True)
        )
        return Parsed(source, events, lines=content.count(b"\n") + 1, candidates=len(events), understood=len(events))


def _count(value: Any) -> int | None:
    number = whole_number(value)
    return number if number is not None and 0 <= number < 1 << 20 else None


def _kernel_times(traced: list[Any]) -> dict[str, float]:
    """The average time of a kernel in microseconds, by what it does and in which group."""
    times: dict[str, list[float]] = defaultdict(list)
    for item in traced:
        if not isinstance(item, dict) or item.get("cat") != "kernel":
            continue
        hit, took, args = _KERNEL.match(str(item.get("name"))[:200]), item.get("dur"), item.get("args")
        if hit is not None and isinstance(args, dict) and isinstance(took, int | float) and 0 < took < 1e12:
            size, group = _count(args.get("In msg nelems")), str(args.get("Process Group Name", "?"))[:60]
            times[f"{hit[1]} of {size} elements in group {group}"].append(took)
    return {kind: sum(own) / len(own) for kind, own in list(times.items())[:512]}
