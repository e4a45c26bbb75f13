"""What one parser finds in a made-up text, by way of the scanner, and the check of its samples."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

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


def show(event: Event, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event that a sample asks for."""
    return {"kind": event.kind} | {name: getattr(event, name, "<no such field>") for name in wanted if name != "kind"}


def check_samples(parser: LineParser) -> None:
    """Every sample of a parser gives exactly the events it promises."""
    assert parser.samples, f"{type(parser).__name__} has no samples"
    for sample in parser.samples:
        found = events_of(parser, sample.text)
        assert len(found) == len(sample.events), f"{sample.text!r}: {found}"
        for event, wanted in zip(found, sample.events, strict=True):
            assert show(event, wanted) == dict(wanted), sample.text
        assert sample.origin, f"{type(parser).__name__}: a sample without origin"
