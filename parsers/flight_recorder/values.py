"""Checks the values of recorder entries and gives codes to those that repeat.

Runs in the sandboxed child, on the standard library alone. Nothing that came out of a file is hashed, compared or
printed before its exact type is known: a tuple that holds itself many times over can make a single ``hash`` run for
years.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from nccldoctor.patterns import lazy

UNSET = -1
INT64 = 2**63
TEXT_LIMIT = 1000
"""Longest string kept from a dump, in characters."""

_NUMBER = lazy(r"[+-]?\d{1,20}\Z")


class TooBig(Exception):
    """The content expands beyond what a file of its size can honestly hold."""


class Entries:
    """Columns of one dump (names as in ``columns.Calls``) and what their codes stand for.

    ``stacks`` holds codes into ``frames``; ``left_out`` counts entries that could not be represented,
    ``notes`` says what was odd about the others. ``backend`` is the prefix of most recorded names, of ``backends`` different ones.
    """

    def __init__(self, rows: int = 0) -> None:
        self.rows = rows
        self.columns: dict[str, array[Any]] = {}
        self.groups: list[tuple[str, str]] = []
        self.ops: list[str] = []
        self.sizes: list[Any] = []
        self.dtypes: list[Any] = []
        self.frames: list[tuple[str, str, int]] = []
        self.stacks: list[tuple[int, ...]] = [()]
        self.backend = ""
        self.backends = 0
        self.left_out = 0
        self.notes: list[str] = []


class Codes(dict[Any, int]):
    """Codes in order of first sight; ``make`` turns a new key into its value in the vocabulary."""

    def __init__(self, make: Callable[[Any], Any], values: list[Any]) -> None:
        super().__init__()
        self.make = make
        self.values_seen = values
        self.by_value: dict[Any, int] = {value: code for code, value in enumerate(values)}

    def __missing__(self, key: Any) -> int:
        value = self.make(key)
        code = self.by_value.get(value)
        if code is None:
            code = self.by_value[value] = len(self.values_seen)
            self.values_seen.append(value)
        self[key] = code
        return code


def clean(text: str) -> str:
    """The text without lone surrogates, at most :data:`TEXT_LIMIT` characters."""
    if text.isascii() and len(text) <= TEXT_LIMIT:
        return text
    return text[:TEXT_LIMIT].encode("utf-8", "backslashreplace").decode("utf-8")


def integer(value: Any) -> int | None:
    """An int64 out of what a dump or its JSON form may hold; None for anything else, as for ``True``."""
    kind = type(value)
    if kind is int:
        return int(value) if -INT64 <= value < INT64 else None
    if (kind is str and len(value) <= 21 and _NUMBER.match(value)) or (kind is float and value.is_integer()):
        value = int(value)
        return value if -INT64 <= value < INT64 else None
    return None
