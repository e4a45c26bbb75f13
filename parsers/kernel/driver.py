"""What NVIDIA's Xid numbers mean for a job that hangs, and lines of the kernel that need code.

One board has three spellings: ``0000:05:00`` in the kernel log, ``00000000:05:00.0`` in nvidia-smi, ``5000`` in NCCL; events say
``domain:bus:device``. ``xid.csv`` holds the numbers. Source of meanings and actions: NVIDIA's Xid catalogue as of October 2025, by
way of leptonai/gpud ``components/accelerator/nvidia/xid``; the weight is a judgement for hangs: ``fault`` (the board, its link or its
slot failed), ``software`` (what a faulty program causes), ``consequence`` (follows another error or the end of the process), ``notice``
(no reason to stop).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from nccldoctor.events import Event, GpuError, OutOfMemory
from nccldoctor.parsers.base import Line
from nccldoctor.parsers.kernel.prefix import kernel_fields
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_CAUSED_BY = lazy(r"caused by previous Xid (?P<xid>\d{1,4})\b")
"""What newer drivers add to a channel that they remove (Xid 45): the number that tells what went wrong."""

_PID = lazy(r"pid='?(?P<pid>\d{1,10})")
_DIGITS = lazy(r"[0-9a-f]{1,16}")


class Xid(NamedTuple):
    """One number: its meaning in a few words and its weight."""

    meaning: str
    weight: str


@cache
def _catalogue() -> dict[int, Xid]:
    """The known numbers; read when the first Xid is met."""
    with Path(__file__).with_name("xid.csv").open(encoding="utf-8") as file:
        return {int(row["xid"]): Xid(row["meaning"], row["weight"]) for row in csv.DictReader(file)}


def weight(xid: int, text: str) -> str:
    """The weight of a number; the NVLink units 144 to 150 say themselves that an error is not fatal."""
    if 144 <= xid <= 150 and "Nonfatal" in text:
        return "notice"
    entry = _catalogue().get(xid)
    return entry.weight if entry else "notice"


def describe_xid(xid: int, text: str) -> str:
    """The meaning of the number with the driver's own words behind it, at most 300 characters."""
    entry = _catalogue().get(xid)
    return f"{entry.meaning}: {text}"[:300].rstrip(": ") if entry else text[:300]


@for_rows
def board(text: str) -> str | None:
    """A PCI address as ``domain:bus:device`` in small letters, without function, the domain of four digits; None for another name.

    NCCL prints digits alone. From the right: one of the function, two of the device, two of the bus, the rest of the domain
    (``int64ToBusId`` in NVIDIA/nccl ``src/misc/utils.cc``).
    """
    name = text.lower().removeprefix("pci:").rstrip(".:").split(".")[0]
    if ":" not in name:
        if _DIGITS.fullmatch(name) is None:
            return None
        name = name.zfill(9)
        name = f"{name[:-5]}:{name[-5:-3]}:{name[-3:-1]}"
    domain, bus, device = ["", *name.split(":")][-3:]
    return f"{domain[-4:].zfill(4)}:{bus}:{device}"


@for_rows
def xid_error(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*gpu-error* with the process and the number that went before, where the driver names them."""
    xid, text = int(hit["xid"]), hit["text"].strip()
    if before := _CAUSED_BY.search(text):
        xid = int(before["xid"])
    pid, worth = _PID.search(text), weight(xid, text)
    yield GpuError(
        **kernel_fields(line, pid=int(pid["pid"]) if pid else None),
        xid=xid,
        device=board(hit["device"]) if hit["device"] else None,
        message=describe_xid(xid, text),
        software=worth == "software",
        weight=worth,
    )


@for_rows
def lost_gpu(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*gpu-error* of a GPU that fell off the bus, or does not start. Of three lines the first has the address alone."""
    fields = kernel_fields(line, pid=None, device=board(hit["device"]))
    words = hit["text"] if "off the bus" in hit["text"] else ""
    if not words and "The NVIDIA GPU" in line.raw:
        words = next((below.raw[-200:] for below in line.following(4) if "fallen off the bus" in below.raw), "")
    if "RmInitAdapter failed" in hit["text"]:
        yield GpuError(**fields, message=f"the driver cannot start the board: {hit['text'].strip(' :.')}")
    elif words:
        yield GpuError(**fields, xid=79, message=describe_xid(79, words.strip(" :.")))


@for_rows
def oom_constraint(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*out-of-memory* where no line below tells the same end."""
    again = f"Killed process {hit['pid']} ("
    if not any(again in below.raw for below in line.following(5)):
        yield OutOfMemory(**kernel_fields(line, pid=int(hit["pid"])), scope="host", process=hit["comm"])


@for_rows
def in_kernel(frames: str) -> str:
    """Where a task sleeps: `` in nfs_wait < rpc_wait``, of the innermost frames that tell something."""
    return f" in {' < '.join(frames.split()[:4])}"
