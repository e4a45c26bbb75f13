"""Finds the files of a URL (``s3://…``) through fsspec."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from glob import has_magic
from itertools import takewhile
from typing import Any, BinaryIO

from nccldoctor.discover.paths import Found, printable
from nccldoctor.discover.streams import reader
from nccldoctor.model.errors import InputError


def find_remote(url: str, alone: bool) -> list[Found]:
    """The files under a URL or a pattern of URLs, by path. Raises :class:`InputError` where fsspec or the file is missing."""
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{url}: URLs need fsspec", hint="pip install 'nccldoctor[fsspec]'") from None
    try:
        system, top = fsspec.core.url_to_fs(url)
        folders = list(takewhile(lambda name: not has_magic(name), top.split("/")))
        tops = [top]
        if has_magic(top) and not system.exists(top):
            tops, top = system.glob(top), "/".join(folders)
        files = {path: size for one in tops for path, size in _sizes_by_path(system, one, len(top.rstrip("/"))).items()}
    except Exception as error:  # every kind of store has error types of its own
        text = f"{type(error).__name__}: {error}"[:200]
        raise InputError(f"{url}: {text}", hint="stores such as s3 need their own package, s3fs for s3://") from None
    if not files:
        raise InputError(f"{url}: nothing there")
    label = "" if alone else top.rstrip("/").rsplit("/", 1)[-1]
    out = []
    for path, size in sorted(files.items()):
        inside = path[len(top.rstrip("/")) :].lstrip("/")
        name = "/".join(filter(None, (label, inside))) or path.rsplit("/", 1)[-1]
        opener = partial(system.open, path, "rb")
        shown = printable(name)
        out.append(Found(shown, shown, size, _up_to(opener, size), opener, alone=alone and not inside))
    return out


def _sizes_by_path(system: Any, top: str, start: int) -> dict[str, int]:
    """Sizes by path, of the file itself or of all files below it; those hidden behind ``start`` characters left out."""
    files = system.find(top, detail=True)
    return {
        path: int(info.get("size") or 0)
        for path, info in files.items()
        if not any(part.startswith(".") for part in path[start:].split("/"))
    }


def _up_to(opener: Callable[[], BinaryIO], size: int) -> Callable[[], BinaryIO]:
    return lambda: reader(opener(), limit=size or None)
