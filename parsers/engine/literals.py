"""One search for the literals of all parsers, and the parsers that own the literals of a line."""

from __future__ import annotations

import functools
import heapq
import math
import tomllib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import ahocorasick_rs

from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.engine.generalised import DIGITS
from nccldoctor.patterns import lazy

_AT_ONCE = 64
"""Needles in one automaton. Up to 64 the library compares vectors; beyond that it walks byte by byte, which is
slower than further passes over a block that is still in the cache (measured with ahocorasick_rs 1.0.3)."""

_SMALL = 4 << 10
"""Bytes of text that one automaton of all literals searches before several have begun."""

_ESCAPE = b"\x1b"
_DIGIT = lazy(rb"\d")

_WINDOW = 6
"""Bytes of a literal that are searched for at least; fewer would be found too often in healthy lines. ``rocess`` begins the
search for a dozen literals, so a new family of lines adds few windows."""


class _Healthy:
    """What lines of healthy jobs hold, whatever their numbers are."""

    def __init__(self) -> None:
        table = tomllib.loads(Path(__file__).with_name("healthy_lines.toml").read_text(encoding="utf-8"))
        kinds = (*table["steps"].values(), *table["starts"].values())
        lines = (*table["fronts"], *(line for lines in kinds for line in lines))
        text = "\n".join(lines).encode().translate(DIGITS)
        self._how_often = [math.log(1 + text.count(byte)) for byte in range(256)]
        self._fours = {text[k : k + 4] for k in range(len(text))}
        self._windows = {text[k : k + _WINDOW] for k in range(len(text))}

    def commonness(self, needle: bytes) -> tuple[bool, int, bool, float]:
        """How common a needle is: the search looks at its first four bytes before it compares the rest."""
        form = needle.translate(DIGITS)
        is_healthy = form[:_WINDOW] in self._windows
        often = sum(map(self._how_often.__getitem__, form[:4]))
        return is_healthy, -len(needle) if is_healthy else 0, form[:4] in self._fours, often


_healthy = functools.cache(_Healthy)


def _rare_end(literal: bytes) -> bytes:
    """The end of a literal that begins in the rarest way."""
    starts = range(max(1, len(literal) - _WINDOW + 1))
    return min((literal[k:] for k in starts), key=_healthy().commonness)


def _shared_windows(literals: Iterable[bytes]) -> tuple[list[bytes], set[bytes]]:
    """A few windows that many literals hold, by greedy set cover, and those literals; each stands for two or more."""
    holders: dict[bytes, set[bytes]] = defaultdict(set)
    for literal in literals:
        for k in range(len(literal) - _WINDOW + 1):
            holders[literal[k : k + _WINDOW]].add(literal)
    ranks = {window: _healthy().commonness(window) for window, held in holders.items() if len(held) > 1}
    heap = [(-len(holders[window]), rank, window) for window, rank in ranks.items() if not (rank[0] or rank[2])]
    heapq.heapify(heap)
    covered: set[bytes] = set()
    chosen = []
    while heap:
        expected, rank, window = heapq.heappop(heap)
        gain = len(holders[window] - covered)
        if gain == -expected:
            chosen.append(window)
            covered |= holders[window]
        elif gain > 1:
            heapq.heappush(heap, (-gain, rank, window))
    return chosen, covered


def _needles(literals: Iterable[bytes]) -> list[bytes]:
    """What the search looks for: each literal holds at least one of them, and none holds another."""
    literals = list(literals)
    windows, covered = _shared_windows(literals)
    return _without_containers([*windows, *(_rare_end(a) for a in literals if a not in covered)])


def _without_containers(parts: Iterable[bytes]) -> list[bytes]:
    """The same without those that hold another, which are found with it; sorted, the short ones first."""
    every = sorted(set(parts), key=lambda part: (len(part) > 3, part))
    search = ahocorasick_rs.BytesAhoCorasick(every)
    return [part for part in every if len(search.find_matches_as_indexes(part, overlapping=True)) == 1]


