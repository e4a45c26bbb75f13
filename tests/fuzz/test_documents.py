"""Odd types in the documents of other programs: a few of the cases of ``python tests/fuzz/documents.py``, and some that once went wrong."""

from __future__ import annotations

import json

import pytest
from fuzz.documents import JOBS, Case, case_of, failures, files_of, untouched
from fuzz.fields import changed


@pytest.mark.parametrize("job", JOBS)
def test_no_odd_type_breaks_a_document_or_makes_a_verdict_sure(job: str) -> None:
    cases = [case_of(number, (job,)) for number in range(4)]
    assert [(case.what, problem) for case in cases for problem in failures(case)] == []


@pytest.mark.parametrize(
    ("job", "path", "place"),
    [
        ("docker", "process1.log", ("time",)),
        ("journal", "process1.log", ("__REALTIME_TIMESTAMP",)),
        ("inspector", "inspector/6.log", ("coll_perf", "coll_exec_time_us")),
    ],
)
def test_a_number_beyond_all_floats_is_none(job: str, path: str, place: tuple[str, ...]) -> None:
    first, *rest = files_of(job)[path].decode().split("\n")
    odd = json.dumps(changed(json.loads(first), place, 10**400, in_all=False))
    assert failures(Case(job, {**files_of(job), path: "\n".join((odd, *rest)).encode()}, "")) == []


def test_each_job_says_something_that_can_be_lost() -> None:
    assert {job for job in JOBS if untouched(job).cause == "undetermined"} <= {"inspector"}
