"""Knows a dump again that differs from an earlier one in numbers alone.

The ranks of a group issue the same calls, so their recorders write the same bytes around other numbers. One comparison with the dump of
another rank then says which entries repeat others, and the numbers are all there is to read. Example: of 256 data-parallel ranks one dump
is looked at entry by entry, and 255 are compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.parsers.flight_recorder.pickled_entry import Ints, Layout, words_at

LARGEST = 2 << 20
"""Bytes of entries of which an outline is made: it holds them twice."""

MOST = 8
"""Outlines that are remembered. The stages of a pipeline have one each."""

Numbers = tuple[Ints, str, npt.NDArray[Any]]
"""A column of numbers: places of entries in the file, name of the column, values."""


class Outline(Struct, frozen=True):
    """The bytes from the first to the last entry of a dump, with zeros where its numbers stand.

    ``starts`` are the first bytes of the entries, counted from the first; the last entry is not part of the outline. ``fixed`` masks
    what is no number. ``layouts`` are those of the entries, each with the places of its entries; ``like`` says for each entry which one
    it is like.
    """

    starts: Ints
    fixed: npt.NDArray[np.uint8]
    content: npt.NDArray[np.uint8]
    layouts: tuple[tuple[Layout, Ints], ...]
    like: Ints

    def is_of(self, data: bytes, starts: Ints) -> bool:
        """True when a file whose entries begin at ``starts`` has this outline."""
        if len(starts) != len(self.starts) or not np.array_equal(starts - starts[0], self.starts):
            return False
        content = np.frombuffer(data, np.uint8, len(self.content), starts[0])
        return not ((content ^ self.content) & self.fixed).any()

    def numbers(self, data: bytes, starts: Ints) -> Iterator[Numbers]:
        """The numbers of a file that has this outline."""
        for layout, rows in self.layouts:
            length = int(self.starts[rows[0] + 1] - self.starts[rows[0]])
            for name, values in layout.numbers(words_at(data, starts[rows], length)):
                yield rows, name, values


def outline_of(data: bytes, starts: Ints, layouts: Sequence[tuple[Layout, Ints]], like: Ints) -> Outline | None:
    """The outline of a file whose entries but the last have these layouts; None where it is too large."""
    first, last = int(starts[0]), int(starts[-1])
    if last - first > LARGEST:
        return None
    fixed = np.empty(last - first, dtype=np.uint8)
    for layout, rows in layouts:
        mask = layout.fixed_mask.view(np.uint8)[: starts[rows[0] + 1] - starts[rows[0]]]
        for begin in (starts[rows] - first).tolist():
            fixed[begin : begin + len(mask)] = mask
    return Outline(
        starts - first, fixed, np.frombuffer(data, np.uint8, last - first, first) & fixed, tuple(layouts), like
    )
