"""Dumps and lines that are missing, torn, cut or overwritten: who is named all the same, and who is not."""

from __future__ import annotations

from typing import Any

import pytest
from builders.jobs.cases import RecordedRank, Team, facts
from builders.jobs.cases import world as world_of
from builders.jobs.verdicts import play, read
from simulator import jobs
from staged import jobs as staged

from nccldoctor.model.ranks import Ranks

GRID = {"layout": "tpdp", "nodes": 2, "gpus": 8, "files": "merged", "evidence": "fr"}

LOW, HIGH = Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3))


def test_of_two_silent_ranks_the_one_that_a_call_waits_for_alone_explains_both() -> None:
    """Rank 0 waits for 1 alone; the whole job would wait for 1 as well as for 3."""
    teams = (world_of(4), LOW, HIGH)
    recorded_ranks = [
        RecordedRank(0, *teams).calls(2).call(team=LOW, done=False),
        RecordedRank(2, *teams).calls(2).call(team=HIGH).call(done=False),
    ]
    found = facts(*recorded_ranks)
    assert (found.wait_graph.roots, [str(s.ranks) for s in found.stalls]) == (Ranks([1, 3]), ["1"])


def test_two_silent_ranks_of_one_group_are_not_told_apart() -> None:
    found = facts(*(RecordedRank(r).calls(2).call(done=False) for r in (0, 1)))
    assert [str(s.ranks) for s in found.stalls] == ["2-3"]


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 5])
def test_counters_tell_what_the_ring_has_dropped(seed: int, timing: bool) -> None:
    """All hosts ran far ahead of a small ring: only ``pg_status`` knows the calls that wait."""
    knobs = {"era": "2.6", "ring": 40, "timing": timing, "sync_every": 4, "step": 1, "lost_dumps": (2,)}
    ruling = play("stopped", seed, **GRID, **knobs)
    assert ruling.ranks == str(Ranks(ruling.truth["culprit_ranks"])), str(ruling)
    assert ruling.sure == 1, str(ruling)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_members_of_a_finished_batch_wait_for_nobody(seed: int) -> None:
    """A dump of active calls keeps them, and leaves out the entry that closed the batch."""
    knobs: dict[str, Any] = {"layout": "3d", "gpus": 8, "evidence": "fr", "only_active": True, "era": "2.8"}
    ruling = play("lock_held", seed, **knobs)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", str(Ranks(ruling.truth["culprit_ranks"]))), str(ruling)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_one_kill_that_nobody_can_place_ends_one_rank(seed: int) -> None:
    knobs = {"layout": "3d", "nodes": 2, "gpus": 8, "names": "none", "step": 1, "era": "2.6"}
    ruling = play("out_of_memory", seed, files="merged", lost_launcher=True, lost_dumps=(4, 14), **knobs)
    assert len(ruling.blamed) <= 1, str(ruling)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_stopped_device_is_none_that_stands_in_calls_of_its_own(seed: int) -> None:
    """Its peers' rings have dropped the calls it met; its own past shows that it left the loop."""
    knobs = {"era": "2.4", "layout": "fsdp", "nodes": 2, "gpus": 8, "ring": 40, "sync_every": 4, "step": 9_885}
    ruling = play("epoch_over", seed, evidence="fr", **knobs)
    assert ruling.cause == "missed-call", str(ruling)
    assert ruling.ranks == str(Ranks(ruling.truth["culprit_ranks"])), str(ruling)


@pytest.mark.parametrize(("scenario", "seed"), [("other_op", 2), ("device_stopped", 4)])
def test_one_numbered_group_in_which_all_ranks_wait_is_the_whole_job(scenario: str, seed: int) -> None:
    """Lists of 2.2 name no members, and an all-to-all does not tell how many there are."""
    ruling = play(scenario, seed, era="2.2", layout="ep", nodes=1, gpus=8)
    assert (ruling.cause, ruling.ranks) == (
        ruling.truth["class"],
        str(Ranks(ruling.truth["culprit_ranks"])),
    ), str(ruling)
    assert ruling.sure < 3, "the members are a guess"


