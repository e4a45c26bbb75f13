"""Tells which lines of a shared file a rank wrote, by the prefix of srun, torchrun or a logger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from nccldoctor.model.excerpts import SourceLine
from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.line_prefix.prefixes import read_mark, split_label, without_codes

Key = tuple[str | None, int | None, int | None, str]
"""A label in front of a line, a rank, a local rank and a stream: what the prefixes of one writer have in common."""

NO_PREFIX: Key = (None, None, None, "")


class Writer(Struct, frozen=True):
    """The writer of some lines of a file.

    ``known`` are lines that are its own for sure, ``foreign`` those of other ranks. ``alone`` is true where nobody else writes there.
    """

    known: frozenset[int]
    alone: bool
    foreign: frozenset[int] = frozenset()

    def own(self, lines: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
        """The lines that it wrote and that say anything.

        The outermost tag of a line tells its writer, unless other ranks share that tag: ``2:`` of srun stands in front of every line of
        task 2, the ``[rank2]:`` behind it only in front of some.
        """
        told = [line for line in lines if message(line.text)]
        if self.alone:
            return self._without_others(told, lines)
        for key in (outer_tag, prefix):
            own = {key(line.text) for line in lines if line.number in self.known} - {NO_PREFIX}
            if not own & {key(line.text) for line in lines if line.number in self.foreign}:
                break
        return tuple(line for line in told if line.number in self.known or key(line.text) in own)

    def _without_others(self, told: Sequence[SourceLine], lines: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
        """The lines without those that a launcher tags as another process, whose lines no parser knows."""
        tags = [_launcher_tag(line.text) for line in lines if line.number in self.known]
        if None in tags:
            return tuple(told)
        return tuple(line for line in told if _launcher_tag(line.text) in (*tags, None))


def _launcher_tag(text: str) -> Key | None:
    """The label of srun or the local rank of torchrun in front of a line; None where it has neither."""
    label, mark, _ = _parts(text)
    return (label, None, mark.local_rank, "") if label is not None or mark.local_rank is not None else None


def outer_tag(text: str) -> Key:
    """The outermost tag in front of a line: that of srun, then of torchrun, then the rank."""
    label, mark, _ = _parts(text)
    if label is not None:
        return label, None, None, ""
    if mark.local_rank is not None:
        return None, None, mark.local_rank, mark.stream
    return None, mark.rank, None, mark.stream


def prefix(text: str) -> Key:
    """What the prefixes of a line tell of its writer."""
    label, mark, _ = _parts(text)
    return label, mark.rank, mark.local_rank, mark.stream


def printed_time_of(text: str) -> datetime | None:
    """The time in front of a line, as it is printed; None where it has none."""
    return _parts(text)[1].time


def message(text: str) -> str:
    """A line without its prefixes; "" where these are all there is."""
    return message_with_indent(text).strip()


def message_with_indent(text: str) -> str:
    """A line without its prefixes, with the white space in front that belongs to the message."""
    return _parts(text)[2]


def _parts(text: str) -> tuple[str | None, Mark, str]:
    label, rest = split_label(without_codes(text))
    mark, body = read_mark(rest)
    return label, mark, body
