"""Puts the watch of :mod:`proof.watch` into this process, or into every Python process that a command starts."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from pathlib import Path

from proof import watch

ROOT = Path(__file__).resolve().parents[2]


def watch_here(log: Path) -> None:
    """Watch this process, and the readers of dumps that it starts, to its end: an audit hook cannot be taken out again."""
    watch.watch(*_words(log))


def path_that_watches(folder: Path, log: Path) -> str:
    """A ``PYTHONPATH`` for which ``folder`` gets the ``sitecustomize.py`` that watches each process."""
    words = ", ".join(map(repr, _words(log)))
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"{_text()}\nwatch({words})\n", encoding="utf-8")
    return os.pathsep.join((str(folder), str(ROOT)))


def seen_by_watch(log: Path) -> list[tuple[str, str]]:
    """What the watch wrote: ``code`` or ``request``, and what it was."""
    rows = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    return [(kind, what) for kind, _, what in (row.partition(" ") for row in rows)]


@cache
def _text() -> str:
    return Path(watch.__file__).read_text(encoding="utf-8")


def _words(log: Path) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """The arguments of the watch: code of this checkout, of Python and of what is installed may run."""
    installed = [path for path in sys.path if path.endswith("site-packages")]
    paths = [str(ROOT), *installed, *(path for name, path in sysconfig.get_paths().items() if "lib" in name)]
    trusted = sorted({f"{one}/" for path in paths for one in (path, os.path.realpath(path))})
    return str(log), _text(), tuple(trusted), tuple(f"{ROOT / name}/" for name in ("nccldoctor", "parsers", "reports"))
