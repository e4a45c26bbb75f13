"""Decompresses everything that precedes the end or the damage of a compressed stream.

The file objects of the libraries (``gzip``, ``bz2``, ``lzma``) drop what one call had unpacked before it met the damage, which for a
small log is all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BLOCK = 64 << 10
"""Compressed bytes read at once."""

STEP = 4 << 10
"""Bytes unpacked in one step: at most these are lost before damage."""

FEED = 1 << 10
"""Compressed bytes given to zstd at once: its decoder has no output limit, and four bytes may become 128 kB."""

MOST_MEMORY = 256 << 20

MOST_SILENT = 16 << 20
"""Compressed bytes in a row that may give nothing: zeros behind a member, or empty blocks.

A sparse file of 100 GB takes no room on a disk, and hours to read.
"""


def unpacked(raw: Any, kind: str) -> Members:
    """The decompressing reader for one of gz, bz2, xz, zst; several members or frames are read to the last."""
    if kind == "gz":
        from isal import igzip_lib

        return Members(raw, lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP))
    if kind == "bz2":
        import bz2

        return Members(raw, bz2.BZ2Decompressor)
    if kind == "xz":
        import lzma

        return Members(raw, lambda: lzma.LZMADecompressor(memlimit=MOST_MEMORY))
    return Members(raw, _Frame)


class Members:
    """One compressed member after the other, read from ``raw`` by decoders with the interface of ``bz2`` and ``lzma``."""

    def __init__(self, raw: Any, make: Callable[[], Any]) -> None:
        self.raw = raw
        self.make = make
        self.decoder = make()
        self.error: Exception | None = None
        self.silent = 0

    def readinto(self, view: memoryview) -> int:
        """Read some bytes; 0 at the end.

        Raises :class:`EOFError` and the decoder's own errors, once everything before the damage was returned.
        """
        filled = 0
        try:
            while not self.error and filled < len(view) and (data := self._unpack(min(STEP, len(view) - filled))):
                view[filled : filled + len(data)] = data
                filled += len(data)
        except Exception as error:  # every decoder has error types of its own, and none stays in error
            self.error = error
        if self.error and not filled:
            raise self.error
        return filled

    def _unpack(self, most: int) -> bytes:
        while True:
            packed = b""
            if self.decoder.eof:
                packed = self._next()
                if not packed:
                    return b""
                self.decoder = self.make()
            elif self.decoder.needs_input:
                packed = self._more()
                if not packed:
                    raise EOFError("the compressed data ends early")
            if data := self.decoder.decompress(packed, max_length=most):
                self.silent = 0
                return bytes(data)

    def _next(self) -> bytes:
        """The compressed bytes behind a member, without the zeros that fill up a tape block."""
        packed: bytes = self.decoder.unused_data.lstrip(b"\0")
        while not packed and (more := self._more()):
            packed = more.lstrip(b"\0")
        return packed

    def _more(self) -> bytes:
        """The next compressed bytes. Raises ValueError behind :data:`MOST_SILENT` that gave nothing."""
        packed: bytes = self.raw.read(BLOCK)
        self.silent += len(packed)
        if self.silent > MOST_SILENT:
            raise ValueError("data that gives nothing")
        return packed


class _Frame:
    """A decoder for one zstd frame with the interface of the others: an output limit and an end.

    The library's own reader ends silently where the file is cut.
    """

    def __init__(self) -> None:
        import zstandard

        self.inner = zstandard.ZstdDecompressor(max_window_size=MOST_MEMORY // 2).decompressobj()
        self.packed = self.made = memoryview(b"")

    @property
    def eof(self) -> bool:
        """True when the frame has ended and all of it was returned."""
        return self.inner.eof and not len(self.made)

    @property
    def needs_input(self) -> bool:
        """True when all given bytes are used up and the frame goes on."""
        return not (len(self.made) or len(self.packed) or self.inner.eof)

    @property
    def unused_data(self) -> bytes:
        """The bytes behind the frame."""
        return self.inner.unused_data + bytes(self.packed)

    def decompress(self, packed: bytes, max_length: int) -> bytes:
        """At most ``max_length`` bytes; ``packed`` must be empty where no input is needed."""
        if packed:
            self.packed = memoryview(packed)
        while len(self.packed) and not len(self.made) and not self.inner.eof:
            piece, self.packed = self.packed[:FEED], self.packed[FEED:]
            self.made = memoryview(self.inner.decompress(piece))
        data, self.made = self.made[:max_length], self.made[max_length:]
        return bytes(data)
