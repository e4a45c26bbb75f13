"""The faults that a rehearsal can have, and what a diagnosis of each must find."""

from __future__ import annotations

import tomllib
from pathlib import Path

from msgspec import Struct, convert

WORLD = 4
"""Ranks of a rehearsal: two tensor parallel pairs."""


class Fault(Struct, frozen=True):
    """One fault: its name, a sentence about it, its rank, and the classes that name it rightly.

    ``rank`` is None where nothing is wrong. ``steps`` is how many a job makes before a fault shows that does not stop it; 0 for others.
    """

    name: str
    about: str
    classes: tuple[str, ...]
    rank: int | None = None
    steps: int = 0


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAULTS = tuple(convert({"name": name, **row}, Fault) for name, row in _ROWS.items())
"""All of them. The last two are jobs without a fault."""


def fault_named(name: str) -> Fault | None:
    """The fault of that name, None where there is none."""
    return next((fault for fault in FAULTS if fault.name == name), None)
