"""Keeps in memory what comes through a pipe, which can be read only once.

Of text that is longer than the limit the end is kept, because it holds what the job did last. Packed data is of use from its
beginning only.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Sequence
from typing import Any, BinaryIO

from nccldoctor.dataclass import dataclass
from nccldoctor.discover.file_types import packing

MOST_TEXT = 256 << 20
MOST_PACKED = 1 << 30
_PIECE = 4 << 20


@dataclass(frozen=True, slots=True)
class Piped:
    """What was kept of a pipe, in pieces; ``problem`` says what was not, "" where nothing is missing."""

    pieces: tuple[bytes, ...]
    problem: str = ""

    @property
    def kept_bytes(self) -> int:
        """All bytes that were kept."""
        return sum(map(len, self.pieces))

    def as_one_file(self) -> BinaryIO:
        """All of it as one file, in which an archive finds its directory."""
        return io.BytesIO(b"".join(self.pieces))

    def as_stream(self) -> PieceStream:
        """All of it from front to back, without a second copy."""
        return PieceStream(self.pieces)


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
        return Piped((data[:most_packed],), f"only its first {most_packed >> 20} MB were read" if cut else "")
    kept = deque([head] if head else [])
    held, dropped = len(head), 0
    while piece := pipe.read(min(_PIECE, most_text)):
        kept.append(piece)
        held += len(piece)
        while held - len(kept[0]) >= most_text:
            dropped += len(kept[0])
            held -= len(kept.popleft())
    if not dropped:
        return Piped(tuple(kept))
    begun = kept[0].find(b"\n") + 1  # the first line lost its beginning
    kept[0] = kept[0][begun:]
    return Piped(
        tuple(kept),
        f"only its last {(held - begun) >> 20} MB were kept: the {(dropped + begun) >> 20} MB before are missing",
    )
