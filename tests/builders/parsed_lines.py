"""The events of one parser in a made-up text, found as the scanner finds them."""

from __future__ import annotations

import io

from nccldoctor.events import Event
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.engine.scan import scan


def events(parser: LineParser, text: str) -> list[Event]:
    """All events of one parser, in the order of the text."""
    content = text.encode("utf-8", "surrogateescape")
    source = Source(0, "made.log", SourceKind.LOG, len(content))
    parsed = scan(source, io.BytesIO(content), [parser])
    assert parsed.gaps == ()  # a parser that raised would leave one
    return list(parsed.events)
