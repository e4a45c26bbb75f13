"""Reads the state of boards as ``nvidia-smi`` and AMD's runtime tell it: no driver, rows to remap, failed remapping.

Wordings: ``nvidia-smi -q -d ROW_REMAPPER`` and its errors, drivers 470 to 575; stas00/ml-engineering
``compute/accelerator/nvidia/debug.md``. A snapshot has no time of its own: only a failed remapping is a fault for sure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nccldoctor.events import CudaError, Event, GpuError
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.patterns import lazy

_GONE = lazy(r"No devices were found|Failed to initialize NVML: .{1,120}")
_REMAP = lazy(r"(?P<failed>Remapping Failure Occurred)\s{1,40}: Yes|(?P<pending>Pending)\s{1,60}: Yes")
_BOARD = lazy(r"^GPU (?P<device>[0-9A-Fa-f]{4,8}(?::[0-9A-Fa-f]{2}){2})\.\d")
_AMD = lazy(
    r"HW Exception by GPU node-(?P<node>\d{1,4}) .{0,80}?reason ?: ?(?P<why>\w[\w ]{0,60})"
    r"|Memory access fault by GPU node-(?P<at>\d{1,4}) .{0,120}?Reason: (?P<fault>\w[\w ]{0,80})"
)

_ABOVE = 12
"""Lines of a board's block above the row that matters."""


@reads(
    "No devices were found",
    "Failed to initialize NVML: ",
    "Remapping Failure Occurred",
    "Pending   ",
    " by GPU node-",
    needs=(_GONE, _AMD, _REMAP),
)
def gpu_health(line: Line) -> Iterable[Event]:
    """*gpu-error*: a notice, a fault where a board could not remap its rows; *cuda-error* of a program on AMD's boards.

    A row of the remapping table counts only inside that table.
    """
    body = line.body[:1_000]
    if hit := _GONE.search(body):
        yield GpuError(**common(line, rank=None), message=hit[0].strip(), weight="notice")
    elif hit := _AMD.search(body):
        yield _amd_error(line, hit)
    elif hit := _REMAP.search(body):
        above = [other.body for other in line.preceding(_ABOVE)]
        if any("Remapped Rows" in text for text in above):
            board = next((m["device"] for m in map(_BOARD.match, above) if m), None)
            message = "row remapping failed" if hit["failed"] else "row remapping pending"
            weight = "fault" if hit["failed"] else "notice"
            device = board[-10:].lower() if board else None
            yield GpuError(**common(line, rank=None), message=message, weight=weight, device=device)


def _amd_error(line: Line, hit: re.Match[str]) -> Event:
    """A hang of the board, or the access to a wrong address, for which AMD's runtime ends the process."""
    if hit["why"] is not None:
        return GpuError(**common(line), message=hit["why"].strip(), device=f"node-{hit['node']}", weight="hang")
    return CudaError(
        **common(line), message=f"memory access fault by GPU node-{hit['at']}: {hit['fault'].strip()}", software=True
    )
