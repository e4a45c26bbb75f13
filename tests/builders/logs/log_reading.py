"""Reads a log in a string with some parsers, as the scanner does."""

from __future__ import annotations

import io
from collections.abc import Sequence

from hypothesis import strategies as st

from nccldoctor.events import Event
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import Line, LineParser, Parsed
from nccldoctor.parsers.engine.scan import scan
from nccldoctor.parsers.registry import line_parsers


def parsed(content: str | bytes, parsers: Sequence[LineParser] | None = None) -> Parsed:
    """The whole answer of the scanner for a log."""
    data = content.encode() if isinstance(content, str) else content
    return scan(Source(0, "job.log", SourceKind.LOG, len(data)), io.BytesIO(data), parsers)


def events(content: str | bytes, kind: str = "", parsers: Sequence[LineParser] | None = None) -> list[Event]:
    """Its events, of one kind where that is given."""
    return [e for e in parsed(content, parsers).events if not kind or e.kind == kind]


def events_of(parser: LineParser, text: str, path: str = "job.log") -> list[Event]:
    """All events of one parser, in the order of the text. A parser that raised fails the test."""
    content = text.encode("utf-8", "surrogateescape")
    answer = scan(Source(0, path, SourceKind.LOG, len(content)), io.BytesIO(content), [parser])
    raised = [
        gap for gap in answer.gaps if not gap.holes
    ]  # lines that are missing in the text are no fault of the parser
    assert not raised, raised
    return list(answer.events)


def parser_named(name: str) -> LineParser:
    """The parser of a section of a table of rows, or of a function, by its name."""
    return next(parser for parser in line_parsers() if type(parser).__name__ == name)


def parsers_of(module: str) -> list[LineParser]:
    """The parsers of a module or a table of rows, such as ``settings.versions``."""
    return [parser for parser in line_parsers() if type(parser).__module__.endswith(f".parsers.{module}")]


def text_around_literals(parsers: Sequence[LineParser], size: int) -> st.SearchStrategy[str]:
    """A literal of one of the parsers, between two arbitrary texts of at most ``size`` characters."""
    literals = st.sampled_from([literal for parser in parsers for literal in parser.literals])
    return st.tuples(st.text(max_size=size), literals, st.text(max_size=size)).map("".join)


class Probe(LineParser):
    """A parser that finds nothing and remembers the lines it was offered."""

    literals = ("PROBE",)

    def __init__(self, *literals: str) -> None:
        self.seen: list[Line] = []
        if literals:
            self.literals = literals  # type: ignore[misc]

    def parse(self, line: Line) -> list[Event]:
        """Remember the line."""
        self.seen.append(line)
        return []


def lines(content: str | bytes, *literals: str) -> list[Line]:
    """The lines with a literal (``PROBE`` unless told), as parsers get to see them."""
    probe = Probe(*literals)
    parsed(content, [probe])
    return probe.seen
