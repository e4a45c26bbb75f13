"""Folders and archives for tests of what is found in them."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from nccldoctor.discover.discover import Discovered

LOG = b"[rank3]: Watchdog caught collective operation timeout\n" * 3


def as_bytes(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """The files with each text in UTF-8."""
    return {name: data if isinstance(data, bytes) else data.encode() for name, data in files.items()}


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    """Put files into a folder, which is given back."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def texts(found: Discovered) -> dict[str, bytes]:
    """The text of each discovered file, by path."""
    out = {}
    for one in found.inputs:
        with one.open() as stream:
            out[one.source.path] = stream.read()
    return out


def gaps(found: Discovered) -> dict[str, str]:
    """The reason for each file that was left out, by path."""
    return {gap.what: gap.why for gap in found.gaps}


def tar_of(members: Mapping[str, bytes], mode: str = "w") -> bytes:
    """A tar of these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these members. Same members, same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()
