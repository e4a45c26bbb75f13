"""How many ranks the job has: what proves it, what bounds it from below, and what is no word on it."""

from __future__ import annotations

from typing import Any

import pytest
from builders.jobs.cases import Log, RecordedRank, Team, case, ingested, said, world
from builders.jobs.verdicts import gave_up, read

from nccldoctor.events import (
    CollectiveTimeout,
    CommInit,
    DumpSignal,
    Event,
    Events,
    GroupRef,
    Heartbeat,
    Note,
    RasStatus,
    Setting,
    StoreError,
    WorkStatus,
)
from nccldoctor.identify.group_members import WorldSize, world_size
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch

DEFAULT = GroupRef(pg_id=0, uid="0", desc="default_pg")
TENSOR = GroupRef(pg_id=2, uid="5", desc="tp")
NOBODY = Ranks()


def told(what: str, size: int) -> Event:
    return said(Note, what=what, detail=str(size))


def gather(rank: int = 3, **more: Any) -> CollectiveTimeout:
    values = {"op": "_ALLGATHER_BASE", "numel_in": 100, "numel_out": 1600, "group": None, "group_rank": rank} | more
    event = said(CollectiveTimeout, rank, seq=7, **values)
    assert isinstance(event, CollectiveTimeout)
    return event


def options(group: GroupRef, size: int) -> Event:
    return said(Note, 1, what="group-options", detail=f"size={size} global_rank=1 timeout_ms=600000", group=group)


def size_by(*events: Event, seen: Ranks = NOBODY) -> WorldSize:
    return world_size(Batch.empty(), Events(events), seen)


# ---- the whole job


def test_the_default_group_goes_before_all_other_words_on_the_world() -> None:
    read_ = ingested(RecordedRank(0, world(8)).call())
    events = [said(CommInit, nranks=4), said(Setting, name="WORLD_SIZE", value="2")]
    assert world_size(read_.batch, Events(events), Ranks([0])) == WorldSize(8, 8)


@pytest.mark.parametrize(
    "event",
    [
        said(Setting, name="WORLD_SIZE", value="16"),
        told("job-size", 16),
        gather(group=DEFAULT),
        gather(group=DEFAULT, op="_REDUCE_SCATTER_BASE", numel_in=1600, numel_out=100),
        options(DEFAULT, 16),
        said(StoreError, text="15/16 clients joined"),
    ],
    ids=lambda event: event.kind,
)
def test_what_counts_the_whole_job_is_proof_though_nobody_was_heard(event: Event) -> None:
    assert size_by(event) == WorldSize(16, 16)


def test_the_counters_of_the_same_call_name_the_group_of_a_gather() -> None:
    status = said(WorkStatus, 3, failed=7, last_enqueued=7, last_completed=6, group=DEFAULT)
    assert size_by(gather(), status).exact == 16
    other = said(WorkStatus, 3, failed=7, last_enqueued=7, last_completed=6, group=TENSOR)
    assert size_by(gather(), other).exact is None


# ---- what may be a part


@pytest.mark.parametrize(
    "event", [said(CommInit, nranks=16), told("world-size", 16), gather(), gather(group=TENSOR), options(TENSOR, 16)]
)
def test_what_may_count_a_part_tells_what_the_job_has_at_least(event: Event) -> None:
    assert size_by(event, seen=Ranks([3])) == WorldSize(None, 16)


def test_a_printed_size_is_that_of_the_job_where_most_of_its_ranks_were_heard() -> None:
    assert size_by(told("world-size", 8), seen=Ranks.parse("0-6")) == WorldSize(8, 8)
    assert size_by(told("world-size", 8), seen=Ranks.parse("0-2")) == WorldSize(None, 8)


def test_a_size_below_a_rank_that_was_heard_is_that_of_a_part() -> None:
    """A tensor-parallel group prints ``world_size=2``, and ranks 0-7 were heard."""
    assert size_by(told("world-size", 2), seen=Ranks(range(8))) == WorldSize(None, 8)
    assert size_by(options(TENSOR, 2), told("job-size", 2), seen=Ranks(range(8))) == WorldSize(None, 8)


def test_the_size_of_a_script_yields_to_a_larger_communicator() -> None:
    events = [said(CommInit, nranks=16), said(CommInit, nranks=2), said(Setting, name="WORLD_SIZE", value="2")]
    assert size_by(*events, seen=Ranks([0])) == WorldSize(None, 16)
    assert size_by(*events, seen=Ranks(range(16))) == WorldSize(16, 16)


def test_an_elastic_range_and_a_node_alone_are_lower_bounds() -> None:
    assert size_by(told("least-size", 8)) == WorldSize(None, 8)
    assert size_by(told("least-size", 8), told("job-size", 32)) == WorldSize(32, 32)


def test_a_rank_of_which_others_tell_exists() -> None:
    signal = said(DumpSignal, 5, from_rank=34, last_enqueued=9, last_completed=8)
    assert size_by(signal, seen=Ranks([5])) == WorldSize(None, 35)


