"""Functions by which rows of many families read a group, or a line."""

from __future__ import annotations

import re

from nccldoctor.events import Event
from nccldoctor.parsers.base import Line
from nccldoctor.parsers.exit_codes import signal_named
from nccldoctor.parsers.rows import for_rows


@for_rows
def nothing(line: Line, hit: re.Match[str]) -> tuple[Event, ...]:
    """Of a line that no row further down shall read."""
    return ()


@for_rows
def hexadecimal(text: str) -> int:
    """The number 18 in ``12``."""
    return int(text, 16)


@for_rows
def negative(text: str) -> int:
    """The exit code -9 of signal 9."""
    return -int(text)


@for_rows
def trimmed(text: str) -> str:
    """Without blanks, commas and slashes at both ends."""
    return text.strip(" ,/")


@for_rows
def after_colon(text: str) -> str:
    """With a colon before it."""
    return f": {text}"


@for_rows
def as_it_is(text: str) -> str:
    """With blanks at its ends, which other texts lose."""
    return text[:300]


@for_rows
def dotted(text: str) -> str:
    """The version 2.18.1 in ``2, 18, 1``."""
    return text.replace(" ", "").replace(",", ".")


@for_rows
def long_text(text: str) -> str:
    """As much of a line as an event keeps."""
    return text.strip()[:500]


@for_rows
def signal_name(text: str) -> str:
    """SIGKILL for ``9`` and ``Signals.SIGKILL``; a word that is no signal as it is."""
    return signal_named(text) or text


@for_rows
def without_full_stop(text: str) -> str:
    """The value of a variable at the end of a sentence."""
    return text.strip().removesuffix(".")
