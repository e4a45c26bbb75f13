"""The first of many items, and how many more there are: no list in a report is endless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

_T = TypeVar("_T")


class Listed(Struct, Generic[_T], frozen=True):
    """The items ``shown``; the JSON has ``more`` of them."""

    shown: tuple[_T, ...]
    more: int = 0


def first(items: Sequence[_T], most: int) -> Listed[_T]:
    """At most ``most`` items, from the start."""
    return Listed(tuple(items[:most]), max(len(items) - most, 0))
