"""Which ranks share a host, where not every rank says so."""

from __future__ import annotations

import pytest
from builders.jobs.cases import Log, facts, said

from nccldoctor.align.world.hosts import Hosts, is_usual_block
from nccldoctor.events import CommInit, Event, Heartbeat, ProcessExit, Setting
from nccldoctor.model.ranks import Ranks


def hosts(*logs: Log, world: int = 16, more: str = "") -> Hosts:
    """Of a job of ``world`` ranks; ``more`` is a host of which only an empty log was read."""
    size = Log("env.log", [said(Setting, name="WORLD_SIZE", value=str(world))])
    return facts(logs=[size, *logs, *([Log("kernel.log", host=more)] if more else [])]).hosts


def lives(ranks: str, host: str) -> Log:
    return Log(f"{host}-{ranks}.log", [said(Heartbeat, r, host=host) for r in Ranks.parse(ranks)])


def test_each_rank_says_where_it_runs() -> None:
    found = hosts(lives("0-3", "a"), lives("4-7", "b"), world=8)
    assert (found.name(Ranks(range(4, 8))), found.on("a")) == ("b", Ranks(range(4)))
    assert not found.is_whole(Ranks([4, 5, 6])), "a part of a host is no host"


def test_ranks_without_a_line_are_put_into_the_block_of_their_host() -> None:
    found = hosts(lives("0-2,5-7", "a"), more="b")
    assert found.on("a") == Ranks(range(8))
    assert found.name(Ranks(range(8, 16))) == "b", "the only other host of the input"


def test_two_hosts_of_which_nothing_was_read_have_no_name() -> None:
    found = hosts(lives("0-7", "a"), world=24)
    assert found.is_whole(Ranks(range(8, 16)))
    assert found.name(Ranks(range(8, 16))) is None


def test_a_local_rank_says_where_a_host_begins() -> None:
    exits: list[Event] = [
        said(ProcessExit, r, host="a", local_rank=r - 8, exitcode=-6, reporter="torchrun") for r in (9, 15)
    ]
    assert hosts(Log("agent.log", exits)).on("a") == Ranks(range(8, 16))


@pytest.mark.parametrize(
    "logs",
    [
        [lives("0-4", "a")],  # 16 ranks are no five each
        [lives("0-1", "a")],  # two ranks of a host that may hold more
        [lives("0,2,4,6", "a"), lives("1,3,5,7", "b")],  # dealt out like cards
        [],
    ],
    ids=["uneven", "part", "dealt", "nothing"],
)
def test_hosts_that_are_not_known(logs: list[Log]) -> None:
    found = hosts(*logs)
    assert found.blocks == ()
    assert not found.is_whole(Ranks(range(8, 16)))


def test_the_only_host_runs_all_ranks_where_it_runs_most_of_them() -> None:
    found = hosts(lives("0-3,5-6", "a"), world=8)
    assert (found.around(4), found.around(7)) == ("a", "a")
    assert hosts(lives("0-3,5-6", "a"), world=8, more="b").around(7) == "", "another host is named"


def test_one_log_for_each_host() -> None:
    found = hosts(
        Log("first.log", [said(Heartbeat, r) for r in (0, 1)]),
        Log("other.log", [said(Heartbeat, r) for r in (2, 3)]),
        world=4,
    )
    assert found.is_whole(Ranks([2, 3]))


def test_a_merged_log_and_a_log_of_one_rank_are_no_hosts() -> None:
    merged = Log("all.log", [said(Heartbeat, r) for r in range(4)])
    assert hosts(merged, world=4).blocks == ()
    assert hosts(merged, Log("rank3.log", [said(Heartbeat, 3)]), world=4).blocks == ()


def test_a_pod_and_its_machine_are_one_host() -> None:
    pod = Log("kube.log", [said(Heartbeat, r, host="worker-0") for r in (0, 1)])
    inits = [said(CommInit, r, host="gpu-17", group_rank=r, nranks=4, what="start") for r in (0, 1)]
    found = hosts(pod, Log("nccl.log", inits), lives("2-3", "worker-1"), world=4)
    assert found.on("gpu-17") == found.on("worker-0") == Ranks([0, 1])


def test_blocks_that_one_host_may_hold() -> None:
    assert is_usual_block(Ranks(range(8, 16)))
    assert not is_usual_block(Ranks(range(4, 12)))
    assert not is_usual_block(Ranks(range(6)))
