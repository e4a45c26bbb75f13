"""Reads tar archives from front to back: one header at a time, nothing on the disk, every length bounded.

``tarfile`` of the standard library ends silently where an archive is cut or damaged, as if no more members followed; here that is an
error, so that the report can say what was lost. ``tarfile`` also takes headers of any size into memory, follows links and supports
sparse files, which an untrusted archive must not make it do. Formats: ustar, GNU long names, pax paths and sizes (POSIX.1-2001).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from nccldoctor.discover.file_types import is_tar
from nccldoctor.discover.streams import problem_of, read_up_to

BLOCK = 512
_MOST_HEADER = 1 << 20
_SKIP = 1 << 20
_REFUSED = {b"1": "hard link", b"2": "link", b"3": "device", b"4": "device", b"6": "fifo", b"S": "sparse file"}
_PAX = re.compile(rb"\d{1,7} ([a-zA-Z.]{1,64})=([^\n]{0,65536})\n")


class Member(Struct, frozen=True):
    """A member with its bytes in ``part``, valid until the next one is read.

    Without ``part`` it is ``refused`` for a reason, or has nothing to read, as a folder.
    """

    name: str
    size: int
    part: Part | None
    refused: str = ""


class Part(io.RawIOBase):
    """The bytes of one member."""

    def __init__(self, stream: Any, size: int) -> None:
        super().__init__()
        self.stream = stream
        self.left = size

    @property
    def problem(self) -> str:
        """Why the archive ended early, where its stream knows."""
        return problem_of(self.stream)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, target: Any) -> int:
        """Read on, at most to the end of the member. Raises :class:`EOFError` where the archive ends before it."""
        view = memoryview(target).cast("B")[: self.left]
        if not len(view):
            return 0
        got = self.stream.readinto(view) or 0
        if not got:
            raise EOFError("the archive ends inside a member")
        self.left -= got
        return int(got)


def members(stream: Any) -> Iterator[Member]:
    """The members in order. Raises :class:`ValueError` or :class:`EOFError` where the archive is damaged."""
    name, size = "", None
    while (block := read_up_to(stream, BLOCK)).strip(b"\0"):
        if not is_tar(block):
            raise ValueError("not a tar header")
        kind = block[156:157]
        length = _number(block[124:136])
        if kind in b"Lxg" and kind:
            if length > _MOST_HEADER:
                raise ValueError("a header of more than 1 MB")
            data = _take(stream, length)
            if kind == b"L":
                name = _decoded(data.rstrip(b"\0"))
            elif kind == b"x":
                name, size = _pax(data, name, size)
            _take(stream, -length % BLOCK)
            continue
        length = length if size is None else size
        name = name or _name(block)
        if kind in (b"0", b"\0", b"7", b""):
            part = Part(stream, length)
            yield Member(name, length, part)
            length = part.left + -length % BLOCK
        else:
            yield Member(name, 0, None, _REFUSED.get(kind, ""))
            length = 0 if kind in b"123456" else length + -length % BLOCK
        while length > 0:
            if not (got := len(_take(stream, min(length, _SKIP)))):
                raise EOFError("the archive ends inside a member")
            length -= got
        name, size = "", None


def _take(stream: Any, count: int) -> bytes:
    data = read_up_to(stream, count)
    if 0 < len(data) < count:
        raise EOFError("the archive ends early")
    return data


def _number(field: bytes) -> int:
    """Octal digits, or the base-256 of GNU tar for sizes from 8 GB."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        raise ValueError("not a number in a tar header")
    return int(digits or b"0", 8)


def _name(block: bytes) -> str:
    name = _decoded(block[:100].split(b"\0", 1)[0])
    prefix = (
        _decoded(block[345:500].split(b"\0", 1)[0]) if block[257:262] == b"ustar" and block[262:263] == b"\0" else ""
    )
    return f"{prefix}/{name}" if prefix else name


def _pax(data: bytes, name: str, size: int | None) -> tuple[str, int | None]:
    for key, value in _PAX.findall(data):
        if key == b"path":
            name = _decoded(value)
        elif key == b"size" and value.isdigit() and len(value) < 20:
            size = int(value)
    return name, size


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
