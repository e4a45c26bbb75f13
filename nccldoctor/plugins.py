"""Finds what installed packages add: parsers, rules and remedies, by entry points."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

_OURS = b"[nccldoctor."
"""What the groups of parsers, rules and catalogues begin with in ``entry_points.txt``."""


def entry_points_of(group: str) -> list[EntryPoint]:
    """The entry points of ``group`` by name; none is loaded yet."""
    installed = _installed()
    return (
        [] if installed is None else sorted(installed.select(group=group), key=lambda point: (point.name, point.value))
    )


@cache
def _installed() -> EntryPoints | None:
    """The entry points of all installed packages; None where no package adds anything to us, as mostly.

    The module that reads them well takes longer to import than a small log takes to read.
    """
    others = [finder for finder in sys.meta_path if finder is not PathFinder and hasattr(finder, "find_distributions")]
    if not others and not any(map(_can_add, sys.path)):
        return None
    from importlib.metadata import entry_points

    installed: Any = entry_points()  # a SelectableGroups in Python 3.11, which selects alike
    return cast("EntryPoints", installed)


def _can_add(entry: str) -> bool:
    """Whether a package in this entry of ``sys.path`` names a group of ours. True of an archive, which is not opened."""
    folder = Path(entry)
    with suppress(OSError):
        return folder.is_file() or any(map(_has_our_groups, folder.iterdir()))
    return False


def _has_our_groups(path: Path) -> bool:
    if path.suffix in (".dist-info", ".egg-info"):
        with suppress(OSError):
            return _OURS in (path / "entry_points.txt").read_bytes()
    return path.suffix == ".egg"
