"""Reads files that may be compressed, growing or damaged, once from front to back, within limits.

An error while reading ends the stream early and is kept in ``problem``: half a log is worth more than none.
"""

from __future__ import annotations

import io
from typing import Any

from msgspec import Struct

from nccldoctor.discover.compression import unpacked
from nccldoctor.discover.file_types import packing

HEAD = 64 << 10
"""Bytes of a file that decide its kind."""

MOST_OUTPUT = 10 << 30
"""Most decompressed bytes read from one file of the input."""

MOST_FILES = 1 << 16
"""Files and members of archives in all. A small one that says nothing costs 0.3 ms; 16,384 ranks leave fewer."""

FREE_OUTPUT = 256 << 20
"""Decompressed bytes before the ratio counts: repetitive logs have high ratios too."""

MOST_RATIO = 200

PIECE = 64 << 10
"""Bytes read at once: the reader of a zip member drops what one call had unpacked before it met damage."""

REST = ": the rest was not read"


def damaged(error: Exception) -> str:
    """The reason given for a stream that ended with an error."""
    return f"damaged ({type(error).__name__}): what came before it was read"


def is_loss(why: str) -> bool:
    """True when a reason says that input was lost; other inputs are left out on purpose."""
    return why.startswith("damaged (") or why.endswith(REST)


class Budget:
    """The decompressed bytes, and the ``members``, that one file of the input may still give, archives inside it included."""

    def __init__(
        self,
        packed: int,
        members: int = MOST_FILES,
        most: int = MOST_OUTPUT,
        free: int = FREE_OUTPUT,
        ratio: int = MOST_RATIO,
    ) -> None:
        self.left = min(most, max(free, ratio * packed))
        self.why = f"unpacks to more than {self.left >> 20} MB"
        self.members = members

    def has_taken_member(self) -> bool:
        """Take one more member; True where it has room."""
        self.members -= 1
        return self.members >= 0

    def spend(self, count: int) -> None:
        """Subtract ``count`` bytes."""
        self.left -= count


class Stream(io.RawIOBase):
    """A raw stream over another one: at most ``limit`` bytes, and within ``budget`` if given.

    Errors of the inner stream do not escape; they end this one and are told by ``problem``.
    """

    def __init__(self, inner: Any, limit: int | None = None, budget: Budget | None = None, behind: Any = None) -> None:
        super().__init__()
        self.inner = inner
        self.behind = behind
        self.limit = limit
        self.budget = budget
        self.cut = ""

    @property
    def problem(self) -> str:
        """Why reading ended early, here or in the inner stream; "" where it did not."""
        return problem_of(self.inner) or self.cut

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill ``target`` with what can be read."""
        view = memoryview(target).cast("B")[:PIECE]
        view = view if self.limit is None else view[: self.limit]
        if not len(view) or self.cut:
            return 0
        try:
            got = int(self.inner.readinto(view) or 0)
        except Exception as error:  # every decompressor has error types of its own
            self.cut = damaged(error)
            return 0
        if self.limit is not None:
            self.limit -= got
        if self.budget is not None:
            self.budget.spend(got)
            if self.budget.left < 0:
                self.cut = f"{self.budget.why}{REST}"
                return 0
        return got

    def close(self) -> None:
        """Close the inner stream too."""
        if not self.closed:
            super().close()
            for stream in (self.inner, self.behind):  # the decompressors do not close what they read from
                close = getattr(stream, "close", None)
                if close is not None:
                    close()


class Rejoined:
    """A stream with the first bytes, read to see what it is, put back."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self.head = memoryview(head)
        self.rest = rest

    @property
    def problem(self) -> str:
        """The problem of the stream behind."""
        return problem_of(self.rest)

    def readinto(self, target: Any) -> int:
        """The head first, then the rest."""
        view = memoryview(target).cast("B")
        if not len(self.head):
            return int(self.rest.readinto(view) or 0)
        count = min(len(view), len(self.head))
        view[:count] = self.head[:count]
        self.head = self.head[count:]
        return count

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, as decompressors ask for them."""
        data = bytearray(size)
        return bytes(memoryview(data)[: self.readinto(data)])

    def close(self) -> None:
        """Close the stream behind."""
        close = getattr(self.rest, "close", None)
        if close is not None:
            close()


def read_up_to(stream: Any, count: int) -> bytes:
    """The next ``count`` bytes, fewer where the stream ends."""
    data = bytearray(count)
    view = memoryview(data)
    filled = 0
    while filled < count and (got := stream.readinto(view[filled:])):
        filled += got
    return bytes(view[:filled])


def peek(stream: Any) -> tuple[bytes, Rejoined]:
    """The first :data:`HEAD` bytes of a stream, and the stream as if they had not been read."""
    head = read_up_to(stream, HEAD)
    return head, Rejoined(head, stream)


class Opened(Struct, frozen=True):
    """A stream with one layer of compression taken off.

    ``head`` are its first bytes, still to be read from ``stream``; ``compression`` is what was taken off; ``packing``
    what it is then: "zip" or "tar" for an archive, "gz" and so on for something packed twice, else "".
    """

    head: bytes
    stream: Rejoined
    compression: str
    packing: str


def opened(raw: Any, budget: Budget) -> Opened:
    """Look at a stream, and take its compression off."""
    head, stream = peek(raw)
    kind = packing(head)
    if kind in ("", "zip", "tar"):
        return Opened(head, stream, "", kind)
    head, stream = peek(Stream(unpacked(stream, kind), budget=budget, behind=raw))
    return Opened(head, stream, kind, packing(head))


def reader(raw: Any, limit: int | None = None) -> io.BufferedReader:
    """A buffered stream that raises nothing; :func:`problem_of` says why it ended early."""
    return io.BufferedReader(Stream(raw, limit=limit), HEAD)


def problem_of(stream: Any) -> str:
    """Why a stream ended before its end; "" where it did not."""
    return str(getattr(stream, "problem", "") or getattr(getattr(stream, "raw", None), "problem", ""))
