"""What ``nvidia-smi`` says of a board outside the kernel log: driver not there, rows to remap, remapping that failed.

Wordings: ``nvidia-smi -q -d ROW_REMAPPER`` and its errors, drivers 470 to 575; stas00/ml-engineering
``compute/accelerator/nvidia/debug.md``. A snapshot has no time of its own: only a failed remapping is a fault for sure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from nccldoctor.events import Event, GpuError
from nccldoctor.parsers.base import Line, LineParser, Sample, common, line_parser


@cache
def _gone() -> re.Pattern[str]:
    return re.compile(r"No devices were found|Failed to initialize NVML: .{1,120}")


@cache
def _remap() -> re.Pattern[str]:
    return re.compile(r"(?P<failed>Remapping Failure Occurred)\s{1,40}: Yes|(?P<pending>Pending)\s{1,60}: Yes")


@cache
def _board() -> re.Pattern[str]:
    return re.compile(r"^GPU (?P<device>[0-9A-Fa-f]{4,8}(?::[0-9A-Fa-f]{2}){2})\.\d")


_ABOVE = 12
"""Lines of a board's block above the row that matters."""


@line_parser
class GpuHealth(LineParser):
    """*gpu-error*: a notice, but a fault where a board could not remap its rows."""

    literals = ("No devices were found", "Failed to initialize NVML: ", "Remapping Failure Occurred", "Pending   ")
    samples = (
        Sample(
            "GPU 00000000:3A:00.0\n    Remapped Rows\n        Correctable Error                 : 0\n"
            "        Uncorrectable Error               : 2\n        Pending                           : Yes\n"
            "        Remapping Failure Occurred        : Yes\n",
            (
                {"kind": "gpu-error", "device": "0000:3a:00", "weight": "notice", "message": "row remapping pending"},
                {"kind": "gpu-error", "device": "0000:3a:00", "weight": "fault", "message": "row remapping failed"},
            ),
            "nvidia-smi -q -d ROW_REMAPPER, driver 535",
        ),
        Sample(
            "Failed to initialize NVML: Driver/library version mismatch\nNo devices were found\n",
            (
                {"kind": "gpu-error", "weight": "notice", "device": None},
                {"kind": "gpu-error", "weight": "notice", "message": "No devices were found"},
            ),
            "nvidia-smi, driver 550",
        ),
    )

    def parse(self, line: Line) -> Iterable[Event]:
        """A row of the remapping table counts only inside that table."""
        body = line.body[:1_000]
        if hit := _gone().search(body):
            yield GpuError(**common(line, rank=None), message=hit[0].strip(), weight="notice")
        elif hit := _remap().search(body):
            above = [other.body for other in line.preceding(_ABOVE)]
            if any("Remapped Rows" in text for text in above):
                board = next((m["device"] for m in map(_board().match, above) if m), None)
                message = "row remapping failed" if hit["failed"] else "row remapping pending"
                weight = "fault" if hit["failed"] else "notice"
                device = board[-10:].lower() if board else None
                yield GpuError(**common(line, rank=None), message=message, weight=weight, device=device)
