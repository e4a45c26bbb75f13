"""Reads what AMD's driver says of its GPUs in the kernel log: queues that hang, resets, memory and address faults.

Sources: Linux ``drivers/gpu/drm/amd/amdgpu`` (``amdgpu_job.c``, ``amdgpu_device.c``, ``amdgpu_ras.c``, ``gmc_v*.c``,
``mes_v*.c``) and ``amdkfd/kfd_device_queue_manager.c``, 5.4 to 6.17; the list of matchers in amd/node-scraper
``plugins/inband/dmesg``.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.events import GpuError
from nccldoctor.parsers.base import Line, line_parser
from nccldoctor.parsers.kernel.driver import board
from nccldoctor.parsers.kernel.prefix import kernel_fields
from nccldoctor.parsers.rows import RowParser, Table
from nccldoctor.patterns import lazy

_DEVICE = lazy(r"amdgpu (?P<device>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.\d")
_PROCESS = lazy(r"\b[Pp]rocess (?!info).{0,40}?\bpid (?P<pid>\d{1,10})")


@line_parser
class AmdGpu(RowParser):
    """*gpu-error* with the PCI address of the board, and the process that the driver names here or below."""

    event = GpuError
    rows = Table(__file__).rows

    def searched_text(self, line: Line) -> str:
        return line.raw[:2_000]

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """Time, host and board as the line tells them."""
        at, text = _DEVICE.search(line.raw), hit[0]
        named = _PROCESS.search(line.raw) or _process_below(line)
        pid = int(named["pid"]) if named and named["pid"] != "0" else None
        return kernel_fields(line, pid=pid, device=board(at["device"]) if at else None, message=text.strip()[:300])


def _process_below(line: Line) -> re.Match[str] | None:
    return next((named for below in line.following(2) if (named := _PROCESS.search(below.raw))), None)