@pytest.mark.parametrize(
    "more", [{"op": "ALLREDUCE"}, {"numel_out": 1601}, {"numel_out": 100}, {"numel_in": None}], ids=str
)
def test_a_call_that_is_no_even_gather_tells_no_size(more: dict[str, Any]) -> None:
    assert size_by(gather(group=DEFAULT, **more)) == WorldSize(None, 0)


def test_an_engine_that_prints_one_for_each_process_tells_nothing() -> None:
    assert size_by(told("world-size", 1)) == WorldSize(None, 0)


# ---- of a case


def test_a_world_smaller_than_a_rank_in_it_is_not_believed() -> None:
    setting = said(Setting, name="WORLD_SIZE", value="4")
    found = case(logs=[Log("all.log", [setting, said(Heartbeat, 6), said(Heartbeat, 0)])])
    assert found.world_size != 4
    assert 6 in found.world


def test_two_ranks_of_many_do_not_make_a_world() -> None:
    found = case(logs=[Log("r2.log", [said(Heartbeat, 2)], rank=2), Log("r5.log", [said(Heartbeat, 5)], rank=5)])
    assert (found.world_size, found.world_at_least) == (None, 6)
    assert found.groups[0].learned == "assumed"


def test_ranks_that_look_like_a_whole_job_are_no_guess_where_there_are_more() -> None:
    logs = [Log(f"r{r}.log", [said(Heartbeat, r)], rank=r) for r in range(4)]
    assert case(logs=logs).world_size == 4
    more = Log("launch.log", [told("least-size", 16)])
    assert (case(logs=[*logs, more]).world_size, case(logs=[*logs, more]).world_at_least) == (None, 16)


def test_a_store_that_misses_clients_has_not_counted_the_world() -> None:
    logs = [Log(f"r{r}.log", [said(Heartbeat, r)], rank=r) for r in (0, 1)]
    waiting = Log("store.log", [said(StoreError, operation="clients-missing", missing=2)])
    assert case(logs=logs).world_size == 2
    assert case(logs=[*logs, waiting]).world_size is None


def test_a_group_of_a_dump_is_no_world() -> None:
    read_ = ingested(RecordedRank(4, Team("3", "tp", (4, 5, 6, 7))).call())
    assert world_size(read_.batch, Events(), Ranks([4, 5, 6, 7])) == WorldSize(None, 8)


# ---- in a report


def test_a_lower_bound_is_said_to_be_one() -> None:
    """Rank 5 gave up; by the command line there are at least 16 ranks, and nobody is suspected without a word on it."""
    start = "+ torchrun --nnodes=2:4 --nproc_per_node=8 train.py\n"
    ruling = read({"job.log": start + gave_up(5, 9)})
    job = ruling.document["job"]
    assert (job["world_size"], job["world_at_least"], job["world_guessed"]) == (None, 16, False)
    assert (ruling.ranks, ruling.verdict["suspects"]) == ("", ""), str(ruling)


def test_a_proven_size_bounds_the_suspects() -> None:
    start = "+ torchrun --nnodes=2 --nproc_per_node=2 train.py\n"
    lines = "".join(gave_up(rank, 9) for rank in (0, 1, 2))
    ruling = read({"job.log": start + lines})
    assert ruling.document["job"]["world_size"] == 4
    assert set(Ranks.parse(ruling.ranks)) | set(Ranks.parse(ruling.verdict["suspects"])) <= {3}, str(ruling)


def test_the_size_of_another_job_in_the_folder_is_not_that_of_this_one() -> None:
    files: dict[str, str | bytes] = {f"job-71/rank_{r}.log": f"world_size=4\n{gave_up(r, 9)}" for r in (0, 1, 2)}
    files |= {f"job-64/rank_{r}.log": f"world_size=64\n{gave_up(r, 9, at='03:00:00')}" for r in (0, 1, 2)}
    ruling = read(files)
    assert ruling.document["job"]["world_size"] in (4, None), str(ruling)
    assert not set(Ranks.parse(ruling.ranks)) & set(range(4, 64)), str(ruling)


def row(nranks: int, gpus: int) -> Event:
    return said(RasStatus, what="OK", table=0, nranks=nranks, gpus=gpus)


def test_the_table_of_ras_tells_the_size_where_one_communicator_holds_all_gpus() -> None:
    assert size_by(row(16, 16), row(2, 16)) == WorldSize(16, 16)
    assert size_by(row(16, 15)) == WorldSize(16, 16), "one member does not answer"
    assert size_by(row(8, 16), row(2, 16)).exact is None, "two communicators of eight"


@pytest.mark.parametrize(
    "line", [gather(group=None, numel_out=10**15), gather(group=DEFAULT, numel_out=10**15), row(10**9, 10**9)]
)
def test_no_line_makes_a_job_of_a_million_ranks(line: Event) -> None:
    assert size_by(line, told("job-size", 10**9), seen=Ranks([3])) == WorldSize(None, 4)
