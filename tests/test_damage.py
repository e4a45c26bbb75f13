"""Records survive what collectors do to logs, and nothing is made up (seeds in the names of the tests)."""

from __future__ import annotations

import damage
import pytest
from log_reading import events, parsed

SEEDS = range(5)


@pytest.mark.parametrize("name", damage.DAMAGES)
def test_records_survive(name: str) -> None:
    found = {seed: damage.outcome(name, seed) for seed in SEEDS}
    wanted = sum(one.wanted for one in found.values())
    lost = {seed: one.lost for seed, one in found.items() if one.lost}
    made_up = {seed: one.invented for seed, one in found.items() if one.invented}
    assert wanted > 100
    assert sum(map(len, lost.values())) <= 0.05 * wanted, f"{name}, by seed: {lost}"
    assert sum(map(len, made_up.values())) <= (0.05 if name.startswith("cut") else 0.0) * wanted, f"{name}: {made_up}"


def test_every_damage_does_damage() -> None:
    """A check of the check: without mending, the halves of a cut line would not read as the whole."""
    rng_lines = damage.job(damage.random.Random("one"))
    for name, harm in damage.DAMAGES.items():
        broken = harm(damage.random.Random("one"), rng_lines)
        assert (broken == damage.whole(damage.random.Random("one"), rng_lines)) == (name == "whole")


def test_places_are_those_of_the_file_as_it_is() -> None:
    log = (
        "[default0]:INFO step=1\n[default1]:[rank1]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:1870] [PG ID "
        "0 PG GUID 0 R\n"
        "[default0]:INFO step=2\nank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n"
        "[default2]:[rank2]:[E417 03:28:15.050510987 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0 Rank 2] "
        "ProcessGroupNCCL's "
        "watchdog got stuck for 480 seconds without making progress\n"
    )
    found = events(log, "heartbeat-stuck")
    assert [(e.rank, e.place.line) for e in found] == [(1, 2), (2, 5)]
    assert parsed(log).lines == 5


def test_complete_lines_are_not_glued() -> None:
    """A plain print behind a counter is no part of the number."""
    log = (
        "[rank1]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0 Rank 1]  failure "
        "detected by watchdog "
        "at work sequence id: 5 PG status: last enqueued work: 7, last completed work: 4\n12 files written\n"
    )
    (status,) = events(log, "work-status")
    assert getattr(status, "last_completed") == 4  # noqa: B009
