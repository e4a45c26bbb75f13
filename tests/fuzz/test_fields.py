"""Odd types in the fields of recorder dumps: a few of the cases of ``python tests/fuzz/fields.py``, and some that once went wrong."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from fuzz.fields import Case, case_of, changed, dumps_of, failures

from nccldoctor.cli import demo


@pytest.mark.costly
@pytest.mark.parametrize("first", range(0, 24, 6))
def test_no_odd_type_breaks_a_file_or_accuses_another_rank(first: int) -> None:
    cases = map(case_of, range(first, first + 6))
    assert [(case.what, problem) for case in cases for problem in failures(case)] == []


@pytest.mark.parametrize(
    ("sample", "name", "path", "value"),
    [
        ("order-inversion", "fr/fr_6", ("entries", 39, "profiling_name"), "\ud800"),
        ("dtype-mismatch", "traces/fr_2", ("entries", 0, "profiling_name"), 2**31),
    ],
)
def test_a_name_that_is_none_is_unknown_and_no_other_operation(
    sample: str, name: str, path: tuple[Any, ...], value: object
) -> None:
    dump = changed(dumps_of(sample)[name], path, value, in_all=sample == "dtype-mismatch")
    files = demo.contents(sample) | {name: pickle.dumps(dump, 2)}
    assert failures(Case(sample, files, False, "")) == []


def test_a_case_follows_from_its_number() -> None:
    assert case_of(7) == case_of(7)
