"""Writes a report to a file: the format follows the suffix, and a half-written report is never left behind."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from nccldoctor.incident import Incident
from nccldoctor.model.errors import OutputError

SUFFIXES = (".html", ".json", ".md", ".zip")


PART = ".nd"
"""The suffix of a part."""


def check_target(target: Path, force: bool, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Fail before the analysis, not after it.

    Raises :class:`OutputError` where ``target`` has none of ``suffixes``, exists (unless ``force``), or cannot be written.
    """
    if not target.name.lower().endswith(tuple(suffixes)):
        raise OutputError(f"cannot tell the format of {target} from its name", "end it in one of " + " ".join(suffixes))
    if target.is_dir():
        raise OutputError(f"{target} is a folder", "name a file in it")
    if target.exists() and not force:
        raise OutputError(f"{target} exists", "pass --force to replace it, or choose another name")
    if not target.parent.is_dir():
        raise OutputError(f"the folder {target.parent} does not exist", "make it first, or choose another place")
    probe = _beside(target)
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}", "choose another place") from error


def is_report(target: Path) -> bool:
    """True where a file is a page that nccldoctor wrote, as its title says."""
    try:
        with target.open("rb") as file:
            return b" \xc2\xb7 nccldoctor</title>" in file.read(4096)
    except OSError:
        return False


def write_report(incident: Incident, target: Path, *, force: bool) -> int:
    """Write an incident to ``target`` in the format of its suffix; the size in bytes.

    The bytes go to a new file beside it, which then takes its name: readers see the old report or the new one.
    Raises :class:`OutputError` where that fails.
    """
    content = _content(incident, target.suffix.lower())
    with replacing(target, force=force) as file:
        file.write(content)
    return len(content)


@contextlib.contextmanager
def replacing(target: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A new file beside ``target``, which takes its name in the end, or is gone where anything fails.

    Raises :class:`OutputError` where it cannot be written, or where ``target`` came into being meanwhile, unless ``force``.
    """
    part = _beside(target)
    try:
        with part.open("wb") as file:
            yield file
        if not force:
            target.touch(exist_ok=False)  # of two that write at once, one gets the name
        try:
            part.replace(target)
        except OSError:
            if not force:
                target.unlink()
            raise
    except FileExistsError:
        raise OutputError(f"{target} exists", "pass --force to replace it, or choose another name") from None
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}", "choose another place") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.part")


def _content(incident: Incident, suffix: str) -> bytes:
    writers = {".html": incident.to_html, ".json": incident.to_json, ".md": incident.to_full_markdown}
    if suffix in writers:
        return writers[suffix]().encode("utf-8", "backslashreplace")
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, write in writers.items():
            # with a fixed date, so that the same result gives the same bytes
            member = zipfile.ZipInfo(f"report{name}", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            archive.writestr(member, write().encode("utf-8", "backslashreplace"))
    return packed.getvalue()
