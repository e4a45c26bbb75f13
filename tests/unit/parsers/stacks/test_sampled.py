"""Samples of py-spy: where a thread stands, and documents of any shape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.events import Note, Stack
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import Parsed
from nccldoctor.parsers.stacks.sampled import SampledStacks

PARSER = SampledStacks()
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def parsed(text: str) -> Parsed:
    return PARSER.parse(Source(0, "rank_1.txt", SourceKind.LOG, len(text)), text.encode())


def test_nearly_all_samples_in_one_function_are_a_place_and_fewer_are_none() -> None:
    rows = "<module> (t.py:9);main (t.py:7);read (data.py:{line}) {count}\n"
    loop = "".join(rows.format(line=line, count=32) for line in (3, 4, 5))
    (stands,) = parsed(f"{loop}<module> (t.py:9);main (t.py:8) 4\n").events
    assert isinstance(stands, Stack)
    assert stands.main
    (moves,) = parsed(f"{loop}<module> (t.py:9);main (t.py:8) 14\n").events
    assert isinstance(moves, Note)


def test_threads_of_other_names_are_no_main_thread() -> None:
    (event,) = parsed("thread (0x7F): pin;<module> (t.py:9);read (data.py:3) 100\n").events
    assert isinstance(event, Note)


def test_a_line_that_is_cut_off_is_passed_over() -> None:
    text = "<module> (t.py:9);main (t.py:7);read (data.py:3) 100\n<module> (t.py:9);main (t"
    assert PARSER.claims(text.encode(), "x")
    assert len(parsed(text).events) == 1


@pytest.mark.parametrize(
    "text",
    ["step 1 loss 2\nstep 2 loss 2\n", "a;b;c 3\na;b 2\n", "x (y.py:1) 4\n", "for (i = 0; i < n; i++) 1\n", "", "{}"],
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not PARSER.claims(text.encode(), "x")


VALUE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.just(10**400) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "file", "line", "samples"]), inner)
    ),
    max_leaves=6,
)
PROFILE = st.fixed_dictionaries(
    {}, optional={"name": VALUE, "samples": VALUE | st.lists(st.lists(st.integers())), "weights": VALUE}
)


@given(VALUE | st.fixed_dictionaries({"frames": VALUE}), VALUE | st.lists(PROFILE, max_size=3))
def test_no_document_breaks_the_reader(shared: object, profiles: object) -> None:
    text = json.dumps({"$schema": SCHEMA, "shared": shared, "profiles": profiles})
    assert PARSER.claims(text.encode(), "x")
    parsed(text)
    parsed(text[:-3])
