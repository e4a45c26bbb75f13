"""Exceptions raised on top of others: what CPython prints between their tracebacks links them."""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.parsers.base import Line
from nccldoctor.parsers.tracebacks import SEPARATORS, Raised, exception, is_header

_REACH = 400


def chain(header: Line) -> Iterator[Line]:
    """The exceptions on top of which the one of this traceback was raised, and their headers: nearest first."""
    awaiting = "separator"
    for line in header.preceding(_REACH):
        text = line.body.strip()
        if not text:
            continue
        if awaiting == "separator":
            if not any(separator in text for separator in SEPARATORS):
                return
            awaiting = "exception"
        elif is_header(line):
            yield line
            awaiting = "separator"
        elif awaiting == "exception" and exception(text):
            yield line
            awaiting = "header"


def causes(header: Line) -> Iterator[tuple[str, str]]:
    """Type and message of the exceptions on top of which the one of this traceback was raised, nearest first."""
    for line in chain(header):
        if match := exception(line.body.strip()):
            yield match["type"], match["message"] or ""


def next_in_chain(found: Raised) -> Line | None:
    """The header of the traceback that was raised on top of this one."""
    separated = False
    for line in found.line.following(12):
        if is_header(line):
            return line if separated else None
        separated = separated or any(separator in line.body for separator in SEPARATORS)
    return None
