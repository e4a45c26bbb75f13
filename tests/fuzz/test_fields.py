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
        ("size-mismatch", "dumps/fr_trace_7", ("entries", 0, "profiling_name"), "x"),
        ("died", "dumps/fr_trace_7", ("entries", 0, "profiling_name"), "xyz:merge_tensors"),
    ],
)
def test_a_name_that_is_none_is_unknown_and_no_other_operation(
    sample: str, name: str, path: tuple[Any, ...], value: object
) -> None:
    dump = changed(dumps_of(sample)[name], path, value, in_all=sample != "order-inversion")
    files = demo.contents(sample) | {name: pickle.dumps(dump, 2)}
    assert failures(Case(sample, files, False, "")) == []


@pytest.mark.parametrize(
    ("sample", "name", "path", "value", "in_all"),
    [
        ("size-mismatch", "dumps/fr_trace_6", ("entries", 26, "collective_seq_id"), 1, False),  # back to the first call
        ("device-stalled", "fr/nccl_trace_rank_1", ("entries", 1, "collective_seq_id"), 1, False),  # the one before it
        (
            "order-inversion",
            "fr/fr_2",
            ("entries", 39, "collective_seq_id"),
            34,
            False,
        ),  # the one before it, at the end
        (
            "frozen",
            "flight_recorder/comm_lib_trace_rank_0",
            ("entries", 0, "collective_seq_id"),
            3,
            False,
        ),  # a long way
        ("size-mismatch", "dumps/fr_trace_6", ("entries", 26, "timeout_ms"), 3, True),  # its calls all failed by then
        ("extra-call", "traces/fr_0", ("entries", 12, "output_dtypes"), None, True),
        ("extra-call", "traces/fr_3", ("pg_config", "0", "name"), "9" * 400, False),
        ("device-stalled", "fr/nccl_trace_rank_3", ("pg_config", "0", "ranks"), "[0, 0, 0]", False),
        ("device-stalled", "fr/nccl_trace_rank_3", ("pg_config", "0", "ranks"), "[0, 1, 99999999999]", False),
        ("unmatched-p2p", "fr/comm_lib_trace_rank_2", ("entries", 0, "time_created_ns"), 7, True),
        ("device-stalled", "fr/nccl_trace_rank_0", ("entries", 26, "input_sizes"), None, True),
    ],
)
def test_a_value_that_the_rest_of_its_dump_denies_is_no_evidence(
    sample: str, name: str, path: tuple[Any, ...], value: object, in_all: bool
) -> None:
    dump = changed(dumps_of(sample)[name], path, value, in_all=in_all)
    files = demo.contents(sample) | {name: pickle.dumps(dump, 2)}
    assert failures(Case(sample, files, False, "")) == []


def test_a_case_follows_from_its_number() -> None:
    assert case_of(7) == case_of(7)
