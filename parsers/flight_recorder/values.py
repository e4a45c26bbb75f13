"""Checks the values of recorder entries and gives codes to those that repeat.

Runs in the sandboxed child, on the standard library alone. Nothing that came out of a file is hashed, compared or
printed before its exact type is known: a tuple that holds itself many times over can make a single ``hash`` run for
years.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import field
from typing import Any

from nccldoctor.dataclass import dataclass
from nccldoctor.patterns import lazy

UNSET = -1
INT64 = 2**63
TEXT_LIMIT = 1000
"""Longest string kept from a dump, in characters."""

_NUMBER = lazy(r"[+-]?\d{1,20}\Z")


class TooBig(Exception):
    """The content expands beyond what a file of its size can honestly hold."""


@dataclass(slots=True)
class Entries:
    """Columns of one dump (names as in ``columns.Calls``) and what their codes stand for.

    ``stacks`` holds codes into ``frames``; ``left_out`` counts entries that could not be represented,
    ``notes`` says what was odd about the others. ``backend`` is the prefix of most recorded names, of ``backends`` different ones.
    """

    rows: int = 0
    columns: dict[str, array[Any]] = field(default_factory=dict)
    groups: list[tuple[str, str]] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    sizes: list[Any] = field(default_factory=list)
    dtypes: list[Any] = field(default_factory=list)
    frames: list[tuple[str, str, int]] = field(default_factory=list)
    stacks: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    backend: str = ""
    backends: int = 0
    left_out: int = 0
    notes: list[str] = field(default_factory=list)


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
    """An int64 out of what a dump or its JSON form may hold.

    None where it is none, as ``True`` is.
    """
    kind = type(value)
    if kind is int:
        return int(value) if -INT64 <= value < INT64 else None
    if (kind is str and len(value) <= 21 and _NUMBER.match(value)) or (kind is float and value.is_integer()):
        value = int(value)
        return value if -INT64 <= value < INT64 else None
    return None
