"""Reports of tools that show the state of boards and ports, as far as their rows need code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, GpuError, Note
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.kernel.driver import board, describe_xid
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_BOARD = lazy(r"^(?:GPU |\s*<gpu id=\")(?P<device>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\.\d")
_ABOVE = 400
"""Lines of a board's block above a count."""


def _notice(line: Line, message: str, device: str | None, **more: Any) -> GpuError:
    return GpuError(**common(line, rank=None), message=message, device=device, weight="notice", **more)


@for_rows
def board_or_number(text: str) -> str | None:
    """The board of a PCI address, or of the number that a tool gives it."""
    return board(text) if ":" in text else f"GPU {text}"


@for_rows
def uncorrected(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """A count since the driver was loaded (*Volatile*); what a board gathered in its life says nothing of this job."""
    texts = [above.body.strip() for above in line.preceding(_ABOVE)]
    heads = ("Aggregate", "<aggregate>", "Volatile", "<volatile>")
    if next((text for text in texts if text.startswith(heads)), "").startswith(heads[2:]):
        device = next((m["device"] for other in line.preceding(_ABOVE) if (m := _BOARD.match(other.body))), None)
        what, number = hit["what"] or hit["xml"], hit["n"] or hit["m"]
        message = f"{number} uncorrected memory errors since the driver was loaded ({what})"
        yield _notice(line, message, board(device) if device else None)


_ENTITY = lazy(r"^\s*\"(?:entity_id|gpu_ids?)\" ?: ?\"?(?P<ids>\d{1,3}(?:,\d{1,3}){0,40})")
_NAME = lazy(r"^\s*\"name\" ?: ?\"(?P<name>[\w /-]{1,40})\"")


@for_rows
def dcgm_result(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The GPU stands above in the same object, the test's name above the list of results."""
    above = [other.body for other in line.preceding(120)]
    inside = itertools.takewhile(lambda text: not text.rstrip().endswith("{"), above)
    gpus = next((found["ids"] for text in inside if (found := _ENTITY.search(text))), None)
    name = next((found["name"] for text in above if (found := _NAME.search(text))), "a test")
    if gpus:
        yield _notice(line, f"dcgmi diag: {name} failed", f"GPU {gpus}")


_LINK = lazy(r"^\s{0,24}Link \d{1,2}: (?:<inactive>|(?P<used>[\d.]{1,12} GB/s))")
_HEAD = lazy(r"^GPU (?P<gpu>\d{1,3}): \S.{0,80}\(UUID: ")
_LINKS = 20
"""Lines of the links of one board."""


@for_rows
def idle_link(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """A board whose links are all inactive has none in use."""
    sides = (line.preceding(_LINKS), line.following(_LINKS))
    found = [link for side in sides for link in itertools.takewhile(bool, (_LINK.search(other.body) for other in side))]
    if any(link["used"] for link in found if link):
        head = next((m for other in line.preceding(_LINKS) if (m := _HEAD.search(other.body))), None)
        message = f"NVLink {hit['link']} is inactive, others of the board are up"
        yield _notice(line, message, f"GPU {head['gpu']}" if head else None)


_ENTITY_ROW = lazy(r"^GPU (?P<index>\d{1,3})\s{1,40}(?P<cells>\d.{0,200})$")
_ACTION = lazy(r"^(?P<index>\d{1,3}), (?:.{0,200}, )?(?P<action>Reset|Reboot|Drain P2P|Drain and Reset)\b")
_ROWS = 17
"""Rows of such a table: a second line of its head, and 16 boards."""


@for_rows
def last_xids(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The boards below the names of the columns that have an Xid."""
    column = line.body.split().index("XIDER") - 1
    for row in line.following(_ROWS):
        found = _ENTITY_ROW.search(row.body)
        cells = found["cells"].split() if found else []
        xid = int(cells[column]) if column < len(cells) and cells[column].isdecimal() else 0
        if found and xid:
            yield _notice(row, describe_xid(xid, "the last one that the driver told"), f"GPU {found['index']}", xid=xid)


@for_rows
def recovery_actions(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The boards below the command that ask for an action."""
    for row in line.following(_ROWS):
        if found := _ACTION.search(row.body):
            message = f"nvidia-smi asks for recovery: {found['action']}"
            yield GpuError(**common(row, rank=None), message=message, device=f"GPU {found['index']}")


_PORT = lazy(r"^\s{0,16}(?:State: (?P<state>\w{2,24})|Port (?P<port>\d{1,3}):|CA '(?P<hca>[\w.-]{1,40})')")
_BLOCK = 16
"""Lines of an adapter's block above the state of its port."""


@for_rows
def port_state(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*note* for a port that is not up; its state, number and adapter stand above, each the nearest."""
    port = hit.groupdict()
    for above in line.preceding(_BLOCK) if "hca" not in port else ():
        if row := _PORT.match(above.body[:200]):
            port = {name: text for name, text in row.groupdict().items() if text} | port
        if "hca" in port:
            break
    state, physical = port.get("state") or "", port["phys"]
    if state.lower() in ("down", "init", "initializing") or physical.lower() in ("polling", "linkerrorrecovery"):
        where = f"{port.get('hca') or 'an adapter'} port {port.get('port') or '?'}"
        detail = f"{where} is {f'{state}, ' if state else ''}{physical}"
        yield Note(**common(line, rank=None), what="port-down", detail=detail)
