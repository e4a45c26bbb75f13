"""Reads what a page, a zip of reports or a part holds packed, so that a text can be searched for in all of it."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from base64 import b64decode
from pathlib import Path

from nccldoctor.parts.container import stored_parts


def contents(page: str) -> str:
    """A page and the JSON that is packed into it."""
    packed = re.findall(r">([A-Za-z0-9+/=\s]{200,})</script>", page)
    assert packed
    return page + "".join(gzip.decompress(b64decode(part)).decode() for part in packed)


def members(archive: bytes) -> dict[str, str]:
    """The texts in a zip of reports, by name."""
    with zipfile.ZipFile(io.BytesIO(archive)) as reports:
        return {name: reports.read(name).decode() for name in reports.namelist()}


def held_by_part(path: Path) -> str:
    """All that a file of parts holds, unpacked; bytes as Latin-1."""
    with path.open("rb") as file:
        parts = list(stored_parts(file))
        return "".join(
            str(part.manifest) + b"".join(part.read_member(name) for name in part.manifest.members).decode("latin-1")
            for part in parts
        )
