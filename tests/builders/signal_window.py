"""What one parser finds in a made-up text, by way of the scanner."""

from __future__ import annotations

import io

from nccldoctor.events import Event
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.engine.scan import scan


def events_of(parser: LineParser, text: str, path: str = "job.log") -> list[Event]:
    """All events of one parser, in the order of the text."""
    content = text.encode("utf-8", "surrogateescape")
    parsed = scan(Source(0, path, SourceKind.LOG, len(content)), io.BytesIO(content), [parser])
    assert parsed.gaps == (), parsed.gaps  # a parser that raised would leave one
    return list(parsed.events)
