"""Logs that are not UTF-8: PowerShell and some collectors write UTF-16."""

from __future__ import annotations

import codecs
from typing import Any, BinaryIO, Protocol

_CHUNK = 1 << 18


class Reader(Protocol):
    """What the scanner needs of a stream."""

    def readinto(self, buffer: memoryview) -> int | None:
        """Fill some of the buffer; 0 at the end."""


class WithHead:
    """The first bytes, which were looked at, and then the rest of the stream, if there is one."""

    def __init__(self, head: bytes, rest: Any = None) -> None:
        self._head = head
        self._rest = rest

    def readinto(self, buffer: memoryview) -> int | None:
        """Some of the first bytes, then of the rest."""
        if self._head:
            size = min(len(self._head), len(buffer))
            buffer[:size] = self._head[:size]
            self._head = self._head[size:]
            return size
        if self._rest is None:
            return 0
        if hasattr(self._rest, "readinto"):
            count: int | None = self._rest.readinto(buffer)
            return count
        chunk = self._rest.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)


class _Utf16Reader:
    """UTF-16 read as UTF-8; what is no character becomes U+FFFD."""

    def __init__(self, source: Reader, encoding: str) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._raw = memoryview(bytearray(_CHUNK))
        self._ready = b""
        self._over = False

    def readinto(self, buffer: memoryview) -> int:
        while not self._ready and not self._over:
            got = self._source.readinto(self._raw) or 0
            self._over = not got
            text = self._decoder.decode(bytes(self._raw[:got]), final=self._over)
            self._ready = text.encode("utf-8", "replace")
        size = min(len(self._ready), len(buffer))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def as_utf8(stream: BinaryIO) -> Reader:
    """The stream, as UTF-8 where a byte order mark, or zeros in every other byte, show UTF-16."""
    head = stream.read(4096)
    joined = WithHead(head, stream)
    encoding = _utf16_encoding(head)
    return _Utf16Reader(joined, encoding) if encoding else joined


def head_as_utf8(head: bytes) -> bytes:
    """The first bytes of a file as UTF-8 where they are UTF-16, else as they are."""
    encoding = _utf16_encoding(head[:4096])
    return head.decode(encoding, "replace").encode("utf-8", "replace") if encoding else head


def _utf16_encoding(head: bytes) -> str | None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" not in head:
        return None
    even, odd = head[0::2], head[1::2]
    if len(odd) < 16:
        return None
    if odd.count(0) > 0.7 * len(odd) and even.count(0) < 0.1 * len(even):
        return "utf-16-le"
    if even.count(0) > 0.7 * len(even) and odd.count(0) < 0.1 * len(odd):
        return "utf-16-be"
    return None
