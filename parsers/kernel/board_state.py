"""Reads boards that ``nvidia-smi`` cannot read any more, memory errors it counts, and tests of ``dcgmi diag`` that failed.

Wordings: ``nvidia-smi``, ``nvidia-smi --query-gpu … --format=csv`` and ``nvidia-smi -q -d ECC``, drivers 470 to 580;
``dcgmi diag`` of DCGM 2 and 3. Counts and tests have no time of their own and are notices; a board that answers no
more is at fault whenever that was.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, GpuError
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.kernel.driver import board
from nccldoctor.patterns import lazy

_BUS = r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}"
_CELL = lazy(
    r"(?:^|\s)(?:(?P<index>\d{1,3}), )?.{0,300}?\[(?P<state>GPU requires reset|GPU is lost|Unknown Error)\](?=,|\s|$)"
)
_ROW = lazy(
    rf"\| .{{0,60}}(?P<device>{_BUS})\.\d.{{0,40}}ERR! {{0,4}}\|| ERR! {{0,4}}\| .{{0,10}}(?P<other>{_BUS})\.\d"
)
_LOST = lazy(r"\| {1,30}GPU is lost {1,30}\|")
_COUNT = lazy(
    r"^\s{4,24}(?P<what>[SD]RAM Uncorrectable(?: \w[\w-]{1,12})?|Double Bit|Device Memory)\s{1,40}: (?P<n>[1-9]\d{0,9})$"
    r"|<(?P<xml>[sd]ram_uncorrectable\w{0,12})>(?P<m>[1-9]\d{0,9})<"
)
_BOARD = lazy(rf"^(?:GPU |\s*<gpu id=\")(?P<device>{_BUS})\.\d")
_TEST = lazy(r"\|\s{1,30}(?P<test>[A-Z][\w /-]{2,28}?)?\s{1,30}\| Fail - GPUs?: (?P<gpus>\d[\d, ]{0,80})")
_ABOVE = 400
"""Lines of a board's block above a count."""


@reads(
    "[GPU requires reset]",
    "[GPU is lost]",
    "[Unknown Error]",
    "ERR!",
    "Uncorrectable ",
    "| Fail - GPU",
    "ram_uncorrectable",
    needs=(_CELL, _ROW, _COUNT, _TEST),
)
def board_state(line: Line) -> Iterator[Event]:
    """*gpu-error*: a fault where a board answers no more or asks for a reset, else a notice."""
    body = line.body[:1_000]
    base = common(line, rank=None)
    if hit := _CELL.search(body):
        device = f"GPU {hit['index']}" if hit["index"] else None
        weight = "notice" if hit["state"] == "Unknown Error" else "fault"
        yield GpuError(**base, message=hit["state"], device=device, weight=weight)
    elif hit := _ROW.search(body):
        below = next(iter(line.following(1)), None)
        message = "GPU is lost" if below is not None and _LOST.search(below.body) else "nvidia-smi cannot read it"
        yield GpuError(**base, message=message, device=board(hit["device"] or hit["other"]))
    elif hit := _COUNT.search(body.rstrip()):
        yield from _uncorrected(line, hit["what"] or hit["xml"], int(hit["n"] or hit["m"]))
    elif hit := _TEST.search(body):
        message = f"dcgmi diag: {hit['test'] or 'a test'} failed"
        yield GpuError(**base, message=message, device=f"GPU {hit['gpus'].strip(' ,')}", weight="notice")


def _uncorrected(line: Line, what: str, number: int) -> Iterator[Event]:
    """A count since the driver was loaded (*Volatile*); what a board gathered in its life says nothing of this job."""
    for above in line.preceding(_ABOVE):
        text = above.body.strip()
        if text.startswith(("Aggregate", "<aggregate>")):
            return
        if text.startswith(("Volatile", "<volatile>")):
            break
    else:
        return
    named = (hit["device"] for other in line.preceding(_ABOVE) if (hit := _BOARD.match(other.body)))
    device = next(named, None)
    yield GpuError(
        **common(line, rank=None),
        message=f"{number} uncorrected memory errors since the driver was loaded ({what})",
        device=board(device) if device else None,
        weight="notice",
    )
