"""Every sample of every parser is recognised by its parser, and no other parser finds the same kind of event in it.

A sample without events is one that its parser must leave alone.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest

from nccldoctor.events import KINDS, Event
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers import shelf
from nccldoctor.parsers.base import FileParser, LineParser, Sample
from nccldoctor.parsers.engine.scan import scan

SAMPLES = [(p, i, s) for p in shelf.line_parsers() for i, s in enumerate(p.samples)]


def read(text: str, parsers: list[LineParser]) -> tuple[Event, ...]:
    content = text.encode()
    return scan(Source(0, "sample.log", SourceKind.LOG, len(content)), io.BytesIO(content), parsers).events


def fits(event: Event, wanted: Mapping[str, Any]) -> bool:
    return event.kind == wanted["kind"] and all(getattr(event, k) == v for k, v in wanted.items() if k != "kind")


@pytest.mark.parametrize(
    ("parser", "i", "sample"),
    SAMPLES,
    ids=[f"{type(p).__module__.rpartition('.')[2]}-{type(p).__name__}-{i}" for p, i, _ in SAMPLES],
)
class TestSamples:
    def test_own_parser_finds_every_event(self, parser: LineParser, i: int, sample: Sample) -> None:
        found = [e for p in [parser] for e in read(sample.text, [p])]
        kinds = {e.kind for e in found}
        missing = [w for w in sample.events if w["kind"] in kinds and not any(fits(e, w) for e in found)]
        assert bool(found) == bool(sample.events), f"{type(parser).__name__}, sample {i}: {found}"
        assert not missing, f"{missing} not in {found}"

    def test_all_parsers_together_find_what_the_sample_says_and_no_more_of_its_kinds(
        self, parser: LineParser, i: int, sample: Sample
    ) -> None:
        found = read(sample.text, shelf.line_parsers())
        kinds = {e.kind for e in read(sample.text, [parser])}
        left = list(found)
        for want in sorted(sample.events, key=len, reverse=True):
            hit = next((e for e in left if fits(e, want)), None)
            assert hit is not None, f"{want} not in {left}"
            left.remove(hit)
        for kind in kinds:
            wanted = [w for w in sample.events if w["kind"] == kind]
            got = [e for e in found if e.kind == kind]
            assert len(got) == len(wanted), f"{kind}: wanted {wanted}, found {got}"


FILE_SAMPLES = [(p, i, s) for p in shelf.file_parsers() for i, s in enumerate(p.samples)]


@pytest.mark.parametrize(
    ("parser", "i", "sample"), FILE_SAMPLES, ids=[f"{type(p).__name__}-{i}" for p, i, _ in FILE_SAMPLES]
)
def test_whole_files_are_claimed_by_one_parser_and_say_just_that(parser: FileParser, i: int, sample: Sample) -> None:
    content = sample.text.encode()
    assert [p for p in shelf.file_parsers() if p.claims(content, "document")] == [parser]
    found = parser.parse(Source(0, "document", SourceKind.JSON, len(content)), content).events
    assert len(found) == len(sample.events), f"sample {i}: {found}"
    for event, want in zip(found, sample.events, strict=True):
        assert fits(event, want), f"{want} is not {event}"


def test_every_parser_has_a_sample_and_literals() -> None:
    for parser in shelf.line_parsers():
        assert parser.samples, type(parser).__name__
        assert all(len(x) >= 2 for x in parser.literals), type(parser).__name__
    for file_parser in shelf.file_parsers():
        assert file_parser.samples, type(file_parser).__name__


def test_samples_name_kinds_that_exist() -> None:
    for _, _, sample in SAMPLES:
        for wanted in sample.events:
            assert wanted["kind"] in KINDS
