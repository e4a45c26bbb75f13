"""Counts of NCCL's own observers put together: which communicator a line means, which rank of the job, and what moved."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from builders.jobs.cases import Log, case, said
from builders.logs.cpu_limit import bounded_cpu_time
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import CollCall, CommInit, Event, Events, RasStatus
from nccldoctor.identify.nccl_counters import calls_by_communicator, counters_from_lines, counters_from_ras
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.flight_recorder.communicators import read_states


def init(rank: int, comm: str, **more: Any) -> CommInit:
    event = said(CommInit, rank, what="complete", comm=comm, group_rank=rank, **more)
    assert isinstance(event, CommInit)
    return event


def call(rank: int, comm: str, count: int, op: str = "AllReduce", **more: Any) -> CollCall:
    event = said(CollCall, rank, comm=comm, op_count=count, op=op, **more)
    assert isinstance(event, CollCall)
    return event


# --- COLL lines -------------------------------------------------------------------------------------------------


def test_a_pointer_means_something_in_its_own_process_alone() -> None:
    inits = [init(0, "0xa", comm_id="0x1"), init(1, "0xa", comm_id="0x2"), init(1, "0xb", comm_id="0X1")]
    found = calls_by_communicator(inits, [call(0, "0xa", 3), call(1, "0xa", 4), call(1, "0xb", 5)])
    assert {name: [c.op_count for c in calls] for name, calls in found.items()} == {"0x1": [3, 5], "0x2": [4]}


def test_members_of_a_split_share_its_count_colour_and_parent() -> None:
    inits = []
    for rank in range(4):
        inits.append(init(rank, f"0xa{rank}", comm_id="0x1", nranks=4))
        inits.append(init(rank, f"0xb{rank}", parent=f"0xa{rank}", split=f"1:{rank // 2}", nranks=2))
    found = calls_by_communicator(inits, [call(rank, f"0xb{rank}", 7) for rank in range(4)])
    assert {name: [c.rank for c in calls] for name, calls in found.items()} == {"0x1/1:0": [0, 1], "0x1/1:1": [2, 3]}


def test_without_init_lines_only_a_communicator_of_all_that_were_heard_is_joined() -> None:
    whole = [call(rank, f"0xa{rank}", 5, nranks=2) for rank in range(2)]
    assert list(calls_by_communicator([], whole)) == ["of 2 ranks"]
    assert not calls_by_communicator([], [call(rank, f"0xa{rank}", 5, nranks=4) for rank in range(2)])
    most = [call(rank, f"0xa{rank}", 5, nranks=4) for rank in (0, 1, 3)]
    assert list(calls_by_communicator([], most)) == ["of 4 ranks"], "more than half of the lowest four"
    assert not calls_by_communicator([], [*most, call(7, "0xd", 5, nranks=4)]), "rank 7 is of another four"
    assert not calls_by_communicator([], [*whole, call(0, "0xc", 5, nranks=2), call(1, "0xd", 5, nranks=2)])


def test_a_member_that_logged_elsewhere_and_never_called_here_issued_nothing() -> None:
    events: list[Event] = [init(r, "0xa", comm_id="0x1", nranks=2) for r in range(2)]
    events += [init(r, "0xb", comm_id="0x2", nranks=2) for r in range(2)]
    events += [call(0, "0xa", 0), *(call(r, "0xb", 4) for r in range(2))]
    found = {one.comm: one for one in counters_from_lines(Events(events))}
    assert (dict(found["0x1"].last), found["0x1"].lagging) == ({0: 0, 1: -1}, Ranks([1]))
    assert found["0x1"].first == 0
    assert not found["0x2"].lagging


def test_a_member_without_any_such_line_is_not_known() -> None:
    events: list[Event] = [init(r, "0xa", comm_id="0x1", nranks=3) for r in range(3)]
    assert not list(counters_from_lines(Events([*events, call(0, "0xa", 3), call(1, "0xa", 3)])))


@pytest.mark.parametrize("op", ["Send", "Recv", "AlltoAll"])
def test_a_communicator_with_transfers_counts_unevenly(op: str) -> None:
    events: list[Event] = [init(r, "0xa", comm_id="0x1", nranks=2) for r in range(2)]
    assert not list(counters_from_lines(Events([*events, call(0, "0xa", 3), call(0, "0xa", 4, op), call(1, "0xa", 3)])))


def test_the_first_call_that_not_all_issued_may_skip_numbers() -> None:
    """Replays of a captured graph count without a line."""
    events: list[Event] = [init(r, "0xa", comm_id="0x1", nranks=2) for r in range(2)]
    (one,) = counters_from_lines(
        Events([*events, call(0, "0xa", 3), call(1, "0xa", 3), call(1, "0xa", 40, "AllGather"), call(1, "0xa", 41)])
    )
    assert (one.first, one.op, one.lagging) == (40, "AllGather", Ranks([0]))


# --- RAS --------------------------------------------------------------------------------------------------------


def report(
    counts: dict[int, int], comm: str = "0x1", size: int = 4, *, at: str | None = None, seats: int = 0, **more: Any
) -> RasStatus:
    told = tuple((rank, "AllReduce", n) for rank, n in counts.items())
    processes = tuple((rank, "n1", 100 + seats + rank) for rank in range(size)) if seats >= 0 else ()
    time = datetime.fromisoformat(at) if at else None
    event = said(RasStatus, time=time, what="OK", comm_id=comm, nranks=size, counts=told, processes=processes, **more)
    assert isinstance(event, RasStatus)
    return event


def seat(host: str | None, pid: int) -> int | None:
    """Processes 100 to 107 are ranks 0 to 7."""
    return pid - 100 if 100 <= pid < 108 else None


def test_numbers_inside_the_whole_job_are_ranks_and_others_go_by_their_processes() -> None:
    even = dict.fromkeys(range(4), 5)
    (whole,) = counters_from_ras([report(even, seats=-1)], seat, 4)
    (upper,) = counters_from_ras([report(even, seats=4)], seat, 8)
    assert (whole.members, upper.members) == (Ranks(range(4)), Ranks(range(4, 8)))
    assert not list(counters_from_ras([report(even, seats=-1)], seat, 8)), (
        "a smaller one without processes may hold any ranks"
    )
    assert not list(counters_from_ras([report(even, seats=900)], seat, 8))


def test_those_that_a_text_does_not_list_have_the_count_of_the_many() -> None:
    event = report({2: 4, -1: 7})
    (one,) = counters_from_ras([event], seat, 4)
    assert dict(one.last) == {0: 7, 1: 7, 2: 4, 3: 7}


def test_two_counts_without_names_are_of_nobody() -> None:
    event = report({})
    tied = said(
        RasStatus, what="MISMATCH", comm_id="0x1", nranks=4, counts=((-1, "AllReduce", 7), (-1, "AllReduce", 6))
    )
    assert isinstance(tied, RasStatus)
    assert not list(counters_from_ras([tied], seat, 4))
    assert not list(counters_from_ras([event], seat, 4))


def test_what_moved_between_two_queries() -> None:
    first, then = {0: 5, 1: 5, 2: 4, 3: 5}, {0: 9, 1: 9, 2: 4, 3: 9}
    (same,) = counters_from_ras(
        [report(first, at="2026-01-01 10:00:00"), report(first, at="2026-01-01 10:01:00")], seat, 4
    )
    (ahead,) = counters_from_ras(
        [report(first, at="2026-01-01 10:00:00"), report(then, at="2026-01-01 10:01:00")], seat, 4
    )
    (soon,) = counters_from_ras(
        [report(first, at="2026-01-01 10:00:00"), report(first, at="2026-01-01 10:00:01")], seat, 4
    )
    assert (same.is_steady, same.is_moving, soon.is_steady) == (True, False, False)
    assert (ahead.is_steady, ahead.is_moving, ahead.advanced) == (False, False, Ranks([0, 1, 3])), (
        "those behind did not move"
    )


def test_only_as_many_gpus_as_the_job_has_make_ranks_of_numbers() -> None:
    """A communicator of two in a job of ten: its numbers are no ranks."""
    total = said(RasStatus, what="TOTAL", nranks=10)
    lost = said(
        RasStatus, what="INCOMPLETE", comm_id="0x1", nranks=2, missing=Ranks([1]), processes=((1, "n1", 71004),)
    )
    gone = said(RasStatus, what="DEAD", host="n1", pid=71004)
    found = case(logs=[Log("ras.txt", [total, lost, gone])])
    assert found.world_size == 10
    assert [e.rank for e in found.of(RasStatus)] == [None, None, None]
    whole = said(
        RasStatus, what="INCOMPLETE", comm_id="0x2", nranks=10, missing=Ranks([7]), processes=((7, "n1", 71004),)
    )
    found = case(logs=[Log("ras.txt", [total, whole, gone])])
    assert [e.rank for e in found.of(RasStatus) if e.what == "DEAD"] == [7]


def test_a_report_that_claims_millions_of_members_ends() -> None:
    huge = [report({0: 5, -1: 6}, f"0x{n}", 1 << 20, seats=-1) for n in range(200)]
    with bounded_cpu_time():
        assert len(list(counters_from_ras(huge, seat, 1 << 20))) < 4
        assert not list(counters_from_ras(huge, seat, 8)), "numbers inside are no ranks, and no processes are told"


# --- dumps ------------------------------------------------------------------------------------------------------


def state(**more: Any) -> dict[str, Any]:
    record = {"collId": 40, "opCount": 40, "opName": "AllReduce", "count": 4096, "dataType": "ncclFloat32"}
    values = {"commHash": '"9fab"', "rank": "2", "nRanks": "8", "CT_pastColls": json.dumps([record | {"collId": 39}])}
    return (
        values | {"CT_currentColl": json.dumps(record), "CT_pendingColls": json.dumps([record | {"collId": 41}])} | more
    )


def test_a_dumped_communicator_tells_its_newest_and_its_unfinished_call() -> None:
    assert read_states({"9fab": state()}) == [("9fab", 2, 8, 41, 40, "AllReduce", 4096, "ncclFloat32", False)]
    done = state(CT_currentColl="null", CT_pendingColls="[]")
    assert read_states({"9fab": done}) == [("9fab", 2, 8, 39, -1, "AllReduce", 4096, "ncclFloat32", False)]


def test_newer_and_older_spellings_of_a_dumped_communicator() -> None:
    newer = state(CT_currentColls=state()["CT_currentColl"].join("[]"))
    del newer["CT_currentColl"]
    older = state(commHash="9fab")
    assert read_states({"9fab": newer}) == read_states({"9fab": older}) == read_states({"9fab": state()})


def test_a_communicator_with_transfers_is_uneven() -> None:
    record = json.dumps({"collId": 42, "opName": "SendRecv"})
    assert read_states({"9fab": state(CT_currentColl=record)})[0][-1] is True


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "x",
        {"a": None},
        {"a": {}},
        {1: state()},
        {"a": state(rank="x")},
        {"a": state(rank="9")},
        {"a": state(nRanks=None)},
    ],
)
def test_what_is_no_dumped_communicator_is_passed_over(broken: Any) -> None:
    assert read_states(broken) == []


@given(
    st.dictionaries(
        st.sampled_from(["commHash", "rank", "nRanks", "CT_pastColls", "CT_currentColl", "CT_pendingColls"]),
        st.none()
        | st.integers()
        | st.text(max_size=8)
        | st.sampled_from(["[[[]]]", "[{}]", '[{"collId": "7"}]', "{", "[" * 9000]),
        max_size=6,
    )
)
@settings(max_examples=150, deadline=None)
def test_strangers_write_dumps(item: dict[str, Any]) -> None:
    read_states({"a": item})
