"""Keeps the lines that look like failures and that no parser understood: they stand against an all-clear.

Example: ``[rank3]: ERROR - fabric agent lost the lease``. Warnings, notes and debug lines of a program are left out: a healthy job prints
many of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.model import Unexplained
from nccldoctor.parsers.base import Line
from nccldoctor.patterns import lazy

LAST_UNEXPLAINED = 4
"""Lines kept of each file: what comes after them has to answer the last one anyway."""

LONGEST = 300

_FAILURE = lazy(
    r"\b(?:\w*error|fatal|abort(?:ed|ing)?|crash(?:ed)?|panic|segfault|segmentation fault|core dumped|killed|fail(?:ed|ure)"
    r"|exception|timed out|unreachable|refused|corrupt(?:ed)?|unrecoverable)\b",
    re.IGNORECASE,
)
_MENDED = lazy(
    r"\b(?:corrected|if|ignor\w+|retry\w*|recovered|attempt \d+ (?:of|/) ?\d+|(?:no|0|without) (?:\w+ )?(?:errors?|failures?))\b",
    re.IGNORECASE,
)


_NO_MESSAGE = lazy(
    r"\s{0,8}(?:$|frame #\d{1,4}: |#\d{1,4} {1,2}(?:0x[0-9a-f]{4,16} in |[\w:~<>]{1,200} \()"
    r"|File \"|The above exception was |During handling of the above exception"
    r"|(?:\([\w.-]{1,60}\) ?)?\[?[\w.-]{1,60}@[\w.-]{1,60}[: ][^\n$#]{0,200}[$#] )"
)
"""A part of a stack or traceback, or a command behind the prompt of a shell: words of failure are parts of names there."""


def is_no_message(line: Line) -> bool:
    """True of a part of a stack or traceback, and of a prompt."""
    return _NO_MESSAGE.match(line.body[:LONGEST]) is not None


def is_failure_like(line: Line) -> bool:
    """True of a line at level error, and of one without a level that says that something failed."""
    if is_no_message(line):
        return False
    if line.mark.severity in ("E", "F"):
        return True
    if line.mark.severity is not None and not (line.mark.severity == "W" and line.mark.is_native):
        return False
    return _FAILURE.search(line.body[:LONGEST]) is not None and _MENDED.search(line.body[:LONGEST]) is None


def can_look_like_failure(line: Line) -> bool:
    """True where :func:`is_failure_like` may be true of this line or of one that differs in its numbers alone."""
    if line.mark.severity is not None and line.mark.severity not in "EF" and not line.mark.is_native:
        return False
    return line.mark.severity in ("E", "F") or _FAILURE.search(line.body[:LONGEST]) is not None


def unexplained(lines: Iterable[Line], events: Iterable[Event]) -> Iterator[Unexplained]:
    """The lines that are not the end of a traceback that was understood."""
    lines = list(lines)
    types = {e.type.rpartition(".")[2] for e in events if isinstance(e, ExceptionRaised)} if lines else set()
    for line in lines:
        text = line.body.strip()
        if text.partition(":")[0].rpartition(".")[2] not in types:
            yield Unexplained(line.place, text[:LONGEST], line.mark.rank)
