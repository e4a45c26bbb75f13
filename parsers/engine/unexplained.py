"""Keeps the lines that look like failures and that no parser understood: they stand against an all-clear.

Example: ``[rank3]: ERROR - fabric agent lost the lease``. Warnings, notes and debug lines of a program are left out: a healthy job prints
many of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import ahocorasick_rs

from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.model import Unexplained
from nccldoctor.parsers.base import Line
from nccldoctor.parsers.engine.window import Buffer
from nccldoctor.parsers.python.tracebacks import is_code_in_traceback
from nccldoctor.patterns import lazy

LAST_KEPT = 4
"""Lines kept of each file: what comes after them has to answer the last one anyway."""

LONGEST = 300


@cache
def _marks() -> tuple[ahocorasick_rs.BytesAhoCorasick, dict[str, lazy[str]]]:
    """A search for literals of which one stands in each marked line, and the patterns by their names."""
    table = tomllib.loads(Path(__file__).with_name("error_marks.toml").read_text(encoding="utf-8"))
    search = ahocorasick_rs.BytesAhoCorasick([literal.encode() for literal in table.pop("literals")])
    return search, {name: lazy("|".join(f"(?:{one})" for one in patterns)) for name, patterns in table.items()}


def _has_sign(text: str, name: str) -> bool:
    return _marks()[1][name].search(text[:LONGEST]) is not None


def is_no_message(line: Line) -> bool:
    """True of a part of a stack or traceback, and of a prompt."""
    return _marks()[1]["no-message"].match(line.body[:LONGEST]) is not None


def is_failure_like(line: Line) -> bool:
    """True of a line at level error, and of one without a level that says that something failed."""
    if is_no_message(line):
        return False
    if line.mark.severity in ("E", "F"):
        return True
    if line.mark.severity is not None and not (line.mark.severity == "W" and line.mark.is_native):
        return False
    return _has_sign(line.body, "failure") and not _has_sign(line.body, "no-failure")


def can_look_like_failure(line: Line) -> bool:
    """True where :func:`is_failure_like` may be true of this line or of one that differs in its numbers alone."""
    if line.mark.severity is not None and line.mark.severity not in "EF" and not line.mark.is_native:
        return False
    return line.mark.severity in ("E", "F") or _has_sign(line.body, "failure")


def unexplained(lines: Iterable[Line], events: Iterable[Event]) -> Iterator[Unexplained]:
    """The lines that are not the end of a traceback that was understood."""
    lines = list(lines)
    types = {e.type.rpartition(".")[2] for e in events if isinstance(e, ExceptionRaised)} if lines else set()
    for line in lines:
        text = line.body.strip()
        if text.partition(":")[0].rpartition(".")[2] not in types:
            yield Unexplained(line.place, text[:LONGEST], line.mark.rank)


MOST_TRIED = 400  # lines of a file that may be marked as errors


def is_marked_error(line: Line) -> bool:
    """True of a line that its program marks as an error, by a level, a name or words."""
    text, severity = line.raw, line.mark.severity
    if is_no_message(line) or is_code_in_traceback(line) or _has_sign(text, "harmless"):
        return False
    if severity is not None and not (severity == "W" and line.mark.is_native):
        return severity in "EF"
    return not _has_sign(text, "other") and (
        _has_sign(text, "marks") or (_has_sign(text, "words") and not _has_sign(text, "mended"))
    )


def first_marked(buffer: Buffer, number: int, last: int) -> Line | None:
    """The first line above line ``last`` that is marked as an error; ``number`` is that of the buffer's first line."""
    data, done, counted, tried = buffer.data, 0, 0, 0
    with memoryview(data) as view:
        hits = [start for _, start, _ in _marks()[0].find_matches_as_indexes(view[: buffer.high])]
    for at in hits:
        if at < done:
            continue
        start, done, _ = buffer.bounds(at, done)
        start, end = max(start, data.rfind(b"\r", start, at) + 1), data.find(b"\r", at, done)
        number, counted, tried = number + buffer.count_line_ends(counted, start), start, tried + 1
        if number >= last or tried > MOST_TRIED:
            break
        if found := next(filter(is_marked_error, buffer.lines(start, end if end >= 0 else done, number)), None):
            return found
    return None
