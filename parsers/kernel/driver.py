"""Reads the errors of NVIDIA's driver in the kernel log: Xid and SXid.

Sources: line forms in leptonai/gpud ``components/accelerator/nvidia/{xid,sxid}`` and NVIDIA's published samples. One
board has three spellings: ``0000:05:00`` here, ``00000000:05:00.0`` in nvidia-smi, ``5000`` in NCCL; events say
``domain:bus:device``. Memory, links and everything else of the kernel is read by ``kernel/events.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, GpuError
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.kernel.prefix import kernel_fields
from nccldoctor.parsers.kernel.xid import describe_xid, weight
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_XID = lazy(
    r"NVRM: Xid \((?:PCI:)?(?:(?P<device>[0-9a-fA-F:.]{7,16})|[^\s()]{0,20})\): (?P<xid>\d{1,4})\b,? ?(?P<text>.{0,400})"
)
"""The address may be blanked out by the person who pasted the line."""

_CAUSED_BY = lazy(r"caused by previous Xid (?P<xid>\d{1,4})\b")
"""What newer drivers add to a channel that they remove (Xid 45): the number that tells what went wrong."""

_PID = lazy(r"pid='?(?P<pid>\d{1,10})")
_LOST = lazy(
    r"NVRM: (?:GPU at PCI:|GPU |The NVIDIA GPU"
    r" )(?P<device>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)(?P<text>.{0,200})"
)
_SXID = lazy(
    r"SXid \(PCI:(?P<device>[0-9a-fA-F:.]{7,16})\): (?P<sxid>\d{4,6}), (?P<text>.{0,300})"
    r"|detected NVSwitch (?P<grade>fatal|non-fatal) error (?P<fm>\d{4,6}) .{0,120}?pci bus id"
    r" (?P<fmdev>[0-9a-fA-F:.]{7,16})"
)
_HANDLE = lazy(
    r"Unable to determine the device handle for (?:gpu|GPU\d{0,4}:?) ?(?P<device>[0-9a-fA-F:.]{7,16}):"
    r" (?P<text>.{0,120})"
)


_GSP = lazy(
    r"NVRM: (?:GPU(?P<gpu>\d{1,3}) )?_kgsp(?:IsHeartbeatTimedOut: .{0,20}[Hh]eartbeat timed out|Log\w{3,20}: \*{3,80} GSP Timeout \*)"
)
"""The GPU's system processor is silent; the number is that of the driver (open-gpu-kernel-modules, ``kernel_gsp.c``)."""


@for_rows
def board(text: str) -> str:
    """A PCI address as ``domain:bus:device`` in small letters, without function, the domain of four digits."""
    head = text.lower().rstrip(".:").split(".")[0]
    parts = head.split(":")
    if len(parts) == 3:
        parts[0] = parts[0][-4:].rjust(4, "0")
    elif len(parts) == 2:
        parts.insert(0, "0000")
    return ":".join(parts)


@reads(
    "NVRM: Xid",
    "NVRM: GPU",
    "NVRM: The NVIDIA GPU",
    "_kgsp",
    "Unable to determine the device handle",
    needs=(_XID, _LOST, _HANDLE, _GSP),
)
def xid(line: Line) -> Iterator[Event]:
    """Errors of GPUs in the kernel log.

    One event for each Xid, lost GPU (as Xid 79), GPU that the driver cannot start, and silent GSP.
    """
    if hit := _XID.search(line.raw):
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
    elif hit := _LOST.search(line.raw):
        words = hit["text"] if "off the bus" in hit["text"] else _message_below(line)
        if "RmInitAdapter failed" in hit["text"]:
            message = f"the driver cannot start the board: {hit['text'].strip(' :.')}"
            yield GpuError(**kernel_fields(line, pid=None), device=board(hit["device"]), message=message)
        elif words:
            yield GpuError(
                **kernel_fields(line, pid=None),
                xid=79,
                device=board(hit["device"]),
                message=describe_xid(79, words.strip(" :.")),
            )
    elif hit := _HANDLE.search(line.raw):
        yield GpuError(**kernel_fields(line, pid=None), device=board(hit["device"]), message=hit["text"].strip())
    elif hit := _GSP.search(line.raw):
        whose = f"GPU{hit['gpu']}" if hit["gpu"] else "a GPU"
        message = f"the system processor (GSP) of {whose} does not answer"
        yield GpuError(**kernel_fields(line, pid=None), message=message)


def _message_below(line: Line) -> str:
    """The message of three lines that begins with the address alone."""
    if "The NVIDIA GPU" not in line.raw:
        return ""
    return next((below.raw[-200:] for below in line.following(4) if "fallen off the bus" in below.raw), "")


@reads("SXid (PCI:", "detected NVSwitch", needs=(_SXID,))
def sxid(line: Line) -> Iterator[Event]:
    """Errors of NVSwitches. ``Severity`` and ``Data`` lines repeat the number and are not counted again."""
    hit = _SXID.search(line.raw)
    if hit is None or (hit["text"] or "").startswith(("Severity", "Data")):
        return
    text = (hit["text"] or f"NVSwitch {hit['grade']} error").strip()
    mild = text.startswith("Non-fatal") or hit["grade"] == "non-fatal"
    yield GpuError(
        **kernel_fields(line, pid=None),
        sxid=int(hit["sxid"] or hit["fm"]),
        device=board(hit["device"] or hit["fmdev"]),
        message=text[:300],
        weight="notice" if mild else "fault",
    )
