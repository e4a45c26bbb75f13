"""Chooses the lines of each text that a part keeps, so that a report can quote them without the file.

These are the last lines, the surroundings of events, the newest first, and of a short text the rest of it. Settings and notes
keep the surroundings alone: nothing else of them is quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from nccldoctor.discover.discover import Input
from nccldoctor.ingest.excerpts import lines_of_input
from nccldoctor.model.inputs import SourceRole
from nccldoctor.parsers.base import Parsed
from nccldoctor.parts.container import read_document
from nccldoctor.parts.masked_values import Lines

SHORT = 2000
"""Lines of a text that is kept whole."""

ABOVE, BELOW = 5, 2
"""Lines kept before an event, and behind it."""

LAST = 60
"""Lines kept at the end of a text."""

MOST_CHARACTERS = 256_000
"""Characters kept of one text."""


class _KeptLines(Struct, frozen=True, forbid_unknown_fields=True):
    lines: tuple[tuple[tuple[Annotated[int, Meta(ge=1)], str], ...], ...]


def kept_lines(one: Input, parsed: Parsed) -> Lines:
    """The lines of a text to keep, as they stand in the file."""
    if not parsed.lines:
        return ()
    numbers = _numbers_to_keep(parsed)
    found = lines_of_input(one, numbers)
    out: list[tuple[int, str]] = []
    left = MOST_CHARACTERS
    for number in numbers:
        text = found.get(number, "")
        left -= len(text)
        if left < 0:
            break
        if number in found:
            out.append((number, text))
    return tuple(sorted(out))


def _numbers_to_keep(parsed: Parsed) -> list[int]:
    """The numbers of the lines to keep, those first that matter most."""
    is_output = parsed.source.kind.role is SourceRole.OUTPUT
    total = parsed.lines
    wanted = dict.fromkeys(range(total, max(total - LAST, 0) if is_output else total, -1))
    for event in reversed(parsed.events):
        if len(wanted) >= SHORT:
            break
        if event.place.line is not None:
            wanted |= dict.fromkeys(range(max(event.place.line - ABOVE, 1), event.place.line + BELOW + 1))
    if is_output and total <= SHORT:
        wanted |= dict.fromkeys(range(total, 0, -1))
    return list(wanted)


def pack_lines(kept: Sequence[Lines]) -> bytes:
    """The lines of some texts as bytes."""
    return msgspec.json.encode(_KeptLines(tuple(kept)))


def unpack_lines(data: bytes) -> tuple[Lines, ...]:
    """The lines of some texts. Raises :class:`~nccldoctor.parts.container.PartError` where they are damaged."""
    return read_document(_KeptLines, data).lines
