"""Reads several JSON objects in one file, one behind the other, and checks single values of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nccldoctor.patterns import lazy

_BEGIN = lazy(r"[^\s,\[\]]")


def objects(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every object with the number of the line it begins on; what is no object is passed over.

    Raises ValueError (or RecursionError) where the text breaks.
    """
    decoder = json.JSONDecoder()
    at, line, counted = 0, 1, 0
    while begin := _BEGIN.search(text, at):
        at = begin.start()
        line, counted = line + text.count("\n", counted, at), at
        item, at = decoder.raw_decode(text, at)
        if isinstance(item, dict):
            yield line, item


def whole_number(value: Any) -> int | None:
    """The value where it is an integer, which neither ``true`` nor ``false`` is."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
