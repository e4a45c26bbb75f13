"""Which remedy files were checked already: those of this release, by the hash of their content and of the schema.

Checking takes pydantic, and with it longer than all the reading. A file that is not listed, because it is a site's own or was
changed, is checked when it is loaded. ``python -m nccldoctor.prescribe.catalogue.checked`` prints the list that is kept in
``checked.txt`` beside this module; a test compares the two, and checks every file that is listed.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "schema" / "remedy.json"


def is_checked(text: str) -> bool:
    """Whether a file with this content was found right under today's schema."""
    return digest(text) in _listed()


def digest(text: str) -> str:
    """The hash of a file's content together with that of the schema."""
    return hashlib.sha256(_schema() + text.encode("utf-8")).hexdigest()


def listing() -> str:
    """One hash for each built-in file, sorted, with a newline at the end."""
    texts = (path.read_text(encoding="utf-8") for path in HERE.glob("*/*.toml"))
    return "".join(f"{one}\n" for one in sorted(map(digest, texts)))


@cache
def _schema() -> bytes:
    return hashlib.sha256(SCHEMA.read_bytes()).digest()


@cache
def _listed() -> frozenset[str]:
    try:
        return frozenset((HERE / "checked.txt").read_text(encoding="ascii").split())
    except OSError:  # then everything is checked
        return frozenset()


if __name__ == "__main__":
    sys.stdout.write(listing())
