"""Finds every parser: a module, or a file of rows, in the folder of a family.

A parser needs no list: a module that stands in a family's folder is imported here, and its decorators do the rest; the parsers of
``family/source_rows.toml`` are registered as those of a module ``family.source``. An installed package adds parsers of its own with an
entry point of the group ``nccldoctor.parsers`` that names their module.
"""

from __future__ import annotations

import logging
import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from nccldoctor import parsers
from nccldoctor.model import Gap
from nccldoctor.parsers.base import FILE_PARSERS, LINE_PARSERS, FileParser, LineParser
from nccldoctor.parsers.rows import add_rows
from nccldoctor.plugins import entry_points_of

ENTRY_POINTS = "nccldoctor.parsers"

_LOG = logging.getLogger("nccldoctor")


@cache
def load_parsers() -> tuple[Gap, ...]:
    """Import every module of every family, then those of other packages; one gap for each of these that failed."""
    modules = {module.name: None for module in pkgutil.walk_packages(parsers.__path__, f"{parsers.__name__}.")}
    rows = {
        f"{parsers.__name__}.{path.parent.name}.{path.stem.removesuffix('_rows')}": path
        for path in Path(parsers.__path__[0]).glob("*/*_rows.toml")
    }
    for name in sorted(modules | rows):
        if name in modules:
            import_module(name)
        if name in rows:
            add_rows(rows[name], name)
    gaps = []
    for point in entry_points_of(ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:  # the package of a stranger may fail in any way
            _LOG.warning("the parsers of %s = %s are left out", point.name, point.value, exc_info=True)
            gaps.append(Gap(f"parsers of {point.name}", f"{point.value} fails to import: {type(error).__name__}"))
    LINE_PARSERS.sort(key=lambda parser: parser.general)
    return tuple(gaps)


def line_parsers() -> list[LineParser]:
    """All line parsers in the order of the modules' names, the general ones last."""
    load_parsers()
    return LINE_PARSERS


def file_parsers() -> list[FileParser]:
    """All parsers of whole files, in the order of the modules' names."""
    load_parsers()
    return FILE_PARSERS
