"""Communicators, stores and rendezvous that never came up; and jobs that stalled later."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders.lines import old_watchdog
from builders.verdicts import gave_up, innocent, play, read, step_line

import nccldoctor
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("scenario", ["silent_start", "no_id"])
def test_who_did_not_join_is_named(scenario: str, seed: int) -> None:
    ruling = play(scenario, seed)
    assert ruling.cause == "init", str(ruling)
    assert ruling.ranks == str(ruling.truth["culprit_ranks"][0]), str(ruling)
    assert ruling.verdict["stalled"] is None or ruling.at[1] is None


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_headline_begins_with_who_did_not_start(seed: int) -> None:
    ruling = play("silent_start", seed)
    words = rf"Rank {ruling.ranks} (?:never started|is not seen to start) a communicator of \d+ ranks; \d+ others did"
    assert re.match(words, ruling.verdict["headline"]), str(ruling)


CLIENTS = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {}/{} clients joined.\n"
GONE = (
    "[rank{r}]:[W505 09:35:10.336386705 TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=3, addr=[localhost]:41222, "
    "remote=[localhost]:29500): Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?\n"
)
REFUSED = (
    "[rank{r}]: torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
    "(node0, 29500).\n"
)


def store_log(joined: str, others: str) -> str:
    """The store of rank 0 counted ``joined``; one line of each rank of ``others`` shows that it had been connected."""
    here, size = joined.split("/")
    return "[rank0]: " + CLIENTS.format(here, size) + "".join(GONE.format(r=r) for r in Ranks.parse(others))


@pytest.mark.parametrize(
    ("joined", "others", "more", "named"),
    [
        ("7/8", "1-4,6-7", "", "5"),
        ("7/8", "1-4,6-7", "[rank5]: loading the index of the data\n", "5"),
        ("7/8", "1-4,6-7", REFUSED.format(r=5), "5"),
        ("8/16", "1-7", "", "8-15"),
        ("6/8", "1-4,6-7", "", ""),  # two are missing and one was not heard of
        ("7/8", "1-4,6", "", ""),  # one is missing, and nothing was read of two
        ("7/8", "", "", ""),
    ],
)
def test_ranks_that_the_store_missed_are_named_where_as_many_are_left(
    joined: str, others: str, more: str, named: str
) -> None:
    ruling = read({"train.log": store_log(joined, others) + more})
    assert (ruling.cause, ruling.ranks) == ("init", named), str(ruling)
    assert ruling.verdict["confidence"] != "high"


def test_a_bar_of_loading_is_no_work_where_the_first_communicator_has_no_id() -> None:
    waits = (
        "[rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout\n"
    )
    bar = "Loading checkpoint shards:  67%|######6   | 4/6 [00:18<00:09,  4.57s/it]\n"
    ruling = read({"train.log": bar + waits.format(r=3) + waits.format(r=6)})
    assert (ruling.cause, ruling.ranks) == ("init", "0"), str(ruling)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_count_alone_names_nobody(seed: int) -> None:
    ruling = play("too_few", seed)
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)


@pytest.mark.parametrize("nodes", [1, 2])
def test_silent_start_on_several_hosts(nodes: int) -> None:
    ruling = play("silent_start", 4, nodes=nodes, gpus=4)
    assert ruling.cause == "init"
    innocent(ruling)


@pytest.mark.parametrize("scenario", ["no_data", "stopped", "never_ends"])
def test_a_stall_in_the_first_step_is_no_start_that_failed(scenario: str) -> None:
    ruling = play(scenario, 2, step=1)
    assert ruling.cause != "init", str(ruling)
    innocent(ruling)


def test_communicators_that_came_up_are_no_setup_trouble() -> None:
    ruling = play("no_data", 2, nccl_info=True)
    assert ruling.cause == "not-arrived", str(ruling)


def test_a_recorded_call_outweighs_a_lost_store() -> None:
    """The store of a job that has run is lost when rank 0 ends: an effect."""
    lost = (
        "[rank{r}]:[W111 10:11:05.000000000 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, "
        "addr=[node0]:5000, remote=[node0]:29500): Connection reset by peer\n"
    )
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) + lost.format(r=r) for r in (0, 1, 2)}
    files["logs/rank_3.log"] = step_line(3, 48, "09:59:59") + lost.format(r=3)
    ruling = read(files)
    assert ruling.cause != "init", str(ruling)


def test_a_process_that_cannot_reach_the_store_is_told_beside_a_lone_waiter(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(old_watchdog(3, 3612, numel=1, ran_ms=1_800_254))
    assert nccldoctor.analyze(tmp_path).verdict.cause is not CauseClass.INIT
    (tmp_path / "b.log").write_text(
        "[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (10.0.0.2, 41908).\n"
    )
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert verdict.cause is CauseClass.INIT
    assert not verdict.ranks
