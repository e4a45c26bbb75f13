"""Late again and again: named once it is more than noise, clocks, a single pause, or the design of the job."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
from builders.jobs.cases import START, Log, RecordedRank, Team, case, world
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.align.lateness.call_times import Measure
from nccldoctor.align.lateness.late_ranks import Lateness, measure_lateness
from nccldoctor.align.progress.table import build_progress_table

Late = Callable[[int, int], float]
"""Seconds by which a rank is late in a call: ``late(rank, call)``."""


def measured(
    late: Late, *, size: int = 4, calls: int = 40, step: float = 1.0, clock: Mapping[int, float] | None = None,
    hosts: Mapping[int, str] | None = None, at_once: int = 1, durations: bool = False,
) -> Lateness:  # fmt: skip
    """Lateness in a job whose ranks issue ``at_once`` calls together, one set in each step."""
    recorded = []
    for rank in range(size):
        one = RecordedRank(rank, world(size))
        for n in range(calls):
            issue = n // at_once * step + n % at_once * 0.001
            last = max(late(r, n) for r in range(size))
            host = 0.0 if durations else late(rank, n)
            more = {"duration_ms": 1000 * (last - late(rank, n)) + 2.0} if durations else {}
            when = START + issue + host + (clock or {}).get(rank, 0.0)
            one.call(time_created_ns=int(when * 1e9), **more)
        recorded.append(one)
    logs = [Log(f"{host}/rank_{rank}.log", rank=rank, host=host) for rank, host in (hosts or {}).items()]
    job = case(*recorded, logs=logs)
    return measure_lateness(job, build_progress_table(job))


def noise(seed: int, scale: float) -> Late:
    """Lateness that falls on all ranks alike, with a long tail."""
    rng = random.Random(seed)
    drawn: dict[tuple[int, int], float] = {}
    return lambda rank, call: drawn.setdefault((rank, call), rng.lognormvariate(0, 1) * scale)


def and_late(rank: int, by: float, every: int, other: Late) -> Late:
    return lambda r, call: other(r, call) + (by if r == rank and call % every == 0 else 0.0)


# ---- one late rank


@given(
    st.integers(0, 3),
    st.integers(0, 10**6),
    st.sampled_from((2, 3)),
    st.dictionaries(st.integers(0, 3), st.floats(-100, 100)),
)
@settings(max_examples=25, deadline=None)
def test_one_late_rank_is_named_whatever_the_clocks(rank: int, seed: int, every: int, clock: dict[int, float]) -> None:
    found = measured(and_late(rank, 0.4, every, noise(seed, 0.002)), clock=clock)
    assert found.late_ranks == {rank}, clock
    assert found.late[rank].measure is Measure.ISSUED
    assert found.late[rank].seconds == pytest.approx(0.4, abs=0.05)
    assert 0.1 < found.late[rank].share < 0.3
    assert found.compared == 40


@given(st.dictionaries(st.integers(0, 3), st.floats(-100, 100)))
@settings(max_examples=15, deadline=None)
def test_a_constant_offset_of_a_host_changes_nothing(clock: dict[int, float]) -> None:
    assert not measured(noise(5, 0.002), clock=clock).late


def test_always_as_late_is_seen_on_one_host_and_may_be_a_clock_on_several() -> None:
    always = and_late(2, 0.4, 1, noise(1, 0.002))
    assert measured(always, hosts=dict.fromkeys(range(4), "a")).late_ranks == {2}
    assert measured(always, hosts={0: "a", 1: "a", 2: "b", 3: "b"}).late_ranks == {2}
    assert not measured(always, hosts={0: "a", 1: "b", 2: "c", 3: "d"}).late


def test_the_first_and_the_last_calls_show_the_clock_of_a_rank_that_is_late_in_all_others() -> None:
    def late(rank: int, call: int) -> float:
        return 0.4 * (rank == 2 and 3 < call < 39) + 0.001 * ((rank + call) % 3)

    assert measured(late, clock={2: 7.0}).late_ranks == {2}


def test_a_rank_that_was_early_once_is_not_late_ever_after() -> None:
    def late(rank: int, call: int) -> float:
        return 0.4 * (rank != 2 and call < 3) + 0.001 * ((rank + call) % 3)

    assert not measured(late).late


def test_always_as_late_alone_among_many_may_be_a_clock() -> None:
    found = measured(and_late(2, 0.4, 1, noise(1, 0.0005)), size=16)
    assert found.late_ranks == {2}
    assert found.late[2].may_be_clock
    assert not measured(noise(1, 0.0005), size=16, clock=dict.fromkeys(range(8, 16), 0.4)).late


def test_durations_need_no_clock() -> None:
    always = and_late(2, 0.4, 1, noise(1, 0.002))
    found = measured(always, durations=True, clock={1: 9.0, 3: -9.0})
    assert found.late_ranks == {2}
    assert found.late[2].measure is Measure.DURATION


@pytest.mark.parametrize("size", [2, 3, 16, 64])
def test_a_late_rank_is_named_in_small_and_large_groups(size: int) -> None:
    late = and_late(1, 0.4, 2, noise(2, 0.001))
    assert measured(late, size=size, calls=48).late_ranks == {1}


def test_half_of_the_ranks_late_is_the_design_of_the_job() -> None:
    assert not measured(lambda rank, call: 0.4 * (rank % 2) * (call % 2)).late


# ---- nobody


@given(st.integers(0, 10**6), st.sampled_from((2, 4, 8)), st.sampled_from((0.0001, 0.01, 0.2)))
@settings(max_examples=60, deadline=None)
def test_noise_names_nobody(seed: int, size: int, scale: float) -> None:
    assert not measured(noise(seed, scale), size=size, calls=24).late


@pytest.mark.parametrize("by", [0.0005, 0.004])
def test_less_than_a_hundredth_of_a_second_is_nobodys_fault(by: float) -> None:
    assert not measured(and_late(2, by, 2, noise(3, 0.00001)), step=0.01).late


@pytest.mark.parametrize("rank", [0, 3])
def test_the_progress_bar_of_one_rank_is_nobodys_fault_in_a_toy_job(rank: int) -> None:
    """In each step of 80 ms one rank comes 30 ms later, for it writes what all did."""
    assert not measured(and_late(rank, 0.03, 2, noise(4, 0.0005)), step=0.08).late
    assert measured(and_late(rank, 0.3, 2, noise(4, 0.0005)), step=0.8).late_ranks == {rank}


def test_a_small_share_of_the_time_is_nobodys_fault() -> None:
    assert not measured(and_late(2, 0.2, 2, noise(3, 0.001)), step=10.0).late


@pytest.mark.parametrize("calls", [range(10), range(15, 20), range(37, 40)])
def test_a_single_pause_is_no_straggler(calls: range) -> None:
    assert not measured(lambda rank, call: 5.0 * (rank == 1 and call in calls) + 0.001 * ((rank + call) % 3)).late


def test_calls_issued_without_waiting_count_once() -> None:
    def late(rank: int, call: int) -> float:
        return 0.1 * (rank == 1)

    hosts = dict.fromkeys(range(4), "a")
    assert measured(late, calls=100, at_once=50, hosts=hosts).late == {}, "two steps are too few"
    assert measured(late, calls=150, at_once=50, hosts=hosts).late[1].late_calls == 3, "as few as may be a custom"
    found = measured(late, calls=200, at_once=10, hosts=hosts)
    assert found.late[1].late_calls == 20


def test_without_times_nothing_is_known() -> None:
    job = case(*(RecordedRank(r, world(4)).calls(9, time_created_ns=0) for r in range(4)))
    assert measure_lateness(job, build_progress_table(job)) == Lateness()


# ---- several groups


def tensor_and_data(late_rank: int) -> Lateness:
    """Ranks 0-3 and 4-7 are tensor groups; four pairs across are data groups. One rank is late to its tensor group."""
    tensor = [Team(f"t{n}", f"tp {n}", tuple(range(4 * n, 4 * n + 4))) for n in range(2)]
    data = [Team(f"d{n}", f"dp {n}", (n, n + 4)) for n in range(4)]
    recorded = []
    for rank in range(8):
        one = RecordedRank(rank, world(8), *tensor, *data)
        for n in range(40):
            own = 0.4 if rank == late_rank else 0.001 * ((rank + n) % 3)
            mates = 0.4 if rank // 4 == late_rank // 4 else 0.0
            one.call(team=tensor[rank // 4], time_created_ns=int((START + n + own) * 1e9))
            one.call(team=data[rank % 4], time_created_ns=int((START + n + 0.01 + mates) * 1e9))
        recorded.append(one)
    job = case(*recorded, logs=[Log(f"a/rank_{r}.log", rank=r, host="a") for r in range(8)])
    return measure_lateness(job, build_progress_table(job))


@pytest.mark.parametrize("rank", [1, 6])
def test_who_waits_for_a_late_rank_in_another_group_is_not_late(rank: int) -> None:
    assert tensor_and_data(rank).late_ranks == {rank}
