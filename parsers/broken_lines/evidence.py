"""Finds where the lines of a file may have been broken, by their bytes alone.

A line is suspect when it begins unlike the other lines of its file, and either starts as no record does (in a word, a number, a
list) or stands below a line that stops too early (an open bracket, ``SeqNum=``, the full width of a terminal). Only around suspect
lines pieces are joined on trial, so that a file that nobody wrapped or cut, as most are, costs one pass over its line ends.

Example: ``ective operation timeout: WorkNCCL(SeqNum=3612,`` is suspect, ``step 12: loss 2.3`` among hundreds like it is not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Protocol

from nccldoctor.parsers.broken_lines.physical_lines import LABEL_OF_PIECE, STUB, Lines, is_record_head
from nccldoctor.patterns import lazy

ABOVE, BELOW = 4, 8
"""Lines around a suspect one that may belong to its record."""

MOST_LINES = 500_000
"""Lines of a file that are compared; a file with more is read as it is."""

_KEY = 8  # bytes by which beginnings are compared, digits alike
_RARE, _SHARE = 3, 100  # a beginning is rare when so many lines have it, or one line in a hundred
_AT_EDGE, _NARROW, _WIDE = 3, 40, 250  # lines of exactly the largest width, and widths that terminals have
_ASKED = 64  # lines by which it is judged that pieces carry labels
_SEARCHED_WHOLE = 4  # a fourth of the file to be searched: then all of it, in one go

_REMEMBERED, _LONGEST = 4_096, 512
"""Forms of lines that are remembered, and the bytes of the longest of them."""

_FOLDED = bytes.maketrans(b"123456789", b"000000000")
_INSIDE = b"abcdefghijklmnopqrstuvwxyz0123456789 ,.:;)]}=_-'%+"
"""First bytes of a line that no record begins with: small letters, digits, blanks, closing marks."""
_GOES_ON = bytes(range(0x80, 0xC0))  # bytes that go on with a character of UTF-8

_HEADS = lazy(rb"ProcessGroup|NCCL WARN|NET/IB|\]:\[[EF]")
"""What records begin with that may have lost the words a parser looks for."""

_RULER = lazy(r"\s*([-=*#^~_])\1{2,}\s*$")
_LAYOUT = lazy(
    rf"\s+(?:File \"|(?:\"\w{{1,40}}\"|\w{{1,16}})\s*: |<\w{{1,40}}>$|\d{{1,9}},$)"
    rf"|{_RULER.pattern}|\w{{1,60}}(?:\.\w{{1,60}}){{1,12}}: ?$|\[\d{{1,6}}\]:\s*$"
)
"""A frame, a field of a table, a ruler, an exception without words, the number of a row, JSON: where no line was wrapped."""

_FRAME = lazy(r"\s+File \"")

_RANK_LABEL = lazy(rb"\[rank\d{1,7}\]:")


class Words(Protocol):
    """The words that parsers look for."""

    def cut_hits(self, view: memoryview) -> list[int]:
        """The offsets of words, or of what a cut through one leaves."""

    def are_cut(self, before: bytes, after: bytes) -> bool:
        """True when a word stands across the border of two texts."""


class Evidence:
    """The suspect lines of a file, by its bytes and by the words that parsers look for."""

    def __init__(self, lines: Lines, words: Words) -> None:
        self._lines = lines
        self._words = words
        self._rows = lines.rows
        self._bodies = self._behind_labels()
        self._forms: dict[int, _Form] = {}

    def interesting_lines(self) -> list[int]:
        """The lines around suspect ones that hold words which parsers look for, or begin as records do, in order."""
        suspect = [number for number in self._unlike_others() if self._is_suspect(number)]
        relevant = self._hit_lines(suspect)
        hits = sorted(relevant)
        around: set[int] = set()
        for number in suspect if hits else ():
            if bisect_left(hits, number - ABOVE) < bisect_right(hits, number + BELOW):
                around.update(range(number - ABOVE, number + 1), self._rest_of(number))
        return sorted(relevant & around)

    def _unlike_others(self) -> list[int]:
        """The lines that begin as few others do or stand below a full one; all where an editor broke them."""
        full = [number for number, body in enumerate(self._bodies) if body]
        if len(full) < 2:
            return []
        if self._lines.was_broken_at_blanks:
            return full
        beginnings = b"\n".join([self._bodies[number][:_KEY] for number in full]).translate(_FOLDED).split(b"\n")
        rare, often = max(_RARE, len(full) // _SHARE), Counter(beginnings)
        is_odd = [often[beginning] <= rare for beginning in beginnings]
        if (edge := self._edge) is not None:
            widths = self._widths
            is_odd[1:] = [odd or widths[above] == edge for odd, above in zip(is_odd[1:], full, strict=False)]
        is_odd[0] = False  # nothing stands above it
        return [number for number, odd in zip(full, is_odd, strict=True) if odd]

    @cached_property
    def _widths(self) -> list[int]:
        """Columns of each line behind its label."""
        if self._lines.content.isascii():
            return [len(body) for body in self._bodies]
        return [len(body.translate(None, _GOES_ON)) for body in self._bodies]

    @cached_property
    def _edge(self) -> int | None:
        """The width at which a terminal wrapped the lines: several have it, and none is longer."""
        widest = max(self._widths)
        if not _NARROW <= widest <= _WIDE:
            return None
        return widest if self._widths.count(widest) >= _AT_EDGE else None

    def _hit_lines(self, suspect: Sequence[int]) -> set[int]:
        """The lines around some lines that hold words which parsers look for, or begin as records do."""
        lines: set[int] = set()
        for rows in self._surroundings(suspect):
            part = b"\n".join(self._rows[rows.start : rows.stop])
            offsets = self._hits(part)
            ends = list(accumulate(len(row) + 1 for row in self._rows[rows.start : rows.stop])) if offsets else []
            lines.update(rows.start + bisect_right(ends, offset) for offset in offsets)
        return lines

    def _hits(self, part: bytes) -> list[int]:
        """Where words stand which parsers look for, or what records begin with."""
        return [*self._words.cut_hits(memoryview(part)), *(hit.start() for hit in _HEADS.finditer(part))]

    def _surroundings(self, suspect: Sequence[int]) -> list[range]:
        """The lines around some lines, without gaps; nearly all of the file becomes all of it."""
        parts: list[range] = []
        for number in suspect:
            low, high = max(0, number - ABOVE), min(number + BELOW, len(self._rows) - 1) + 1
            if parts and low <= parts[-1].stop:
                parts[-1] = range(parts[-1].start, high)
            else:
                parts.append(range(low, high))
        size = sum(len(self._rows[number]) + 1 for part in parts for number in part) - len(parts)
        return [range(len(self._rows))] if size * _SEARCHED_WHOLE > len(self._lines.content) else parts

    def _is_suspect(self, number: int) -> bool:
        """True when a line may go on with one above."""
        above = self._above(number)
        # a line of a stack, a traceback or a table begins as it should
        is_layout = not above or self._form(above[0]).is_frame or self._form(number).is_layout
        if is_layout and not self._lines.was_broken_at_blanks:
            return any(map(self._is_full, above))
        if self._form(number).is_record_head:
            return any(self._form(n).is_cut_in_prefix for n in above)
        if self._bodies[number][0] in _INSIDE or self._lines.was_broken_at_blanks:
            return True
        if any(self._is_unfinished(n) or self._words.are_cut(self._rows[n], self._bodies[number]) for n in above):
            return True
        nearest = next((n for n in above if self._label_of(n) == self._label_of(number)), None)
        return nearest is not None and self._is_cut_between_words(nearest, number)

    def _is_cut_between_words(self, above: int, number: int) -> bool:
        """True when a word begins a line that holds words of parsers, and a word ends the line above."""
        ends_in_word = self._rows[above][-1:].isalpha() and not self._form(above).is_layout
        begins_with_word = self._bodies[number][:1].decode("latin-1").isalpha()
        return ends_in_word and begins_with_word and bool(self._hits(self._rows[number]))

    def _above(self, number: int) -> list[int]:
        """The lines above that a line may go on with, the nearest first: nothing goes on across a ruler."""
        above: list[int] = []
        for n in range(number - 1, max(-1, number - 1 - ABOVE), -1):
            if self._rows[n]:
                if self._form(n).is_ruler:
                    break
                above.append(n)
        return above

    def _is_unfinished(self, number: int) -> bool:
        """True when a line ends in a list, behind an open bracket, or at the full width."""
        raw = self._rows[number]
        if not self._bodies[number] or self._is_full(number):
            return True
        below = self._bodies[min(number + 1, len(self._rows) - 1)]
        is_heading = raw[-1:] == b":" and (below.startswith(b"  ") or below[-1:] == b":")
        if self._form(number).is_layout or is_heading:
            return False
        return raw[-1] in b" ,:=([{-_/&+" or raw.count(b"(") > raw.count(b")") or raw.count(b"[") > raw.count(b"]")

    def _is_full(self, number: int) -> bool:
        """True when a line is as wide as the terminal that wrapped this file."""
        return self._edge is not None and self._widths[number] == self._edge

    def _rest_of(self, number: int) -> Iterator[int]:
        """The lines below a suspect one that begin nothing either."""
        for below in range(number + 1, min(number + BELOW, len(self._rows))):
            if self._bodies[below] and self._form(below).is_record_head:
                return
            yield below

    def _label_of(self, number: int) -> bytes:
        return self._rows[number].removesuffix(self._bodies[number])

    def _form(self, number: int) -> _Form:
        """What a line looks like; files of many ranks have lines that differ in numbers alone."""
        known = self._forms.get(number)
        if known is None:
            form = self._bodies[number].translate(_FOLDED)
            known = self._forms[number] = _remembered_form(form) if len(form) <= _LONGEST else _Form(form)
        return known

    def _behind_labels(self) -> list[bytes]:
        """Each line behind what a collector or a quotation put in front of it."""
        rows = self._rows
        if self._lines.quoted:
            return [row[2:] for row in rows]
        asked = rows[:_ASKED]
        labelled = sum(LABEL_OF_PIECE.match(row) is not None and _RANK_LABEL.match(row) is None for row in asked)
        if labelled * 2 < len(asked):
            return rows
        return [row[hit.end() :] if (hit := LABEL_OF_PIECE.match(row)) else row for row in rows]


class _Form:
    """What a line looks like by its form: the line with 0 for each digit, since numbers decide nothing here."""

    def __init__(self, form: bytes) -> None:
        self._text = form.decode("latin-1")

    @cached_property
    def is_ruler(self) -> bool:
        """True of a line that is drawn."""
        return _RULER.match(self._text) is not None

    @cached_property
    def is_frame(self) -> bool:
        """True of a frame of a traceback."""
        return _FRAME.match(self._text) is not None

    @cached_property
    def is_layout(self) -> bool:
        """True where no line was wrapped."""
        return _LAYOUT.match(self._text) is not None

    @cached_property
    def is_record_head(self) -> bool:
        """See :func:`is_record_head`."""
        return is_record_head(self._text)

    @cached_property
    def is_cut_in_prefix(self) -> bool:
        """True when the line ends inside the prefix of a logger: what looks like a beginning then continues it."""
        text = self._text
        if not text.strip() or STUB.fullmatch(text) is not None:
            return True
        opened = text.rfind("[")
        return opened > text.rfind("]") and len(text) - opened < 60


_remembered_form = lru_cache(_REMEMBERED)(_Form)
