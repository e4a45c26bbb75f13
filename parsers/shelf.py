"""Puts every parser on its shelf: the modules of all families are found by their folder.

A parser needs no list: a module that stands in a family's folder is imported here, and its decorators do the rest.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from nccldoctor import parsers
from nccldoctor.parsers.base import FILE_PARSERS, LINE_PARSERS, FileParser, LineParser


@cache
def load() -> None:
    """Import every module of every family, in the order of their names."""
    for module in sorted(pkgutil.walk_packages(parsers.__path__, f"{parsers.__name__}."), key=lambda found: found.name):
        import_module(module.name)
    LINE_PARSERS.sort(key=lambda parser: parser.general)


def line_parsers() -> list[LineParser]:
    """All line parsers, in the order of the modules' names."""
    load()
    return LINE_PARSERS


def file_parsers() -> list[FileParser]:
    """All parsers of whole files, in the order of the modules' names."""
    load()
    return FILE_PARSERS
