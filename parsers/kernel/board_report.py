"""Reads boards at fault in the reports of ``nvidia-smi -q``, ``dcgmi`` and ``amd-smi``.

Sources: ``nvidia-smi -q`` and ``-x``, drivers 535 to 580; NVIDIA/DCGM 3 and 4 ``dcgmi/Health.cpp``, ``dcgmi/Diag.cpp`` and
``nvvs/include/NvvsJsonStrings.h``; ROCm ``amd-smi metric --ecc-blocks``. A report has no time of its own: counts and tests are
notices. A board that asks for a reset, or whose watch reports a failure, is at fault now.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from nccldoctor.events import Event, GpuError
from nccldoctor.parsers.base import Line, common, finds, line_parser, reads
from nccldoctor.parsers.kernel.driver import board
from nccldoctor.parsers.kernel.xid import describe_xid
from nccldoctor.parsers.rows import RowParser, Table, needs_of
from nccldoctor.patterns import lazy

_OWNER = lazy(
    r"^GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\.\d|<gpu id=\"(?P<xml>[0-9A-Fa-f:]{10,14})\.\d\""
    r"|^(?:\| )?-> (?P<dcgm>\d{1,3}) {1,40}\||^GPU: (?P<amd>\d{1,3})\s*$"
)
_ABOVE = 400
"""Lines of a board's block above the row that matters."""

_IDLE = lazy(r"^\s{0,24}Link (?P<link>\d{1,2}): <inactive>")
_IN_USE = lazy(r"^\s{0,24}Link \d{1,2}: [\d.]{1,12} GB/s")
_HEAD = lazy(r"^GPU (?P<gpu>\d{1,3}): \S.{0,80}\(UUID: ")
_LINKS = 20
"""Lines of the links of one board."""

_XIDS = lazy(r"^#Entity\s.{0,200}\bXIDER\b")
_ENTITY_ROW = lazy(r"^GPU (?P<index>\d{1,3})\s{1,40}(?P<cells>\d.{0,200})$")
_ACTION = lazy(r"^(?P<index>\d{1,3}), (?:.{0,200}, )?(?P<action>Reset|Reboot|Drain P2P|Drain and Reset)\b")
_ROWS = 17
"""Rows of such a table: a second line of its head, and 16 boards."""

_OF_TEST = 120
"""Lines of the results of one test of DCGM."""

_SAID = lazy(r"^\|? {20,40}\| (?P<said>\S.{0,100}?) *\|$")
_STATUS = lazy(r"^\s*\"status\" ?: ?\"(?P<status>Fail)\"")
_ENTITY = lazy(r"^\s*\"(?:entity_id|gpu_ids?)\" ?: ?\"?(?P<ids>\d{1,3}(?:,\d{1,3}){0,40})")
_NAME = lazy(r"^\s*\"name\" ?: ?\"(?P<name>[\w /-]{1,40})\"")


@line_parser
class BoardReport(RowParser):
    """*gpu-error* with the board above; *note* ``clocks-held`` where the driver slows it down."""

    event = GpuError
    longest = 2_000
    rows = Table(__file__).rows
    needs = needs_of(rows)

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """The board that the block is about."""
        return common(line, rank=None)

    def parse(self, line: Line) -> Iterable[Event]:
        """The event of the row, with its board and what the tool says of the failure below it."""
        for event in super().parse(line):
            if not isinstance(event, GpuError):
                yield event
                continue
            said = " ".join(hit["said"] for below in line.following(4) if (hit := _SAID.search(below.body)))
            message = f"{event.message}: {said}" if said and "dcgmi health" in event.message else event.message
            device = board(event.device) if event.device and ":" in event.device else event.device
            yield dataclasses.replace(event, message=message[:300], device=device or _board_above(line))


@reads('"status" : "Fail"', '"status": "Fail"')
def dcgm_results(line: Line) -> Iterator[Event]:
    """*gpu-error*, a notice, for each test of ``dcgmi diag -j`` that failed on a GPU.

    The GPU stands above in the same object, the test's name above the list of results.
    """
    if _STATUS.search(line.body) is None:
        return
    above = list(line.preceding(_OF_TEST))
    inside = itertools.takewhile(lambda other: not other.body.rstrip().endswith("{"), above)
    gpus = next((hit["ids"] for other in inside if (hit := _ENTITY.search(other.body))), None)
    name = next((hit["name"] for other in above if (hit := _NAME.search(other.body))), "a test")
    if gpus:
        message = f"dcgmi diag: {name} failed"
        yield GpuError(**common(line, rank=None), message=message, device=f"GPU {gpus}", weight="notice")


@finds(_IDLE, ": <inactive>")
def idle_links(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*gpu-error*, a notice, for a link of ``nvidia-smi nvlink -s`` that is inactive beside others in use.

    A board whose links are all inactive has none in use.
    """
    above = list(itertools.takewhile(_is_of_links, (other.body for other in line.preceding(_LINKS))))
    below = itertools.takewhile(_is_of_links, (other.body for other in line.following(_LINKS)))
    if any(_IN_USE.search(text) for text in (*above, *below)):
        head = next((m for other in line.preceding(_LINKS) if (m := _HEAD.search(other.body))), None)
        message = f"NVLink {hit['link']} is inactive, others of the board are up"
        device = f"GPU {head['gpu']}" if head else None
        yield GpuError(**common(line, rank=None), message=message, device=device, weight="notice")


def _is_of_links(text: str) -> bool:
    return _IDLE.search(text) is not None or _IN_USE.search(text) is not None


@reads("gpu_recovery_action", " XIDER")
def board_tables(line: Line) -> Iterator[Event]:
    """*gpu-error* for rows of ``--query-gpu=…gpu_recovery_action`` that ask for one, and of ``dcgmi dmon`` with a last Xid.

    The rows below the command, or below the names of the columns.
    """
    column = line.body.split().index("XIDER") - 1 if _XIDS.search(line.body) else None
    for row in line.following(_ROWS) if column is not None or "<" not in line.body else ():
        if column is None and (hit := _ACTION.search(row.body)):
            message = f"nvidia-smi asks for recovery: {hit['action']}"
            yield GpuError(**common(row, rank=None), message=message, device=f"GPU {hit['index']}")
        elif column is not None and (hit := _ENTITY_ROW.search(row.body)):
            cells = hit["cells"].split()
            xid = int(cells[column]) if column < len(cells) and cells[column].isdecimal() else 0
            if xid:
                message = describe_xid(xid, "the last one that the driver told")
                device = f"GPU {hit['index']}"
                yield GpuError(**common(row, rank=None), xid=xid, message=message, device=device, weight="notice")


def _board_above(line: Line) -> str | None:
    hit = next((hit for above in line.preceding(_ABOVE) if (hit := _OWNER.search(above.body))), None)
    if hit is None:
        return None
    bus = hit["bus"] or hit["xml"]
    return board(bus) if bus else f"GPU {hit['dcgm'] or hit['amd']}"
