"""Damaged files of bundled incidents: nothing raises, no guard has to catch anything, and every file is accounted for."""

from __future__ import annotations

import io
from functools import cache

import pytest
from builders.logs.log_reading import parsed
from fuzz.run import case_of, failures
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.cli import demo
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine.scan import scan

CASES, PART = 120, 20


@pytest.mark.costly
@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_no_damage_breaks_anything(first: int) -> None:
    assert [problem for number in range(first, first + PART) for problem in failures(number)] == []


def test_a_case_follows_from_its_number() -> None:
    assert case_of(7) == case_of(7)


@cache
def lines() -> tuple[bytes, ...]:
    """Lines of all bundled incidents, of every kind of log."""
    texts = [
        c for s in demo.samples() for c in demo.contents(s.name).values() if b"\0" not in c[:512] and c[:1] != b"\x80"
    ]
    return tuple(dict.fromkeys(line for text in texts for line in text.split(b"\n")[:400] if line.strip()))


LOGS = st.lists(st.integers(0, 1 << 30).map(lambda n: lines()[n % len(lines())]), min_size=1, max_size=40)


class Dripping(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(7 if size is None or size < 0 else min(7, size))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(LOGS)
def test_the_size_of_reads_changes_nothing(log: list[bytes]) -> None:
    data = b"\n".join(log)
    source = Source(0, "job.log", SourceKind.LOG, len(data))
    assert scan(source, Dripping(data)) == scan(source, io.BytesIO(data))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(LOGS, st.integers(0, 1 << 30))
def test_a_line_that_stands_twice_invents_no_rank(log: list[bytes], pick: int) -> None:
    at = pick % len(log)
    once, twice = (parsed(b"\n".join(rows)) for rows in (log, [*log[: at + 1], *log[at:]]))
    assert {event.rank for event in twice.events} <= {event.rank for event in once.events}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.binary(max_size=300), LOGS)
def test_no_bytes_between_lines_break_a_parser(junk: bytes, log: list[bytes]) -> None:
    middle = len(log) // 2
    answer = parsed(b"\n".join([*log[:middle], junk, *log[middle:]]))
    assert not [gap for gap in answer.gaps if "failed" in gap.why]
