"""Keeps what comes through a pipe: a short one in memory, the end of a long one on the disk.

A pipe can be read only once. Of text that is longer than the limit the end is kept, because it holds what the job did last. Where no
temporary file can be made, or its disk is full, less is kept, in memory. Packed data is of use from its beginning only.
"""

from __future__ import annotations

import io
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

from msgspec import Struct

from nccldoctor.discover.file_types import packing

MOST_TEXT = 1 << 30
"""Newest bytes of a text that are kept."""
MOST_IN_MEMORY = 256 << 20
"""Newest bytes of a text that are kept where they cannot go to the disk."""
SHORT = 64 << 20
"""Bytes of a text that stay in memory."""
MOST_PACKED = 1 << 30
_PIECE = 4 << 20


class Piped(Struct, frozen=True):
    """What was kept of a pipe; ``problem`` says what was not, "" where nothing is missing.

    ``as_stream`` gives all of it from front to back, ``as_one_file`` as a file in which an archive finds its directory.
    """

    kept_bytes: int
    as_stream: Callable[[], io.RawIOBase]
    as_one_file: Callable[[], BinaryIO]
    problem: str = ""


class PieceStream(io.RawIOBase):
    """Pieces of memory, read one after the other."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__()
        self._left = deque(memoryview(piece) for piece in pieces)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill ``target`` from the next piece."""
        view = memoryview(target).cast("B")
        if not self._left or not len(view):
            return 0
        part = self._left[0][: len(view)]
        view[: len(part)] = part
        self._left[0] = self._left[0][len(part) :]
        if not len(self._left[0]):
            self._left.popleft()
        return len(part)


def keep(pipe: BinaryIO, most_text: int = MOST_TEXT, most_packed: int = MOST_PACKED) -> Piped:
    """Read a pipe to its end, or packed data to its limit, and keep what fits."""
    head = pipe.read(min(_PIECE, most_packed))
    if packing(head):
        data = head + pipe.read(most_packed + 1 - len(head))
        cut = len(data) > most_packed
        return _of_pieces((data[:most_packed],), f"only its first {most_packed >> 20} MB were read" if cut else "")
    text = _NewestText(most_text)
    while head:
        text.take_next(head)
        head = pipe.read(min(_PIECE, most_text))
    return text.kept()


class _NewestText:
    """The newest bytes of a text: in memory while it is short, then in a spool.

    Where the spool fails they are in memory again. ``_dropped`` and ``_held`` count the bytes before ``_pieces`` and in them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces = deque[bytes]()
        self._dropped = self._held = 0
        self._spool: Spool | None = None
        self._may_spool = True

    def take_next(self, piece: bytes) -> None:
        """Take what came next."""
        if self._spool is not None:
            self._spooled((piece,))
            return
        self._keep(piece)
        if self._may_spool and self._held > SHORT:
            self._may_spool = False
            self._move()

    def kept(self) -> Piped:
        """What is kept, from the beginning of a line on."""
        if self._spool is None:
            begun = self._pieces[0].find(b"\n") + 1 if self._dropped else 0
            if begun:
                self._pieces[0] = self._pieces[0][begun:]
            return _of_pieces(tuple(self._pieces), _what_is_missing(self._dropped + begun, self._held - begun))
        begin = self._spool.oldest
        if begin:
            first = io.BufferedReader(SpoolStream(self._spool, begin)).readline(_PIECE)
            begin += len(first) if first.endswith(b"\n") else 0
        stream = partial(SpoolStream, self._spool, begin)
        size = self._spool.written - begin
        return Piped(size, stream, lambda: io.BufferedReader(stream()), _what_is_missing(begin, size))

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held += len(piece)
        while self._held - len(self._pieces[0]) >= min(MOST_IN_MEMORY, self._most):
            self._dropped += len(self._pieces[0])
            self._held -= len(self._pieces.popleft())

    def _move(self) -> None:
        """Move what is in memory to the disk, if that takes it."""
        try:
            self._spool = Spool(self._most)
        except OSError:
            return
        pieces, self._pieces, self._held = tuple(self._pieces), deque(), 0
        self._spooled(pieces)

    def _spooled(self, pieces: Sequence[bytes]) -> None:
        """Put pieces into the spool, or back into memory where its disk is full."""
        for number, piece in enumerate(pieces):
            assert self._spool is not None
            if left := self._spool.write_next(piece):
                spool, self._spool = self._spool, None
                self._dropped = max(spool.oldest, spool.written - MOST_IN_MEMORY)
                stream = SpoolStream(spool, self._dropped)
                for newest in (*iter(partial(stream.read, _PIECE), b""), left, *pieces[number + 1 :]):
                    self._keep(newest)
                return


def _of_pieces(pieces: tuple[bytes, ...], problem: str) -> Piped:
    """What is kept in memory: a stream of it needs no second copy."""
    return Piped(sum(map(len, pieces)), partial(PieceStream, pieces), lambda: io.BytesIO(b"".join(pieces)), problem)


def _what_is_missing(before: int, kept: int) -> str:
    return f"only its last {kept >> 20} MB were kept: the {before >> 20} MB before are missing" if before else ""


class Spool:
    """The newest ``most`` bytes of a stream, in a temporary file. ``written`` counts all bytes that came.

    The file is a ring: new bytes replace the oldest. Its mode is 0600, it has no name, and nothing is left of it in the end.

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
