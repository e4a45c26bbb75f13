"""Says what NVIDIA's Xid numbers mean for a job that hangs; ``xid.csv`` holds them.

Source of meanings and actions: NVIDIA's Xid catalogue as of October 2025, by way of leptonai/gpud
``components/accelerator/nvidia/xid``; the weight is a judgement for hangs: ``fault`` (the board, its link or its
slot failed), ``software`` (what a faulty program causes), ``consequence`` (follows another error or the end of the
process), ``notice`` (no reason to stop).
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple


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
