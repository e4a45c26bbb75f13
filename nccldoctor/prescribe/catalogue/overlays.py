"""Finds the remedies in use: built-in ones, and those of a site laid over them.

``nccldoctor.toml`` names folders, installed packages offer theirs, and a run may name more; each is laid over the ones
before.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from nccldoctor.plugins import entry_points_of
from nccldoctor.prescribe.catalogue.load import Collected, Folder, collect, one_line

SETTINGS_FILE = "nccldoctor.toml"
ENTRY_POINTS = "nccldoctor.catalogues"
"""Group of entry points: each names a package, or a path, whose folder holds ``<topic>/<id>.toml``."""

LARGEST = 64 * 1024
"""Bytes of a settings file; a larger one is refused unread."""
MOST = 32
"""Folders that one settings file may name."""


def in_use(folders: Sequence[str | Path] = (), *, configured: bool = True) -> Collected:
    """The built-in remedies with all that is laid over them, and every mistake; nothing is raised.

    ``folders`` are those named for this run; settings file and installed packages are read unless ``configured`` is
    false.
    """
    mistakes: list[str] = []
    overlays = [*_from_settings(mistakes), *_from_packages(mistakes)] if configured else []
    overlays += [Folder(Path(folder).resolve().name, Path(folder)) for folder in folders]
    collected = collect(*overlays)
    return Collected(collected.catalogue, (*mistakes, *collected.mistakes))


def settings_file() -> Path | None:
    """``nccldoctor.toml`` of the user's configuration folder, else None.

    One that lies beside the logs is a stranger's, and is never read. A home that may not be entered holds no settings.
    """
    if sys.platform == "win32":
        base = os.environ.get("APPDATA", "")
    else:
        base = os.environ.get("XDG_CONFIG_HOME", "") or (str(Path.home() / ".config") if os.environ.get("HOME") else "")
    path = Path(base, "nccldoctor", SETTINGS_FILE)
    with suppress(OSError):
        return path if base and path.is_file() else None
    return None


def _from_settings(mistakes: list[str]) -> Iterator[Folder]:
    """``catalogue.folders`` of the settings file; relative to where that stands."""
    path = settings_file()
    if path is None:
        return
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"larger than {LARGEST} bytes")
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        names = data.get("catalogue", {}).get("folders", [])
        if not isinstance(names, list) or len(names) > MOST or not all(isinstance(n, str) and n for n in names):
            raise ValueError(f"catalogue.folders must be a list of at most {MOST} paths")
        unknown = sorted({*data} - {"catalogue"}) + sorted({*data.get("catalogue", {})} - {"folders"})
        if unknown:
            raise ValueError(f"unknown keys: {', '.join(unknown)}")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        mistakes.append(f"{SETTINGS_FILE}:1: {one_line(str(error) or 'unreadable')}")
        return
    for name in names:
        yield Folder(Path(name).name or name, path.parent / Path(name).expanduser())


def _from_packages(mistakes: list[str]) -> Iterator[Folder]:
    """Folders that installed packages offer, by name; a broken one is a mistake with its name, never an end."""
    for point in entry_points_of(ENTRY_POINTS):
        try:
            offered = point.load()
            places = [str(offered)] if isinstance(offered, str | Path) else [str(part) for part in offered.__path__]
        except Exception as error:  # a stranger's package may fail in any way
            mistakes.append(
                f"{one_line(point.name)}: entry point {one_line(point.value)} failed with {one_line(repr(error))}"
            )
            continue
        yield from (Folder(point.name, Path(place)) for place in places[:MOST])
