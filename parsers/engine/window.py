"""The part of a log that is in memory: physical lines and records around a position, and their neighbours."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import sub
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from nccldoctor.model import Place, Source
from nccldoctor.parsers.base import Line, Mark
from nccldoctor.parsers.line_prefix.prefixes import SEPARATOR, can_continue, mark_inside, records, without_codes
from nccldoctor.patterns import lazy

REACH = 64 << 10
"""How far from a hit a line, or its neighbours, may lie; in bytes."""

_REDRAWN = 4  # carriage returns in one line beyond which it is a progress bar
_LONG = 16 << 10  # bytes from which arrays count line ends faster than ``bytearray.count``


class Located(Line, frozen=True, kw_only=True):
    """A line with its place in the buffer: ``[at, end)``; ``record`` is its index among the records in it."""

    at: int
    end: int
    record: int


_BAR = lazy(
    r"[^|\n]{0,120}\d%\|[^|\n]{0,240}\| [^\]\n]{1,80}(?:it|B|s)/s[^\]\n]{0,60}\](?=\s?\S)(?![^|\n]{0,120}\d%\|)"
)
"""A progress bar without a line end, which the line of another writer follows: ``40%|████      | 4/10 [00:01<00:02,  2.9it/s]0: error``."""

LABELLED = lazy(rb"\[[A-Za-z_]{1,40}\d{1,7}\]:")
"""What names a writer at the beginning of a line: ``[rank3]:``, ``[default3]:``."""

_HIDING = lazy(rb"[^\x01-\x1a\x1c-\x7f]")
"""What may stand for a number, or inside one, that is then not seen in the bytes: other digits, colours."""


def _first_hiding(data: bytes | bytearray, low: int, high: int) -> int:
    """Where something that may hide a number stands first in ``[low, high)``; -1 for nowhere, as in most text."""
    part = data[low:high]
    if part.isascii() and 0x1B not in part and 0x00 not in part:
        return -1
    hit = _HIDING.search(data, low, high)
    return hit.start() if hit else -1


class _Sign(Struct, frozen=True):
    """What every line of a writer holds: a number without zeros in front, behind a word in any case."""

    digits: bytes
    word: bytes

    def first_in(self, data: bytes | bytearray, low: int, high: int) -> int:
        """Where the number stands first in ``[low, high)``, not as a part of another; -1 for nowhere."""
        at = data.find(self.digits, low, high)
        while at >= 0:
            end = at + len(self.digits)
            if (end >= high or data[end] not in _DIGITS) and self._is_behind_word(data, at):
                return at
            at = data.find(self.digits, at + 1, high)
        return -1

    def _is_behind_word(self, data: bytes | bytearray, at: int) -> bool:
        front = data[max(0, at - _FRONT) : at]
        if front.endswith(b"0"):
            front = front.rstrip(b"0")
        return not front[-1:].isdigit() and self.word in front[-len(self.word) - 2 :].lower()


_DIGITS = b"0123456789"
_FRONT = 16
"""Bytes in front of a number that hold its zeros, its word, and what stands between."""

_OF_RANK = lazy(r"rank(\d+)")
"""The mark of a rank: all layouts of prefixes that name one have the word and at most two characters between it and the number."""


@lru_cache(maxsize=1024)
def _sign(stream: str) -> _Sign | None:
    """The longest number of a mark; None for a mark of several places or without a number."""
    numbers = [] if SEPARATOR in stream or not stream.isascii() else re.findall(r"\d+", stream)
    if not numbers:
        return None
    digits = (max(numbers, key=len).lstrip("0") or "0").encode()
    return _Sign(digits, b"rank" if _OF_RANK.fullmatch(stream) else b"")


Outer = Callable[[int], Mark]
"""What the record around the line of a number tells of its writer."""


def _split_at_line_ends(text: str) -> list[str]:
    """A message cut at the line ends that it holds where JSON had escaped them."""
    if "\n" not in text and "\r" not in text:
        return [text]
    return [part for part in text.replace("\r", "\n").split("\n") if part] or [""]


class HitLines(NamedTuple):
    """Physical lines with hits, column by column: where each begins, and its bytes without the line end.

    A line that is long, has no end in the block, or redraws itself has an empty piece; ``odd`` gives the hits in it, by its index.
    """

    starts: list[int]
    pieces: list[bytes]
    odd: dict[int, list[int]]


class Buffer:
    """One reused bytearray with a view on it, and the lines in ``[low, high)``; the scanner moves those two."""

    def __init__(self, source: Source, size: int) -> None:
        self.source = source
        self.data = bytearray(size)
        self.low = self.high = 0
        self.read: Callable[[str], list[tuple[Mark, str]]] = records
        self.outer: Outer | None = None
        self.noted: dict[Hashable, Any] = {}
        self._lines: dict[int, tuple[Located, ...]] = {}

    def forget(self) -> None:
        """Drop the lines cut so far: the content has moved."""
        self._lines.clear()
        self.noted.clear()

    def like(self, content: bytes) -> Buffer:
        """Another buffer of the same source that holds just this."""
        other = Buffer(self.source, 0)
        other.data, other.high, other.read, other.outer = bytearray(content), len(content), self.read, self.outer
        return other

    def count_line_ends(self, low: int, high: int) -> int:
        """The number of line ends in ``[low, high)``."""
        if high - low < _LONG:
            return self.data.count(b"\n", low, high)
        return int(np.count_nonzero(np.frombuffer(self.data, np.uint8, high - low, low) == 0x0A))

    def bounds(self, at: int, floor: int) -> tuple[int, int, int]:
        """The physical line around ``at``: start, end, and where the next line begins. At most ``REACH`` / 2 to each
        side and not before ``floor``; a longer line is cut there.
        """
        start = self.data.rfind(b"\n", max(floor, at - REACH // 2), at) + 1 or max(floor, at - REACH // 2)
        limit = min(self.high, at + REACH // 2)
        end = self.data.find(b"\n", at, limit)
        return (start, limit, limit) if end < 0 else (start, end, end + 1)

    def hit_lines(self, hits: Sequence[int], low: int, high: int) -> HitLines:
        """The physical lines in ``[low, high)`` in which these offsets stand, which ascend and count from ``low``."""
        data = self.data
        starts: list[int] = []
        ends: list[int] = []
        pieces: list[bytes] = []
        end = low - 1  # of the line with the last hit
        with memoryview(data) as view:
            for hit in hits:
                at = low + hit
                if at <= end:
                    continue
                if at >= high:
                    break
                start = data.rfind(b"\n", end + 1, at) + 1 or end + 1
                end = data.find(b"\n", at, high)
                end = high if end < 0 else end
                starts.append(start)
                ends.append(end)
                pieces.append(bytes(view[start:end]).removesuffix(b"\r"))
        odd = {}
        for index in self._odd_lines(starts, ends, low, high):
            first, last = bisect_left(hits, starts[index] - low), bisect_left(hits, ends[index] - low)
            odd[index], pieces[index] = [low + hit for hit in hits[first:last]], b""
        return HitLines(starts, pieces, odd)

    def _odd_lines(self, starts: list[int], ends: list[int], low: int, high: int) -> set[int]:
        """The indices of lines that are long, redraw themselves, begin before ``low``, or do not end before ``high``."""
        data = self.data
        odd = {i for i, length in enumerate(map(sub, ends, starts)) if length > REACH // 2}
        if data.find(b"\r", low, high) >= 0:
            odd |= {
                i
                for i, (start, end) in enumerate(zip(starts, ends, strict=True))
                if data.find(b"\r", start, end - 1) >= 0
            }
        if starts[:1] == [low] and low > self.low and data[low - 1] != 0x0A:
            odd.add(0)
        if ends[-1:] == [high] and high < self.high:
            odd.add(len(ends) - 1)
        return odd

    def pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """A physical line cut at carriage returns, as (start, end); what is empty between them is left out."""
        out = []
        while start < end:
            stop = self.data.find(b"\r", start, end)
            stop = end if stop < 0 else stop
            if stop > start:
                out.append((start, stop))
            start = stop + 1
        return out

    def lines(self, start: int, end: int, number: int) -> tuple[Located, ...]:
        """The records in ``[start, end)``, a physical line with this ``number`` or a piece of it."""
        known = self._lines.get(start)
        if known is not None:
            return known
        if len(self._lines) > 20_000:  # some 20 MB, enough for the densest 4 MB that matter
            self._lines.clear()
        raw = without_codes(self.data[start:end].decode("utf-8", "backslashreplace"))
        bar = _BAR.match(raw) if "/s" in raw[:400] else None
        parts = (raw[: bar.end()], raw[bar.end() :]) if bar else (raw,)
        place = Place(self.source.id, self.source.path, line=number)
        read = chain.from_iterable(map(self.read, parts))
        found = [(mark, body) for mark, text in read for body in _split_at_line_ends(text)]
        if self.outer is not None:
            around = self.outer(number)
            found = [(mark_inside(around, mark), body) for mark, body in found]
        out = tuple(
            Located(place=place, raw=raw, body=body, mark=mark, window=self, at=start, end=end, record=i)
            for i, (mark, body) in enumerate(found)
        )
        self._lines[start] = out
        return out

    def near(self, line: Line, limit: int) -> Iterator[Line]:
        """The next ``limit`` lines, whoever wrote them."""
        if not isinstance(line, Located):
            return iter(())
        behind = (found for piece in self._pieces_behind(line) for found in self.lines(*piece))
        return islice(chain(self._records_behind(line), behind), limit)

    def near_of(self, stream: str, line: Line, limit: int) -> Iterator[Line]:
        """Those of the next ``limit`` lines that carry the mark of this writer."""
        if not isinstance(line, Located):
            return
        yield from (found for found in self._records_behind(line) if found.mark.stream == stream)
        sign = self._sign_of(stream)
        pieces = self._pieces_behind(line) if sign is None else self._pieces_with(sign, line, limit)
        for piece in islice(pieces, limit):
            yield from (found for found in self.lines(*piece) if found.mark.stream == stream)

    def after(self, line: Line, limit: int) -> Iterator[Line]:
        """See :meth:`Line.following`. A line without a writer belongs to the writer of the last line that names one."""
        return islice(self._after(line), max(0, limit))

    def _after(self, line: Line) -> Iterator[Line]:
        if not isinstance(line, Located):
            return
        mine, is_mine = line.mark.stream, True
        sign = self._sign_of(mine)
        behind = (
            None if self._is_of_another(sign, start, end) else self.lines(start, end, number)
            for start, end, number in self._pieces_behind(line)
        )
        for found in chain([self._records_behind(line)], behind):
            is_mine = is_mine and found is not None
            for other in found or ():
                if other.mark.stream:
                    is_mine = can_continue(other.mark.stream, mine)
                if is_mine if mine else not other.mark.stream:
                    yield other

    def _records_behind(self, line: Located) -> list[Located]:
        """The records that stand behind one in its own line."""
        return [x for x in self.lines(line.at, line.end, line.place.line or 0) if x.record > line.record]

    def _pieces_behind(self, line: Located) -> Iterator[tuple[int, int, int]]:
        """Start and end of what is visible of each line behind one, with its number."""
        number, at, edge = line.place.line or 0, line.end, min(self.high, line.at + REACH)
        while at < edge:
            at += self.data[at : at + 2] == b"\r\n"
            if self.data[at] == 0x0A:
                number += 1
                at += 1
                if at >= edge:
                    return
            _, end, _ = self.bounds(at, at)
            for start, stop in self._visible_pieces(at, end):
                yield start, stop, number
            at = end

    def _pieces_with(self, sign: _Sign, line: Located, limit: int) -> Iterator[tuple[int, int, int]]:
        """The same of those among the next ``limit`` lines that hold a sign, or what may hide it."""
        data, number, at, edge = self.data, line.place.line or 0, line.end, min(self.high, line.at + REACH)
        last = number + limit
        while True:
            found = sign.first_in(data, at, edge)
            hidden = _first_hiding(data, at, found if found >= 0 else edge)
            found = hidden if hidden >= 0 else found
            if found < 0:
                return
            begin, end, _ = self.bounds(found, at)
            number += data.count(b"\n", at, begin)
            if number > last:
                return
            for start, stop in self._visible_pieces(begin, end):
                yield start, stop, number
            at = end

    def _sign_of(self, stream: str) -> _Sign | None:
        """What every line of a writer holds: the longest number of its mark; None where that is not sure."""
        return _sign(stream) if self.outer is None else None

    def _is_of_another(self, sign: _Sign | None, start: int, end: int) -> bool:
        """True of a line with the label of another writer; it is seen without decoding it."""
        if sign is None or LABELLED.match(self.data, start, end) is None:
            return False
        return sign.first_in(self.data, start, end) < 0 and _first_hiding(self.data, start, end) < 0

    def _visible_pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """The pieces of a line that its neighbours see: of a progress bar that redraws itself only the last state."""
        cuts = self.pieces(start, end) or [(start, end)]
        return cuts[-1:] if len(cuts) > _REDRAWN else cuts

    def has_text(self, line: Line, text: str, within: int) -> bool:
        """True when ``text`` occurs in the rest of the line or the ``within`` bytes behind it."""
        return (
            isinstance(line, Located) and self.data.find(text.encode(), line.at, min(self.high, line.end + within)) >= 0
        )

    def before(self, line: Line, limit: int) -> Iterator[Line]:
        """See :meth:`Line.preceding`. Behind a line without a writer stands the last one that names its own."""
        if not isinstance(line, Located):
            return
        mine = line.mark.stream
        number = line.place.line or 0
        sign = self._sign_of(mine)
        earlier = [x for x in self.lines(line.at, line.end, number) if x.record < line.record]
        at, edge = line.at, max(self.low, line.at - REACH)
        while True:
            for found in reversed(earlier):
                mine = mine or found.mark.stream
                if can_continue(found.mark.stream, mine):
                    yield found
                    limit -= 1
                    if limit <= 0:
                        return
            if at <= edge:
                return
            stop = at - 1  # the separator in front of what was shown last
            number -= self.data[stop] == 0x0A
            start = self.data.rfind(b"\n", edge, stop) + 1 or edge
            cuts = self._visible_pieces(start, stop)
            earlier = [x for a, b in cuts if not self._is_of_another(sign, a, b) for x in self.lines(a, b, number)]
            at = start