def test_ranks_that_disagree_in_the_whole_job_are_seen_beside_groups_without_members() -> None:
    ruling = play("epoch_over", 3, era="2.2", layout="ep", nodes=4, gpus=4, launcher="srun", files="srun", step=2)
    assert ruling.ranks == str(Ranks(ruling.truth["culprit_ranks"])), str(ruling)


@pytest.mark.parametrize("hosts_known", [True, False])
def test_a_host_whose_ranks_all_fell_silent_is_named_over_several_groups(hosts_known: bool) -> None:
    knobs: dict[str, Any] = {"era": "2.2", "layout": "tpdp", "nodes": 2, "gpus": 8, "nccl_info": hosts_known}
    ruling = play("host_lost", 3, launcher="srun", files="srun", lost_launcher=True, beat_every=1, **knobs)
    assert (ruling.cause, ruling.ranks) == ("died", "8-15"), str(ruling)
    assert ruling.sure == (2 if hosts_known else 1), str(ruling)


def test_a_gather_in_an_error_tells_how_many_ranks_a_failed_node_took() -> None:
    """Four of eight ranks never printed anything that is understood."""
    knobs: dict[str, Any] = {"era": "2.5", "layout": "fsdp", "nodes": 2, "gpus": 4, "step": 2, "timeout_ms": 3_600_000}
    ruling = read(jobs.make(2283).files)
    assert (ruling.cause, ruling.ranks, ruling.document["job"]["world_size"]) == ("died", "4-7", 8), str(ruling)
    assert play("host_lost", 1, launcher="srun", files="srun", evidence="log", **knobs).ranks == "4-7"


def test_a_rank_whose_dump_is_lost_is_outside_with_the_rest_of_its_host() -> None:
    """It answered the dump signal and never gave up, as little as its neighbours, whose dumps are there."""
    knobs: dict[str, Any] = {"era": "2.2", "layout": "fsdp", "nodes": 2, "gpus": 4, "launcher": "srun", "files": "srun"}
    ruling = play("no_data_on_a_host", 3, lost_dumps=(2, 6), **knobs)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "4-7"), str(ruling)


@pytest.mark.parametrize("seed", [3, 4])
def test_who_left_early_is_named_where_higher_ranks_were_heard(seed: int) -> None:
    """No dump and no line gives the size of the job; the silent rank lies below others all the same."""
    ruling = play("left_early", seed, era="2.5", evidence="log", files="kube")
    assert ruling.ranks == str(Ranks(ruling.truth["culprit_ranks"])), str(ruling)
    assert ruling.sure < 3, str(ruling)


@pytest.mark.parametrize(("ring", "era", "seed"), [(200, "2.8", 3), (200, "2.2", 3)])
def test_one_transfer_fewer_than_each_rank_of_its_stage(ring: int, era: str, seed: int) -> None:
    """The first step: no past of its own shows what was due."""
    knobs: dict[str, Any] = {"layout": "3d", "nodes": 2, "gpus": 8, "step": 1, "ring": ring, "era": era}
    ruling = play("missing_receive", seed, **knobs)
    assert (ruling.cause, ruling.ranks) == ("unmatched-p2p", str(Ranks(ruling.truth["culprit_ranks"]))), str(ruling)


def test_an_address_nothing_is_known_of_is_not_the_fault_of_who_names_it() -> None:
    """One host was read, and one of its ranks got no answer from another: that one may be gone as well."""
    ruling = read(jobs.make(3092).files)
    assert ruling.truth == {} and not ruling.blamed, str(ruling)


