"""Names texts and binary files that are recognised and not read: ``known_formats.toml`` has their literals."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


@cache
def _known() -> tuple[tuple[tuple[str, tuple[bytes, ...]], ...], tuple[tuple[str, bytes], ...]]:
    """The formats of texts with their literals, and those of binary files with their first bytes."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    texts = tuple((row["name"], tuple(text.encode() for text in row["literals"])) for row in table["format"])
    return texts, tuple((row["name"], bytes.fromhex(row["magic"])) for row in table["binary"])


def format_of_text(head: bytes) -> str:
    """The format of a text by its first bytes ("a TPU or XLA log"); "" where it is not known."""
    return next((name for name, literals in _known()[0] if any(literal in head for literal in literals)), "")


def format_of_binary(head: bytes) -> str:
    """The format of a binary file by its first bytes; "" where it is not known."""
    return next((name for name, magic in _known()[1] if head.startswith(magic)), "")