def _for_automata(needles: list[bytes]) -> Iterator[list[bytes]]:
    """What each automaton searches for, in an order in which neighbours share a bucket.

    The library puts every sixteenth needle into one, and compares where a text fits the first four bytes of these mixed.
    """
    for part in (needles[i : i + _AT_ONCE] for i in range(0, len(needles), _AT_ONCE)):
        in_bucket = -(-len(part) // 16)
        yield [needle for k in range(in_bucket) for needle in part[k::in_bucket]]


class Literals:
    """The literals of some parsers, ready to be searched for. ``longest`` is the length of the longest, in bytes."""

    def __init__(self, parsers: Sequence[LineParser]) -> None:
        owners: dict[bytes, list[int]] = {}
        for i, parser in enumerate(parsers):
            for literal in parser.literals:
                owners.setdefault(literal.encode(), []).append(i)
        self.parsers = tuple(parsers)
        self.longest = max(map(len, owners), default=0)
        self._owners = [frozenset(who) for who in owners.values()]
        self._owners_by_hits: dict[frozenset[int], list[LineParser]] = {}
        self._texts = tuple(owners)
        self._every = ahocorasick_rs.BytesAhoCorasick(list(owners)) if owners else None
        self._search = [
            ahocorasick_rs.BytesAhoCorasick(part, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest)
            for part in _for_automata(_needles(owners))
        ]

    def hits(self, view: memoryview) -> list[int]:
        """The offsets in ``view``, ascending, of bytes that a literal holds.

        Not each hit stands in a literal, and of several that overlap not every one is given: ask :meth:`held_by`
        of the whole line. Every line with a literal is hit, and every line with colour codes that may cut one.
        """
        if len(view) <= _SMALL and self._every is not None and _ESCAPE not in (piece := view.tobytes()):
            return [start for _, start, _ in self._every.find_matches_as_indexes(piece)]
        if len(self._search) == 1:
            return [start for _, start, _ in self._search[0].find_matches_as_indexes(view)]
        return sorted({start for part in self._search for _, start, _ in part.find_matches_as_indexes(view)})

    def hits_by_kind(self, view: memoryview) -> list[tuple[int, int]]:
        """The same as :meth:`hits`, in no order, each with a number for what was found at this offset."""
        return [
            (start, n * _AT_ONCE + kind)
            for n, part in enumerate(self._search)
            for kind, start, _ in part.find_matches_as_indexes(view)
        ]

    def cut_hits(self, view: memoryview) -> list[int]:
        """The offsets in ``view``, ascending, of literals or of what a cut through one leaves: its rare end."""
        return sorted({start for _, start, _ in self._ends.find_matches_as_indexes(view)})

    def are_cut(self, before: bytes, after: bytes) -> bool:
        """True when a literal stands across the border of two texts."""
        border = min(self.longest, len(before))
        both = before[len(before) - border :] + after[: self.longest]
        found = self._every.find_matches_as_indexes(both, overlapping=True) if self._every is not None else ()
        return any(start < border < end for _, start, end in found)

    @functools.cached_property
    def _ends(self) -> ahocorasick_rs.BytesAhoCorasick:
        return ahocorasick_rs.BytesAhoCorasick(_without_containers(map(_rare_end, self._texts)))

    def held_by(self, lines: Sequence[bytes]) -> Held:
        """The literals that stand in some lines, by one search."""
        hits = self._every.find_matches_as_indexes(b"\n".join(lines), overlapping=True) if self._every else ()
        return Held(self, lines, hits)

    def form_owners(self, form: str) -> list[LineParser]:
        """The parsers that own a literal in some line of this form: of those that differ in digits alone."""
        hits = self._forms.find_matches_as_indexes(form.encode(), overlapping=True)
        return self.owners_of([hit for hit, _, _ in hits])

    def is_in_all(self, form: bytes) -> bool:
        """Whether every line of this form holds a literal: one without digits."""
        hits = self._every.find_matches_as_indexes(form, overlapping=True) if self._every else ()
        return any(not _DIGIT.search(self._texts[number]) for number, _, _ in hits)

    @functools.cached_property
    def _forms(self) -> ahocorasick_rs.BytesAhoCorasick:
        return ahocorasick_rs.BytesAhoCorasick([text.translate(DIGITS) for text in self._texts])

    def owners(self, text: str) -> list[LineParser]:
        """The parsers that own a literal in ``text``, in the order they were given."""
        hits = self._every.find_matches_as_indexes(text.encode(), overlapping=True) if self._every else ()
        return self.owners_of([hit for hit, _, _ in hits])

    def owners_of(self, numbers: Sequence[int]) -> list[LineParser]:
        """The parsers that own the literals with these numbers, in the order they were given."""
        if not numbers:
            return []
        found = frozenset(numbers)
        owners = self._owners_by_hits.get(found)
        if owners is None:
            every = frozenset[int]().union(*map(self._owners.__getitem__, found))
            owners = [self.parsers[i] for i in sorted(every)]
            if len(self._owners_by_hits) < 4_096:  # a log has some hundred
                self._owners_by_hits[found] = owners
        return owners


class Held:
    """The literals that stand in some lines, found by one search over all of them."""

    def __init__(self, literals: Literals, lines: Sequence[bytes], hits: Sequence[tuple[int, int, int]]) -> None:
        self._literals = literals
        self._lines = lines
        self._stops = list(accumulate([len(line) + 1 for line in lines]))
        self._hits = hits
        ends = [end for _, _, end in hits]  # in which order the search tells them
        self._firsts = [0, *(bisect_left(ends, stop) for stop in self._stops)]  # of the hits in each line

    def __getitem__(self, index: int) -> bool:
        """Whether the line with this index, as read from the file, can hold a literal; colour codes may cut one."""
        return self._firsts[index] < self._firsts[index + 1] or _ESCAPE in self._lines[index]

    def owners(self, index: int, raw: str, text: str) -> list[LineParser]:
        """The parsers that own a literal in ``text``, the end of a line that is read as ``raw``."""
        line = self._lines[index]
        if not (line.isascii() and len(raw) == len(line) and raw.endswith(text)):
            return self._literals.owners(text)
        first = self._stops[index] - 1 - len(text)
        hits = self._hits[self._firsts[index] : self._firsts[index + 1]]
        return self._literals.owners_of([number for number, start, _ in hits if start >= first])


@functools.lru_cache(maxsize=16)
def literals_of(parsers: tuple[LineParser, ...]) -> Literals:
    """The search for these parsers; built once, it takes milliseconds."""
    return Literals(parsers)
