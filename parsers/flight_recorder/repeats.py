"""Finds the entries of a pickled recorder dump that repeat an earlier one in all but their numbers.

A training loop issues the same calls again and again, and a pickler writes equal entries as equal bytes around other numbers. The reader in
the sandbox needs one entry of each sort; the numbers of the others are taken from the bytes here, as columns, by numpy. Example: of 2,000
entries 60 are sorts, and the 1,940 others take their operation, sizes and stack from one of these.

Nothing is unpickled here: bytes are compared. An entry is left out only where the bytes from its first to its last are understood, and so
are those of every entry before it. Whatever is unusual stays in, and where much is unusual the whole file goes to the sandbox.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.parsers.flight_recorder.outlines import MOST, Numbers, Outline, outline_of
from nccldoctor.parsers.flight_recorder.pickled_entry import Ints, Layout, Words, layout_of, words_at
from nccldoctor.patterns import lazy

LARGEST = 16 << 20
"""Bytes of a file that is looked at: its bytes are held three times. A ring of 2,000 entries is 0.4 MB."""

FEWEST = 64
"""Entries from which looking pays."""

SHORTEST = 100
"""Bytes of an entry, below which nothing is won."""

TOO_SHORT = FEWEST * SHORTEST
"""Bytes from the word *entries* to the end of a file that has too few of them."""

MOST_LAYOUTS = 256
"""Layouts of one file, and ten times as many that are remembered."""

_ENTRIES = b"X\x07\x00\x00\x00entries"
_OPENING = lazy(
    rb"(?s)X\x07\x00\x00\x00entries(?:q.|r.{4})?\](?:q.|r.{4})?\((?=\}(?:q.|r.{4})?\(X(?P<width>.)\x00\x00\x00)"
)
_PUT = lazy(rb"(?s)q(?P<short>.)|r(?P<long>.{4})")


class Repeats(Struct, frozen=True):
    """A dump without its repeats.

    ``rest`` is the pickle with one entry of each sort, ``like`` the place in ``rest`` of the entry that each entry of the file is like, and
    ``numbers`` the columns of those numbers that differ: places in the file, name of the column, values.
    """

    rest: bytes
    like: Ints
    numbers: tuple[Numbers, ...]

    @property
    def sorts(self) -> int:
        """The entries in ``rest``."""
        return int(self.like[-1]) + 1

    @property
    def entries(self) -> int:
        """The entries of the file."""
        return len(self.like)


def restored(
    columns: dict[str, npt.NDArray[Any]], rows: Sequence[int], repeats: Sequence[Repeats | None]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of all entries of several dumps.

    The given columns have ``rows`` of each dump; of one that has ``repeats`` these are the entries in ``rest``.
    """
    first_rows = np.cumsum([0, *rows]).tolist()
    like = [
        np.arange(first, first + count) if one is None else one.like + first
        for first, count, one in zip(first_rows, rows, repeats, strict=False)
    ]
    out = {name: column[np.concatenate(like)] for name, column in columns.items()}
    numbers: dict[str, list[tuple[Ints, npt.NDArray[Any]]]] = defaultdict(list)
    first = 0
    for places, one in zip(like, repeats, strict=True):
        if one is not None:
            out["entry"][first : first + len(places)] = np.arange(len(places))
            for within, name, values in one.numbers:
                numbers[name].append((within + first, values))
        first += len(places)
    for name, of_name in numbers.items():
        out[name][np.concatenate([at for at, _ in of_name])] = np.concatenate([values for _, values in of_name])
    return out


class RepeatFinder:
    """Finds repeats in the dumps of one job, and remembers the layouts of entries, which these share.

    A file of at most ``small`` bytes has too few entries to look at: before them stands the same in all dumps of a job.
    """

    def __init__(self) -> None:
        self.small = TOO_SHORT
        self._outlines: list[Outline] = []
        self._layouts: dict[int, list[Layout]] = {}
        self._remembered = 0

    def has_few_entries(self, size: int, end: bytes) -> bool:
        """True where a file of ``size`` bytes, which end in ``end``, has too few entries to look at."""
        begin = end[-TOO_SHORT:].find(_ENTRIES)
        if begin >= 0:
            self.small = max(self.small, size + begin)
        return begin >= 0

    def find_repeats(self, data: bytes) -> Repeats | None:
        """The file without its repeats; None where it is no such file or has few."""
        if data[:2] not in (b"\x80\x02", b"\x80\x03") or len(data) > LARGEST:
            return None
        if len(data) <= self.small or self.has_few_entries(len(data), data) or (begin := data.find(_ENTRIES)) < 0:
            return None
        opening = _OPENING.match(data, begin)
        if opening is None:
            return None
        starts = _starts(data, opening.end(), opening["width"][0])
        if len(starts) < FEWEST:
            return None
        length = int(starts[1] - starts[0])
        first = self._layout(words_at(data, starts[:1], length)[0], length, {})
        return (
            None
            if first is None
            else self._without_repeats(data, starts, first.memo_names(data[starts[0] : starts[1]]))
        )

    def _without_repeats(self, data: bytes, starts: Ints, names: dict[int, str]) -> Repeats | None:
        for outline in self._outlines:
            if outline.is_of(data, starts):
                return _repeats(data, starts, outline.like, outline.numbers(data, starts))
        found = self._look_at_entries(data, starts, names)
        like = None if found is None else found.like_earlier()
        if found is None or like is None or (like == np.arange(len(like))).mean() > 0.6:
            return None
        if len(self._outlines) < MOST and found.is_whole:
            learned = outline_of(data, starts, found.layouts, like)
            self._outlines += [learned] if learned is not None else []
        return _repeats(data, starts, like, found.numbers)

    def _look_at_entries(self, data: bytes, starts: Ints, names: dict[int, str]) -> _Found | None:
        """The entries by their layouts; None where these are too many."""
        found = _Found(len(starts) - 1)  # the last one stays: where it ends is not known
        lengths, layouts = np.diff(starts), 0
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            table = words_at(data, starts[rows], length)
            while True:
                layout = self._layout(table[0], length, names)
                layouts += 1
                if layouts > MOST_LAYOUTS:
                    return None
                if layout is None:
                    break
                same = ((table & layout.frame_mask) == layout.frame).all(axis=1)
                if same.all():
                    found.include(layout, table, rows)
                    break
                found.include(layout, table[same], rows[same])
                table, rows = table[~same], rows[~same]
        return found

    def _layout(self, entry: Words, length: int, names: dict[int, str]) -> Layout | None:
        """The layout of an entry, remembered or new; None where the entry is not understood."""
        known = self._layouts.setdefault(length, [])
        for layout in known:
            if layout.is_of(entry, names):
                return layout
        found = layout_of(entry.tobytes()[:length], names)
        if found is not None and self._remembered < 10 * MOST_LAYOUTS:
            self._remembered += 1
            known.append(found)
        return found


