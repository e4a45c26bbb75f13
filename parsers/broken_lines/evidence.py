"""Finds where the lines of a file may have been broken, by their bytes alone.

A line is suspect when it begins unlike the other lines of its file, and either starts as no record does (in a word, a number, a
list) or stands below a line that stops too early (an open bracket, ``SeqNum=``, the full width of a terminal). Only around suspect
lines pieces are joined on trial, so that a file that nobody wrapped or cut, as most are, costs one pass over its line ends.

Example: ``ective operation timeout: WorkNCCL(SeqNum=3612,`` is suspect, ``step 12: loss 2.3`` among hundreds like it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nccldoctor.parsers.broken_lines.physical_lines import LABEL_OF_PIECE, STUB, Lines, is_record_head
from nccldoctor.patterns import lazy

ABOVE, BELOW = 4, 8
"""Lines around a suspect one that may belong to its record."""

MOST_LINES = 500_000
"""Lines of a file that are compared; a file with more is read as it is."""

_KEY = 8  # bytes by which beginnings are compared, digits alike
_RARE, _SHARE = 3, 100  # a beginning is rare when so many lines have it, or one line in a hundred
_AT_EDGE, _NARROW, _WIDE = 3, 40, 250  # lines of exactly the largest width, and widths that terminals have
_IN_PREFIX = 60  # characters of a prefix of a logger that was cut
_ASKED = 64  # lines by which it is judged that pieces carry labels
_SEARCHED_WHOLE = 4  # a fourth of the file to be searched: then all of it, in one go

_FOLDED = np.arange(256, dtype=np.uint8)
_FOLDED[ord("0") : ord("9") + 1] = ord("0")
_INSIDE = np.zeros(256, bool)
"""First bytes of a line that no record begins with: small letters, digits, blanks, closing marks."""
_INSIDE[list(rb"abcdefghijklmnopqrstuvwxyz0123456789 ,.:;)]}=_-'%+")] = True
_UNFINISHED = b" ,:=([{-_/&+"
"""Last bytes of a line that goes on."""

_HEADS = lazy(rb"ProcessGroup|NCCL WARN|NET/IB|\]:\[[EF]")
"""What records begin with that may have lost the words a parser looks for."""

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
        self._content = lines.content
        self._starts = lines.starts
        self._stops: npt.NDArray[np.int64] = np.append(lines.starts[1:] - 1, len(lines.content))
        self._bodies = self._starts + self._label_lengths()

    def interesting_lines(self) -> list[int]:
        """The lines around suspect ones that hold words which parsers look for, or begin as records do, in order."""
        unlike = self._unlike_others()
        if not len(unlike):
            return []
        hits = self._hit_lines(unlike)
        if not len(hits):
            return []
        near = np.searchsorted(hits, unlike - ABOVE) < np.searchsorted(hits, unlike + BELOW, side="right")
        relevant = set(hits.tolist())
        around: set[int] = set()
        for number in unlike[near].tolist():
            if self._is_suspect(number, number in relevant):
                around.update(range(number - ABOVE, number + 1), self._rest_of(number))
        return sorted(relevant & around)

    def _unlike_others(self) -> npt.NDArray[np.int64]:
        """The lines that begin as few others do or stand below a full one; all where an editor broke them."""
        full = np.flatnonzero(self._stops > self._bodies)
        if len(full) < 2:
            return full[:0]
        if self._lines.was_broken_at_blanks:
            return full
        odd = _how_often(self._beginnings(full)) <= max(_RARE, len(full) // _SHARE)
        if self._edge is not None:
            odd[1:] |= self._widths[full[:-1]] == self._edge
        odd[0] = False  # nothing stands above it
        return full[odd]

    def _beginnings(self, full: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """The first bytes of these lines as one number each, digits alike."""
        begin = self._bodies[full]
        every = np.ndarray((len(self._content) + 1, _KEY), np.uint8, self._content + bytes(_KEY), strides=(1, 1))
        folded = _FOLDED[every[begin]]
        folded[np.arange(_KEY) >= (self._stops[full] - begin)[:, None]] = 0
        keys: npt.NDArray[np.uint64] = folded.view(np.uint64).ravel()
        return keys

    @cached_property
    def _widths(self) -> npt.NDArray[np.int64]:
        """Columns of each line behind its label."""
        widths: npt.NDArray[np.int64] = self._stops - self._bodies
        if not self._content.isascii():
            data = np.frombuffer(self._content, np.uint8)
            following = np.flatnonzero((data & 0xC0) == 0x80)
            widths -= np.searchsorted(following, self._stops) - np.searchsorted(following, self._bodies)
        return widths

    @cached_property
    def _edge(self) -> int | None:
        """The width at which a terminal wrapped the lines: several have it, and none is longer."""
        widest = int(self._widths.max())
        if not _NARROW <= widest <= _WIDE:
            return None
        return widest if np.count_nonzero(self._widths == widest) >= _AT_EDGE else None

    def _hit_lines(self, unlike: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The lines around some lines that hold words which parsers look for, or begin as records do."""
        offsets: list[int] = []
        with memoryview(self._content) as view:
            for low, high in self._surroundings(unlike):
                part = view[low:high]
                offsets += [low + at for at in self._words.cut_hits(part)]
                offsets += [low + hit.start() for hit in _HEADS.finditer(part)]
        lines = np.zeros(len(self._starts), bool)
        lines[np.searchsorted(self._starts, offsets, side="right") - 1] = True
        return np.flatnonzero(lines)

    def _surroundings(self, unlike: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Where the lines around some lines begin and end, in bytes; nearly all of the file becomes all of it."""
        low = np.maximum(unlike - ABOVE, 0)
        high = np.minimum(unlike + BELOW, len(self._stops) - 1)
        apart = np.flatnonzero(low[1:] > high[:-1] + 1) + 1
        first, last = low[np.concatenate([[0], apart])], high[np.concatenate([apart - 1, [len(high) - 1]])]
        begin, end = self._starts[first], self._stops[last]
        if int((end - begin).sum()) * _SEARCHED_WHOLE > len(self._content):
            yield 0, len(self._content)
        else:
            yield from zip(begin.tolist(), end.tolist(), strict=True)

    def _is_suspect(self, number: int, is_relevant: bool) -> bool:
        """True when a line may go on with one above; ``is_relevant``: it holds words of parsers."""
        text = self._body(number)
        above = [n for n in range(number - 1, max(-1, number - 1 - ABOVE), -1) if self._stops[n] > self._starts[n]]
        if is_record_head(text):
            return any(_is_cut_in_prefix(self._body(n)) for n in above)
        if _INSIDE[ord(text[0])] or self._lines.was_broken_at_blanks:
            return True
        if is_relevant and text[0].isalpha():
            nearest = next((n for n in above if self._label_of(n) == self._label_of(number)), None)
            if nearest is not None and self._raw(nearest)[-1:].isalpha():
                return True
        return any(self._is_unfinished(n) or self._words.are_cut(self._raw(n), text.encode("latin-1")) for n in above)

    def _is_unfinished(self, number: int) -> bool:
        """True when a line ends in a list, behind an open bracket, or at the full width."""
        raw = self._raw(number)
        if self._bodies[number] >= self._stops[number] or raw[-1] in _UNFINISHED:
            return True
        if self._edge is not None and self._widths[number] == self._edge:
            return True
        return raw.count(b"(") > raw.count(b")") or raw.count(b"[") > raw.count(b"]")

    def _rest_of(self, number: int) -> Iterator[int]:
        """The lines below a suspect one that begin nothing either."""
        for below in range(number + 1, min(number + BELOW, len(self._stops))):
            if self._stops[below] > self._bodies[below] and is_record_head(self._body(below)):
                return
            yield below

    def _raw(self, number: int) -> bytes:
        return self._content[self._starts[number] : self._stops[number]]

    def _label_of(self, number: int) -> bytes:
        return self._content[self._starts[number] : self._bodies[number]]

    def _body(self, number: int) -> str:
        return self._content[self._bodies[number] : self._stops[number]].decode("latin-1")

    def _label_lengths(self) -> npt.NDArray[np.int64]:
        """The bytes in front of each line that a collector or a quotation put there."""
        none = np.zeros(len(self._starts), np.int64)
        if self._lines.quoted:
            none[:] = np.minimum(2, self._stops - self._starts)
            return none
        asked = [self._raw(n) for n in range(min(_ASKED, len(self._starts)))]
        labelled = sum(LABEL_OF_PIECE.match(raw) is not None and _RANK_LABEL.match(raw) is None for raw in asked)
        if labelled * 2 < len(asked):
            return none
        found = (LABEL_OF_PIECE.match(self._raw(n)) for n in range(len(self._starts)))
        return np.fromiter((hit.end() if hit else 0 for hit in found), np.int64, len(self._starts))


def _how_often(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """For each key how many are equal to it."""
    order = np.argsort(keys)
    ends = np.flatnonzero(np.append(keys[order[1:]] != keys[order[:-1]], True))
    counts = np.diff(np.append(-1, ends))
    often = np.empty(len(keys), np.int64)
    often[order] = np.repeat(counts, counts)
    return often


def _is_cut_in_prefix(text: str) -> bool:
    """True when a line ends inside the prefix of a logger: what looks like a beginning then continues it."""
    if not text.strip() or STUB.fullmatch(text) is not None:
        return True
    opened = text.rfind("[")
    return opened > text.rfind("]") and len(text) - opened < _IN_PREFIX
