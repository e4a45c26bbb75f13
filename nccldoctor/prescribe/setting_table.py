"""``settings.csv`` as a table: which variables there are, who reads them, since when, and in which unit."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Known:
    """One row of ``settings.csv``; a name may end in ``*``."""

    name: str
    status: str
    read_by: str
    first_seen: str
    last_seen: str
    default: str
    meaning: str
    relevance: str
    notes: str
    unit: str
    same_on_all_ranks: bool


@cache
def known() -> Mapping[str, Known]:
    """The shipped table, by name."""
    text = (files("nccldoctor.prescribe") / "settings.csv").read_text(encoding="utf-8")
    return {
        row["name"]: Known(
            row["name"],
            row["status"],
            row["read_by"],
            row["first_seen"],
            row["last_seen_if_removed"],
            row["source_default"],
            row["meaning"],
            row["hang_relevance"],
            row["notes"],
            row["unit"],
            row["same_on_all_ranks"] == "yes",
        )
        for row in csv.DictReader(text.splitlines())
    }


def look_up(name: str) -> Known | None:
    """The row of a name, or of the pattern it falls under (``OFI_NCCL_*``)."""
    table = known()
    if name in table:
        return table[name]
    return next((row for pattern, row in table.items() if pattern.endswith("*") and fnmatchcase(name, pattern)), None)


def nearest(name: str) -> str | None:
    """The known name that is spelled most like this one, if any is near."""
    real = [row.name for row in known().values() if row.status in ("read", "renamed, still read")]
    found = get_close_matches(name, real, n=1, cutoff=0.8)
    return found[0] if found else None
