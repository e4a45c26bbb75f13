"""Finds what installed packages add: parsers, rules and remedies, by entry points."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints


def entry_points_of(group: str) -> list[EntryPoint]:
    """The entry points of ``group`` by name; none is loaded yet."""
    return sorted(_installed().select(group=group), key=lambda point: (point.name, point.value))


@cache
def _installed() -> EntryPoints:
    """The entry points of all installed packages; their files are read once."""
    from importlib.metadata import entry_points

    installed: Any = entry_points()  # a SelectableGroups in Python 3.11, which selects alike
    return cast("EntryPoints", installed)
