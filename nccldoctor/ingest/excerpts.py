"""Reads single lines of the input again, so that a report can quote them with the lines around them.

The first reading keeps events, not text. A report quotes a dozen places: their files are read a second time up to the last line
that is wanted, at the speed of a search for line ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from nccldoctor.discover.discover import Input
from nccldoctor.model.excerpts import Excerpts
from nccldoctor.parsers.engine.encodings import as_utf8

MOST_FILES = 32
"""Files that are opened a second time."""

DEEPEST = 1 << 30
"""Bytes into a file up to which lines are read again: ten seconds of the slowest decompressor."""

LONGEST = 2000
"""Characters of a line that are kept."""

_BLOCK = 1 << 20


LineReader = Callable[[Mapping[int, Collection[int]]], Excerpts]
"""Gives the wanted lines of each source, by its id, as far as they can be read."""


def read_excerpts(given: Sequence[Input], wanted: Mapping[int, Collection[int]]) -> Excerpts:
    """The wanted lines of each source; a file that cannot be read a second time gives none."""
    inputs = {one.source.id: one for one in given}
    chosen = [source for source, numbers in wanted.items() if numbers and source in inputs][:MOST_FILES]
    chosen.sort(key=lambda source: (inputs[source].lane, inputs[source].turn))  # members of one archive in their order
    return Excerpts({source: lines_of_input(inputs[source], wanted[source]) for source in chosen})


def lines_of_input(one: Input, numbers: Collection[int]) -> dict[int, str]:
    """The lines of an input with these numbers, as far as they can be read."""
    try:
        with one.open() as stream:
            return _wanted_lines(stream, sorted(set(numbers)))
    except OSError:
        return {}


def _wanted_lines(stream: BinaryIO, numbers: list[int]) -> dict[int, str]:
    """Walk through the blocks of a stream and cut out the wanted lines; ``numbers`` are in order."""
    reader = as_utf8(stream)
    found: dict[int, bytes] = {}
    waiting = iter(numbers)
    wanted = next(waiting, None)
    number, read = 1, 0  # of the line at the beginning of the block
    block = bytearray(_BLOCK)
    begun = b""  # the wanted line, as far as earlier blocks hold it
    with memoryview(block) as view:
        while wanted is not None and read < DEEPEST and (got := reader.readinto(view) or 0):
            read += got
            is_end = np.frombuffer(block, np.uint8, got) == 0x0A
            count = int(np.count_nonzero(is_end))
            if wanted > number + count:
                number += count
                continue
            ends = np.flatnonzero(is_end)
            while wanted is not None and wanted <= number + len(ends):
                at = wanted - number  # the line begins behind the line end before it
                start = 0 if at == 0 else int(ends[at - 1]) + 1
                stop = int(ends[at]) if at < len(ends) else got
                begun = (begun if at == 0 else b"") + bytes(view[start : min(stop, start + 4 * LONGEST)])
                if at == len(ends):
                    break  # it goes on in the next block
                found[wanted], begun = begun, b""
                wanted = next(waiting, None)
            number += len(ends)
    if wanted is not None and begun:
        found[wanted] = begun
    texts = {line: raw[: 4 * LONGEST].decode("utf-8", "backslashreplace") for line, raw in found.items()}
    return {line: text.rstrip("\r")[:LONGEST] for line, text in texts.items()}
