"""Holds the newest bytes of a long pipe in a temporary file without a name.

Nothing is left of it when the command ends. The file is a ring: new bytes replace the oldest. Its mode is 0600.
"""

from __future__ import annotations

import io
import os
import weakref
from typing import Any


class Spool:
    """The newest ``most`` bytes of a stream, in a temporary file. ``written`` counts all bytes that came.

    Raises :class:`OSError` where no temporary file can be made, or the system cannot read and write at a position.
    """

    def __init__(self, most: int) -> None:
        if not hasattr(os, "preadv"):
            raise OSError("no reads at a position")
        import tempfile  # 3 ms, and most inputs are no pipes

        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed with this object
        weakref.finalize(self, file.close)
        self._file = file
        self.most = most
        self.written = 0

    @property
    def oldest(self) -> int:
        """The position in the stream of the first byte that is still here."""
        return max(0, self.written - self.most)

    def write_next(self, piece: bytes) -> bytes:
        """Write the next piece of the stream. Returns the end of it for which the disk has no room, b"" where there was room."""
        left = memoryview(piece)
        while len(left):
            at = self.written % self.most
            try:
                put = os.pwrite(self._file.fileno(), left[: self.most - at], at)
            except OSError:
                break
            self.written += put
            left = left[put:]
        return bytes(left)

    def read_into(self, target: memoryview, position: int) -> int:
        """Fill ``target`` with the bytes from a position of the stream on. Returns how many there were."""
        at = position % self.most
        view = target[: min(self.written - position, self.most - at)]
        return os.preadv(self._file.fileno(), [view], at) if len(view) else 0


class SpoolStream(io.RawIOBase):
    """What a spool holds from the position ``begin`` of its stream on; several may read the same spool."""

    def __init__(self, spool: Spool, begin: int) -> None:
        super().__init__()
        self._spool, self._begin, self._at = spool, begin, begin

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset from the begin, from here or from the end."""
        start = {os.SEEK_SET: self._begin, os.SEEK_CUR: self._at, os.SEEK_END: self._spool.written}[whence]
        self._at = max(self._begin, start + offset)
        return self._at - self._begin

    def readinto(self, target: Any) -> int:
        """Fill ``target`` with what comes next."""
        got = self._spool.read_into(memoryview(target).cast("B"), self._at) if self._at < self._spool.written else 0
        self._at += got
        return got
