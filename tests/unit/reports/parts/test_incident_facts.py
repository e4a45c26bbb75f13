"""The facts of an incident in words."""

from __future__ import annotations

import pytest
from builders.diagnoses import fixtures_diagnoses
from msgspec.structs import replace

from nccldoctor.model import RankState, Role
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import incident_facts, wording


@pytest.mark.parametrize(
    ("hosts", "of_ranks", "told"),
    [
        (("a",), ("a", "a"), "a"),
        (("a",), ("a", None), "a and unknown hosts"),
        (("a", "b"), ("a", "b"), "a and b"),
        (("a", "b"), ("a", None), "a, b and unknown hosts"),
        (("a", "b", "c"), ("a", "b"), "3 hosts"),
        (("a", "b", "c"), ("a", None), "3 known hosts"),
        ((), (None, None), ""),
    ],
)
def test_hosts_are_of_those_ranks_alone_whose_host_is_known(
    hosts: tuple[str, ...], of_ranks: tuple[str | None, ...], told: str
) -> None:
    ranks = tuple(RankState(number, Role.WAITING, host=host) for number, host in enumerate(of_ranks))
    base = fixtures_diagnoses.lagging()
    diagnosis = replace(base, job=replace(base.job, hosts=hosts), ranks=ranks)
    assert incident_facts.hosts_of_job(diagnosis) == told


def test_the_rank_of_the_first_error_is_a_victim_only_where_another_is_at_fault() -> None:
    named = fixtures_diagnoses.lagging()
    nobody = replace(named, findings=(replace(named.verdict, ranks=Ranks()), *named.findings[1:]))
    assert "Rank 4 logged the first error, but it's a victim." in wording.summary(named)
    assert "Rank 4 logged the first error." in wording.summary(nobody)
