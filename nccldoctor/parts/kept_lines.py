"""Chooses the lines of each text that a part keeps, so that a report can quote them without the file.

These are the last lines, the surroundings of events, the newest first, and of a short text the rest of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from nccldoctor.discover.discover import Input
from nccldoctor.ingest.excerpts import lines_of_input
from nccldoctor.parsers.base import Parsed
from nccldoctor.parts.container import Strict, read_document
from nccldoctor.parts.masked_values import masked_text
from nccldoctor.words.secrets import MASK

SHORT = 2000
"""Lines of a text that is kept whole."""

ABOVE, BELOW = 5, 2
"""Lines kept before an event, and behind it."""

LAST = 60
"""Lines kept at the end of a text."""

MOST_CHARACTERS = 256_000
"""Characters kept of one text."""

Lines = tuple[tuple[int, str], ...]
"""Numbers of lines, counted from 1, with their text."""


class _KeptLines(Strict):
    lines: tuple[tuple[tuple[Annotated[int, Field(ge=1)], str], ...], ...]


def kept_lines(one: Input, parsed: Parsed) -> Lines:
    """The lines of a text to keep."""
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
    return tuple(_masked_lines(sorted(out)))


def _masked_lines(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines masked; of a private key every line, since one alone looks like any other word."""
    is_key = False
    for number, text in lines:
        is_key = (is_key or "PRIVATE KEY-----" in text) and "-----END" not in text
        yield number, MASK if is_key else masked_text(text)


def _numbers_to_keep(parsed: Parsed) -> list[int]:
    """The numbers of the lines to keep, those first that matter most."""
    total = parsed.lines
    wanted = dict.fromkeys(range(total, max(total - LAST, 0), -1))
    for event in reversed(parsed.events):
        if len(wanted) >= SHORT:
            break
        if event.place.line is not None:
            wanted |= dict.fromkeys(range(max(event.place.line - ABOVE, 1), event.place.line + BELOW + 1))
    if total <= SHORT:
        wanted |= dict.fromkeys(range(total, 0, -1))
    return list(wanted)


def pack_lines(kept: Sequence[Lines]) -> bytes:
    """The lines of some texts as bytes."""
    return _KeptLines(lines=tuple(kept)).model_dump_json().encode()


def unpack_lines(data: bytes) -> tuple[Lines, ...]:
    """The lines of some texts. Raises :class:`~nccldoctor.parts.container.PartError` where they are damaged."""
    return read_document(_KeptLines, data).lines
