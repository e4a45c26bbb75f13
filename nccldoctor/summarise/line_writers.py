"""Tells which lines of a shared file a rank wrote, by the prefix of srun, torchrun or a logger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.model.excerpts import SourceLine
from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.prefixes import read_mark, split_label, without_codes

Key = tuple[str | None, int | None, int | None, str]
"""A label in front of a line, a rank, a local rank and a stream: what the prefixes of one writer have in common."""

NO_PREFIX: Key = (None, None, None, "")


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of some lines of a file.

    ``known`` are lines that are its own for sure. ``alone`` is true where nobody else writes there.
    """

    known: frozenset[int]
    alone: bool

    def own(self, lines: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
        """The lines that it wrote and that say anything."""
        told = [line for line in lines if message(line.text)]
        if self.alone:
            return tuple(told)
        keys = {prefix(line.text) for line in lines if line.number in self.known} - {NO_PREFIX}
        return tuple(line for line in told if line.number in self.known or prefix(line.text) in keys)


def prefix(text: str) -> Key:
    """What the prefixes of a line tell of its writer."""
    label, mark, _ = _parts(text)
    return label, mark.rank, mark.local_rank, mark.stream


def message(text: str) -> str:
    """A line without its prefixes; "" where these are all there is."""
    return _parts(text)[2].strip()


def _parts(text: str) -> tuple[str | None, Mark, str]:
    label, rest = split_label(without_codes(text))
    mark, body = read_mark(rest)
    return label, mark, body