class _Found:
    """What was found of the entries of one file, all but its last."""

    def __init__(self, entries: int) -> None:
        self.like = np.arange(entries + 1)
        self.understood = np.zeros(entries + 1, dtype=bool)
        self.numbers: list[Numbers] = []
        self.layouts: list[tuple[Layout, Ints]] = []
        self.first_put = np.full(entries + 1, -1, dtype=np.int64)
        self.last_put = self.first_put.copy()
        self.in_order = True

    @property
    def is_whole(self) -> bool:
        """True when every entry but the last is understood."""
        return bool(self.understood[:-1].all())

    def include(self, layout: Layout, table: Words, rows: Ints) -> None:
        """Add the entries of one layout: their words as a table, and their places in the file."""
        self.understood[rows] = True
        self.like[rows] = rows[_first_alike(table & layout.alike_mask)]
        self.layouts.append((layout, rows))
        self.numbers.extend((rows, name, values) for name, values in layout.numbers(table))
        if layout.puts.names:
            put = layout.puts.values(table)
            self.in_order &= bool((put[1:] > put[:-1]).all())
            self.first_put[rows], self.last_put[rows] = put[0], put[-1]

    def like_earlier(self) -> Ints | None:
        """For each entry the first one that it is like, or itself; None where that would be unsafe.

        What follows an entry that is not understood is left alone. A memo number that is given out twice could change what another entry
        means: honest writers count upwards.
        """
        whole = int(np.argmin(self.understood))
        self.like[whole:] = np.arange(whole, len(self.like))
        gives = np.flatnonzero(self.first_put >= 0)
        counts_up = bool((self.first_put[gives[1:]] > self.last_put[gives[:-1]]).all())
        if not self.in_order or not counts_up or (len(gives) and whole < len(self.like) - 1):
            return None
        if whole < len(self.like) - 1:
            self.numbers = [(rows[rows < whole], name, values[rows < whole]) for rows, name, values in self.numbers]
        return self.like


def _repeats(data: bytes, starts: Ints, like: Ints, numbers: Iterable[Numbers]) -> Repeats:
    """The file without the entries that are like an earlier one."""
    kept = like == np.arange(len(like))
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).tolist()
    ends = [*starts.tolist(), len(data)]
    parts = [data[ends[first] : ends[after]] for first, after in zip(edges[::2], edges[1::2], strict=True)]
    return Repeats(b"".join((data[: starts[0]], *parts)), (np.cumsum(kept) - 1)[like], tuple(numbers))


def _first_alike(table: Words) -> Ints:
    """For each row the first row that is equal to it, or itself."""
    count = len(table)
    if count == 1:
        return np.zeros(1, dtype=np.int64)
    sums = (table * _factors(table.shape[1])).sum(axis=1)
    order = sums.argsort(kind="stable")
    ordered = sums[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    alike = np.empty(count, dtype=np.int64)
    alike[order] = order[is_first][is_first.cumsum() - 1]
    return np.where((table == table[alike]).all(axis=1), alike, np.arange(count))


@cache
def _factors(count: int) -> npt.NDArray[np.uint64]:
    """Odd numbers without a pattern: two rows whose words times these have one sum are hardly ever different rows."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((mixed ^ (mixed >> np.uint64(27))) | np.uint64(1))


def _starts(data: bytes, first: int, width: int) -> Ints:
    """Where entries begin: at a dict whose first key has the memo number of the first entry's first key.

    Such bytes may also stand inside an entry; then neither part of it has a layout.
    """
    put = _PUT.match(data, data.index(b"X", first) + 5 + width)
    if put is None:
        return np.zeros(0, dtype=np.int64)
    number = int.from_bytes(put["short"] or put["long"], "little")
    key = b"(h" + bytes([number]) if number < 256 else b"(j" + number.to_bytes(4, "little")
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    opening = np.flatnonzero(bytes_[first + 1 : -16] == ord("}")) + first + 1
    code = bytes_[opening + 1]
    at = opening + 1 + 2 * (code == ord("q")) + 5 * (code == ord("r"))
    is_start = np.ones(len(opening), dtype=bool)
    for place, byte in enumerate(key):
        is_start &= bytes_[at + place] == byte
    starts = np.concatenate([[first], opening[is_start]])
    return starts[np.diff(starts, prepend=first - 3) > 2]  # memo number 125 looks like another dict
