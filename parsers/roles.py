"""Says whose a message of NCCL, RCCL, aws-ofi-nccl, gloo or c10d is, and what it weighs: the rows of ``roles.toml``."""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct

from nccldoctor.patterns import lazy

_FILE = lazy(r"(?:^|[\s\[(])(?P<path>[\w./+\-]{1,200}\.(?:cc|cpp|cu|h|hpp)):\d{1,6}\b")
"""The source file that a message names itself, as gloo does: ``[enforce fail at ../gloo/transport/tcp/device.cc:84]``."""


class Role(Struct, frozen=True):
    """Whose a message is and its weight, as the head of the table explains. ``what`` is a meaning of its own."""

    whose: str
    weight: str
    what: str = ""


@cache
def _roles() -> tuple[list[tuple[lazy[str], Role]], list[tuple[str, Role]]]:
    """The rows of words in their order, and the ends of paths, the longest first and folders last."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    words = [(lazy(row.pop("pattern")), Role(**row)) for row in table["words"]]
    files = [(f"/{end}", Role(whose, row["weight"])) for whose, row in table["files"].items() for end in row["ends"]]
    return words, sorted(files, key=lambda one: (one[0].endswith("/"), -len(one[0])))


@lru_cache(maxsize=1024)
def role_of(message: str, file: str = "") -> Role | None:
    """The role of a message by its words, else by its file; None where the table knows neither."""
    (words, files), text = _roles(), message[:2_000]
    named = _FILE.search(text)
    path = "/" + (file or (named["path"] if named else "")).replace("\\", "/")
    said = next((role for pattern, role in words if pattern.search(text)), None)
    return said or next((role for end, role in files if path.endswith(end) or (end[-1] == "/" and end in path)), None)
