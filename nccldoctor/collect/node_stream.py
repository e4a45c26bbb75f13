"""Reads the tar stream of a node, of which nothing is believed.

No header makes the reader slow or takes memory without bound. ``tarfile`` takes extended headers of any size into memory; the collector
writes plain GNU headers, and only those are read here.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import BinaryIO

MOST_OF_NODE = 4 << 30
"""Bytes taken from one answer."""

MOST_OF_FILE = 80 << 20
"""Bytes of the largest file that is taken."""

MOST_HEADERS = 100_000
"""Headers read of one answer, whatever they stand for."""

_MOST_NAME = 4096
"""Bytes of a name that has a header of its own."""


def node_files(stream: BinaryIO) -> Iterator[tuple[str, bytes, bool]]:
    """Name and content of each regular file, and whether it is whole.

    A file that is cut at the end has the bytes that came. ``stream`` is a file that can seek.

    Raises :class:`tarfile.TarError` where something else than a header stands at its place, and :class:`EOFError` where the archive ends
    without its last block.
    """
    long_name, left = "", MOST_OF_NODE
    for _ in range(MOST_HEADERS):
        try:
            header = tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            return
        except (tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise EOFError from error
        left -= max(0, header.size)
        if header.size < 0 or left < 0:
            return
        padded = -(-header.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if header.type == tarfile.GNUTYPE_LONGNAME and header.size <= _MOST_NAME:
            long_name = stream.read(padded)[: header.size].rstrip(b"\0").decode("utf-8", "surrogateescape")
            continue
        if header.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and header.size <= MOST_OF_FILE:
            data = stream.read(header.size)
            yield long_name or header.name, data, len(data) == header.size
            padded -= header.size
        stream.seek(padded, 1)
        long_name = ""
