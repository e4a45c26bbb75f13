"""Writes parts of folders and reads them together with what one run over all files says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from nccldoctor.discover.discover import discover
from nccldoctor.parts.container import write_joined
from nccldoctor.parts.opened import open_parts
from nccldoctor.parts.write import write_part


def reduced(folder: Path, target: Path, paths: Sequence[Path] = ()) -> Path:
    """The part ``target`` of a folder, or of some paths."""
    with target.open("wb") as file:
        write_part(discover(paths or [folder]), file, target.stem)
    return target


def joined(target: Path, parts: Sequence[Path]) -> Path:
    """One file with several parts."""
    opened, gaps = open_parts(discover(parts).parts)
    assert not gaps
    with target.open("wb") as file:
        write_joined(file, (part.stored() for part in opened))
    return target


def split(folder: Path, into: Path, home: Callable[[int, Path], str]) -> tuple[Path, list[Path]]:
    """Parts of a folder's files, each in that part which ``home`` names by its number and its path.

    The first value is a folder with a folder of the same files for each part.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    homes = {path: home(number, path.relative_to(folder)) for number, path in enumerate(files)}
    tree, parts = into / "files", into / "parts"
    parts.mkdir(parents=True)
    for path, name in homes.items():
        copy = tree / name / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return tree, [reduced(tree / name, parts / f"{name}.nd") for name in sorted(set(homes.values()))]
