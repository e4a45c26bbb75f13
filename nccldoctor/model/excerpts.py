"""Lines of the input as they stand in their files: what reports quote."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class SourceLine(Struct, frozen=True):
    """One line of a file: its number, counted from 1, and its text without the line end."""

    number: int
    text: str


class Excerpts(Struct, frozen=True):
    """Lines that were read again, by source id and line number.

    A line is missing where its file could not be opened a second time, or where it lies too deep in a compressed file.
    """

    lines: Mapping[int, Mapping[int, str]] = {}

    def between(self, source: int, first: int, last: int) -> tuple[SourceLine, ...]:
        """The known lines ``first`` to ``last`` of a source, in order."""
        known = self.lines.get(source, {})
        numbers = sorted(number for number in known if max(first, 1) <= number <= last)
        return tuple(SourceLine(number, _piece(known[number], "")) for number in numbers)

    def citing(self, source: int, number: int, quote: str) -> tuple[SourceLine, ...]:
        """One line, as the piece that holds ``quote``; empty where the line is not known."""
        known = self.lines.get(source, {})
        return (SourceLine(number, _piece(known[number], quote)),) if number in known else ()


def _piece(text: str, quote: str) -> str:
    """The piece between carriage returns that holds a quote, else the last, as terminals show it."""
    pieces = [piece for piece in text.split("\r") if piece.strip()]
    if len(pieces) < 2:
        return text.strip("\r")
    start = quote.strip()[:60]
    return next((piece for piece in pieces if start and start in piece), pieces[-1])
