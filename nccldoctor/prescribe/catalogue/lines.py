"""Where in a remedy file a value stands: tomllib tells no places, and a mistake is worth little without its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any


def line_of(text: str, loc: Sequence[Any]) -> int:
    """The line (from 1) where the value at ``loc`` stands: its key if it is found, else the table around it.

    tomllib tells no places; a TOML file of ours is plain enough to find them again by headers and keys.
    """
    best, depth = 1, 0
    for number, path in _keys(text):
        common = 0
        for wanted, have in zip(loc, path, strict=False):
            if str(wanted) != have:
                break
            common += 1
        if common == len(path) and common > depth:
            best, depth = number, common
    return best


_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\- ]{1,120}?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_\-]{1,60})\s*=")
_INLINE = re.compile(r"[{,]\s*([A-Za-z0-9_\-]{1,60})\s*=")


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every header and key of a TOML text with its line and its path, array tables counted from 0."""
    table: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            parts = header.group(2).split(".")
            if header.group(1) == "[[":
                index = counts.get(header.group(2), -1) + 1
                counts[header.group(2)] = index
                parts = [*parts, str(index)]
            table = tuple(parts)
            yield number, table
        elif key:
            yield number, (*table, key.group(1))
            for inner in _INLINE.findall(line[key.end() :]):
                yield number, (*table, key.group(1), inner)
