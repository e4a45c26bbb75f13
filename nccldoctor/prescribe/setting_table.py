"""Reads ``settings.csv``: which variables there are, who reads them, since when, and in which unit."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from difflib import SequenceMatcher, get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from msgspec import Struct

BLOCKING_WAIT = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
"""Where one of these is on, current PyTorch starts no watchdog, and with it no automatic dump."""


class Known(Struct, frozen=True):
    """One row of ``settings.csv``; a name may end in ``*``.

    ``default`` is that of the source, ``last_seen`` the last release that read the variable, ``relevance`` (high, medium,
    low) says how much it matters for hangs, ``same_on_all_ranks`` is ``yes`` or empty.
    """

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
    same_on_all_ranks: str

    @property
    def is_same_on_all_ranks(self) -> bool:
        """True where ranks with different values cannot work together."""
        return self.same_on_all_ranks == "yes"


@cache
def known() -> Mapping[str, Known]:
    """The shipped table, by name."""
    text = Path(__file__).with_name("settings.csv").read_text(encoding="utf-8")
    return {row["name"]: Known(**row) for row in csv.DictReader(text.splitlines())}


def look_up(name: str) -> Known | None:
    """The row of a name, or of the pattern it falls under (``OFI_NCCL_*``)."""
    table = known()
    if name in table:
        return table[name]
    return next((row for pattern, row in table.items() if pattern.endswith("*") and fnmatchcase(name, pattern)), None)


@cache
def nearest(name: str) -> str | None:
    """The known name that is spelled most like this one, if any is near."""
    real = [row.name for row in known().values() if row.status in ("read", "renamed, still read")]
    return next(iter(get_close_matches(name, real, n=1, cutoff=0.8)), None)


def is_misspelt(name: str, near: str) -> bool:
    """True where one letter is wrong: ``NCLL_DEBUG`` for ``NCCL_DEBUG``. A number at the end is another name."""
    longer = max(len(name), len(near))
    same = sum(block.size for block in SequenceMatcher(None, name, near, autojunk=False).get_matching_blocks())
    return longer - same <= 1 and not name[-1:].isdigit()
