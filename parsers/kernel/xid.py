"""NVIDIA's Xid numbers as far as they matter for a job that hangs.

Source of meanings and actions: NVIDIA's Xid catalogue as of October 2025, by way of leptonai/gpud
``components/accelerator/nvidia/xid``; the weight is a judgement for hangs: ``fault`` (the board, its link or its
slot failed), ``software`` (what a faulty program causes), ``consequence`` (follows another error or the end of the
process), ``notice`` (no reason to stop).
"""

from __future__ import annotations

from typing import NamedTuple


class Xid(NamedTuple):
    """One number: its meaning in a few words and its weight."""

    meaning: str
    weight: str


CATALOGUE: dict[int, Xid] = {
    8: Xid("GPU stopped processing", "fault"),
    13: Xid("exception in a kernel of the program", "software"),
    31: Xid("memory page fault of the program", "software"),
    32: Xid("invalid or corrupted push buffer", "fault"),
    38: Xid("driver firmware error", "fault"),
    43: Xid("GPU channel was reset after a program error", "software"),
    45: Xid("channel removed because the process ended or another error came first", "consequence"),
    46: Xid("GPU stopped processing: time-out", "fault"),
    48: Xid("double-bit ECC error", "fault"),
    54: Xid("auxiliary power is not connected", "fault"),
    61: Xid("internal micro-controller breakpoint", "fault"),
    62: Xid("internal micro-controller halt", "fault"),
    63: Xid("row remap recorded", "notice"),
    64: Xid("row remap failed", "fault"),
    66: Xid("illegal access by the driver", "software"),
    68: Xid("video processor exception", "software"),
    69: Xid("graphics engine class error", "software"),
    74: Xid("NVLink error", "fault"),
    79: Xid("GPU has fallen off the bus", "fault"),
    92: Xid("high rate of corrected ECC errors", "notice"),
    94: Xid("contained memory error", "fault"),
    95: Xid("uncontained memory error", "fault"),
    109: Xid("context switch time-out", "fault"),
    110: Xid("security fault", "fault"),
    119: Xid("GPU system processor did not answer", "fault"),
    120: Xid("GPU system processor error", "fault"),
    121: Xid("chip-to-chip link corrected error", "notice"),
    136: Xid("link training failed", "fault"),
    137: Xid("NVLink privilege error, often an illegal peer access of the program", "software"),
    140: Xid("unrecovered ECC error", "fault"),
    143: Xid("GPU initialisation error", "fault"),
    144: Xid("NVLink SAW error", "fault"),
    145: Xid("NVLink RLW error", "fault"),
    146: Xid("NVLink TLW error", "fault"),
    147: Xid("NVLink TREX error", "fault"),
    148: Xid("NVLink power control error", "fault"),
    149: Xid("NVLink network interface error", "fault"),
    150: Xid("NVLink MSE error", "fault"),
    151: Xid("key rotation error", "fault"),
    154: Xid("the driver's recovery action changed", "consequence"),
    155: Xid("NVLink software error", "fault"),
    156: Xid("resource retired", "notice"),
    157: Xid("resource retirement failed", "notice"),
    158: Xid("fatal GPU time-out", "fault"),
    160: Xid("channel retired", "notice"),
    161: Xid("channel retirement failed", "notice"),
    167: Xid("PCIe fatal time-out", "fault"),
    168: Xid("errors in protected memory, less of it is left", "fault"),
    169: Xid("security processor halt", "fault"),
    171: Xid("uncorrected DRAM error, detail of another Xid", "fault"),
    172: Xid("uncorrected SRAM error, detail of another Xid", "fault"),
}


def weight(xid: int, text: str) -> str:
    """What the number is worth; the NVLink units of 144 to 150 say themselves whether they are fatal."""
    if 144 <= xid <= 150 and "Nonfatal" in text:
        return "notice"
    entry = CATALOGUE.get(xid)
    return entry.weight if entry else "notice"


def describe(xid: int, text: str) -> str:
    """The meaning of the number with the driver's own words behind it, at most 300 characters."""
    entry = CATALOGUE.get(xid)
    return f"{entry.meaning}: {text}"[:300].rstrip(": ") if entry else text[:300]
