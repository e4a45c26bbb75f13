"""Counts parts of records that always come together: where one is missing, so are lines.

A native stack that has ``frame #3`` has ``frame #2``, a row of torchrun's table that names a rank gives its exit code, and ``what():`` of
an error of C++ stands below *terminate called*. ``grep``, a rate
limit or a lost block breaks that. Only counts are compared, so that processes may share a text in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import ahocorasick_rs

from nccldoctor.patterns import lazy

_NATIVE_FRAME = lazy(rb"frame #(\d{1,3}): ")
_PYTHON_FRAME = lazy(rb"#(\d{1,3}) [^\s#]{1,200} from /")
_ROW_OF_RANK = lazy(rb"\brank {0,6}: \d{1,7} \(local_rank: \d{1,5}\)")
_ROW_OF_EXIT = lazy(rb"\bexitcode {0,4}: (?:-?\d{1,10}|<N/A>) \(pid: ")

_WHAT, _TERMINATE = b"  what():  ", b"terminate called "
_FRAME, _FROM, _ROW, _EXIT, *_ = _SIGNS = (b"frame #", b" from /", b"(local_rank: ", b"exitcode", _WHAT, _TERMINATE)


@cache
def _search() -> ahocorasick_rs.BytesAhoCorasick:
    """A search for all signs at the speed of memory, ten times as fast as ``bytearray.find``."""
    return ahocorasick_rs.BytesAhoCorasick(_SIGNS, matchkind=ahocorasick_rs.MatchKind.LeftmostFirst)


_SMALL = 16 << 10
"""Bytes of a text in which a sign is found before that search has begun."""


class RecordParts:
    """The parts of records in one text, counted piece by piece."""

    def __init__(self) -> None:
        self._native, self._python = Counter[int](), Counter[int]()
        self._rows_of_ranks = self._rows_of_exits = self._headless = 0

    def count(self, data: bytearray, start: int, end: int) -> None:
        """Count the parts in ``data[start:end]``, which begins and ends between two lines."""
        signs = _signs_in(data, start, end)
        if _FRAME in signs:
            _count_frames(self._native, (int(hit[1]) for hit in _NATIVE_FRAME.finditer(data, start, end)))
        if _FROM in signs:
            _count_frames(self._python, (int(hit[1]) for hit in _PYTHON_FRAME.finditer(data, start, end)))
        if _ROW in signs or _EXIT in signs:
            self._rows_of_ranks += sum(1 for _ in _ROW_OF_RANK.finditer(data, start, end))
            self._rows_of_exits += sum(1 for _ in _ROW_OF_EXIT.finditer(data, start, end))
        if _WHAT in signs:
            self._headless += data.count(_WHAT, start, end)
        if _TERMINATE in signs:
            self._headless -= data.count(_TERMINATE, start, end)

    @property
    def missing(self) -> str:
        """What is seen to be missing: ``frames of stacks``; "" where every record is whole."""
        if _has_gap(self._native) or _has_gap(self._python):
            return "frames of stacks"
        if self._headless > 0:
            return "heads of errors"
        # one row may lack its exit code, or the reverse: the text may begin or end inside it
        return "rows of torchrun's table" if abs(self._rows_of_ranks - self._rows_of_exits) > 1 else ""


def _signs_in(data: bytearray, start: int, end: int) -> set[bytes]:
    if end - start < _SMALL:
        return {sign for sign in _SIGNS if data.find(sign, start, end) >= 0}
    with memoryview(data) as view, view[start:end] as part:
        return {_SIGNS[number] for number, _, _ in _search().find_matches_as_indexes(part)}


def _count_frames(counts: Counter[int], numbers: Iterable[int]) -> None:
    """Count the numbers of frames. Those before the first *0* end a stack that the text cuts."""
    for number in numbers:
        if counts or number == 0:
            counts[number] += 1


def _has_gap(counts: Counter[int]) -> bool:
    return any(count > counts[number - 1] for number, count in counts.items() if number)
