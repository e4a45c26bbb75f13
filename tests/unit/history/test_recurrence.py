"""The test for what returns beyond chance, over fleets whose truth is known."""

import math
import random

import pytest

from nccldoctor.history.recurrence import LEVEL, Trial, at_least, recurrences

HOSTS = [f"n{number}" for number in range(60)]


def fleet(seed: int, offender: str = "", share: float = 0.0, incidents: int = 60) -> list[Trial]:
    """Incidents of jobs on 12 of the hosts; an offender that takes part is at fault in ``share`` of its jobs beyond chance."""
    rng, out = random.Random(seed), []
    for _ in range(incidents):
        used = rng.sample(HOSTS, 12)
        is_its_fault = offender in used and rng.random() < share
        out.append(Trial(frozenset({offender if is_its_fault else rng.choice(used)}), frozenset(used)))
    return out


def named(trials: list[Trial]) -> list[str]:
    return [one.name for one in recurrences(trials) if one.is_beyond_chance]


def test_fleets_without_an_offender_accuse_a_host_as_rarely_as_promised() -> None:
    accused = sum(bool(named(fleet(seed))) for seed in range(400))

    assert accused / 400 <= LEVEL


def test_an_offender_is_found_and_nobody_else() -> None:
    found = [named(fleet(seed, "n7", 0.6, 100)) for seed in range(100)]

    assert sum("n7" in names for names in found) >= 95
    assert sum(bool(set(names) - {"n7"}) for names in found) <= 5


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_the_chance_is_that_of_the_binomial_distribution_where_all_odds_are_alike(count: int) -> None:
    exact = sum(math.comb(5, k) * 0.2**k * 0.8 ** (5 - k) for k in range(count, 6))

    assert at_least(count, [0.2] * 5) == pytest.approx(exact)


def test_one_incident_accuses_nobody() -> None:
    (only,) = recurrences([Trial(frozenset({"a"}), frozenset("abc"))])

    assert not only.is_beyond_chance
    assert (only.at_fault, only.took_part, only.expected) == (1, 1, pytest.approx(1 / 3))


def test_a_host_that_is_in_every_small_job_needs_more_to_stand_out() -> None:
    small = recurrences([Trial(frozenset({"a"}), frozenset("ab"))] * 4)
    large = recurrences([Trial(frozenset({"a"}), frozenset(HOSTS) | {"a"})] * 4)

    assert not small[0].is_beyond_chance
    assert large[0].is_beyond_chance


def test_more_hosts_are_more_tests() -> None:
    few = [Trial(frozenset({"a"}), frozenset({"a", *HOSTS[:5]}))] * 3
    many = few + [Trial(frozenset({host}), frozenset({host, *HOSTS})) for host in HOSTS]

    assert recurrences(few)[0].chance < next(one for one in recurrences(many) if one.name == "a").chance
