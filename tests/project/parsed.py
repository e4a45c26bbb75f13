"""Each module of the product is parsed once in a run, whatever looks at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, which nobody may change."""
    return ast.parse(path.read_text(encoding="utf-8"))