def paused(*, host_went_on: float) -> dict[str, str | bytes]:
    """Four ranks, 3 of which still has the last call but one open; it recorded something that much later than its peers' end of it."""
    recorded_ranks = []
    for rank in range(4):
        recorded = RecordedRank(rank)
        for second in range(5):
            done = not (rank == 3 and second == 4)
            times = {"time_discovered_completed_ns": int((1_780_000_000 + second + 0.2) * 10**9)} if done else {}
            recorded.call(done=done, **times).pause(1.0)
        recorded.second = 4.2 + host_went_on
        recorded_ranks.append(recorded.call(done=False))
    return {f"dumps/nccl_trace_rank_{t.rank}": t.data() for t in recorded_ranks}


def test_a_device_long_behind_its_peers_stands_still_though_nobody_complained() -> None:
    """Its own dump holds a moment well after its peers had finished: it was not merely written earlier."""
    ruling = read(paused(host_went_on=30))
    assert (ruling.cause, ruling.ranks) == ("device-stalled", "3"), str(ruling)
    assert read(paused(host_went_on=0.1)).verdict["confidence"] == "low"


def test_lines_of_ranks_without_a_dump_break_a_tie_of_dumps() -> None:
    """Two dumps differ, and the watchdogs of two more ranks gave up on what one of them holds."""
    knobs: dict[str, Any] = {"layout": "ep", "nodes": 1, "gpus": 4, "era": "2.8", "step": 1, "lost_dumps": (1, 2)}
    ruling = play("other_op", 4, launcher="srun", files="srun", **knobs)
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", str(Ranks(ruling.truth["culprit_ranks"]))), str(ruling)


def test_two_that_left_nothing_where_all_others_gave_up_are_named_with_care() -> None:
    ruling = read(jobs.make(4155).files)
    assert (ruling.ranks, ruling.sure) == ("5,8", 1), str(ruling)


@pytest.mark.parametrize("seed", [4213, 4382])
def test_a_pipeline_that_waits_for_a_rank_without_a_dump(seed: int) -> None:
    """Its batch is no circle of its own, and transfers are evidence as collectives are."""
    played = jobs.make(seed)
    ruling = read(played.files, played.truth)
    assert ruling.ranks == str(Ranks(played.truth["culprit_ranks"])), str(ruling)


@pytest.mark.parametrize("seed", [4283, 4379, 4348])
def test_a_file_that_is_missing_accuses_nobody_who_gave_up_or_may_just_not_have_been_gathered(seed: int) -> None:
    """Two ranks aborted as their watchdogs let them; of the third job one dump is all there is."""
    ruling = read(jobs.make(seed).files)
    assert not ruling.blamed, str(ruling)


def test_a_rank_that_others_miss_elsewhere_may_have_skipped_a_call_first() -> None:
    """It stands in another operation of the whole job; the numbers of its calls in another group show the one it skipped."""
    ruling = read(jobs.make(4008).files)
    assert (ruling.cause, ruling.ranks) == ("missed-call", "0"), str(ruling)


def test_a_line_without_a_group_is_not_of_the_whole_job_where_dumps_hold_other_calls_there() -> None:
    """Its rank left no dump, and its place in the group happens to be its rank."""
    played = jobs.make(5221)
    ruling = read(played.files, played.truth)
    assert not ruling.blamed - {0}, str(ruling)


def test_one_call_fewer_than_everybody_of_its_kind_by_the_same_later_call() -> None:
    """Sixty-four ranks in three dimensions; equal calls in a row hide which one was skipped."""
    knobs: dict[str, Any] = {"layout": "3d", "nodes": 8, "gpus": 8, "era": "2.7", "ring": 200, "step": 30}
    ruling = play("skipped_tensor", 7, evidence="fr", files="merged", noise=0, **knobs)
    assert (ruling.cause, ruling.ranks) == ("missed-call", "63"), str(ruling)


def test_a_process_that_the_launcher_closed_and_need_not_kill_is_not_surely_frozen() -> None:
    """Torchrun lists no process that obeyed: its table is as silent about one that was merely busy."""
    ruling = read(dict(staged.make(1551, scenario="late_but_alive").files))
    assert ruling.ranks == "0", str(ruling)
    assert ruling.verdict["confidence_in"] == {"ranks": "high", "class": "medium"}, str(ruling)
