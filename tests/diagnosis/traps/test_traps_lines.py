"""What misleads readers of these logs, one test each. The numbers missing here are about recorder dumps, and are tested
with the recorder.
"""

from __future__ import annotations

from datetime import datetime

from builders.logs.lines import watchdog
from builders.logs.log_reading import events, parsed

from nccldoctor.events import CollectiveTimeout, DumpSignal, GroupRef, WorkStatus


def caught(g: int, r: int, n: int = 7, op: str = "ALLREDUCE", numel: int = 5, frac: str = "000000001") -> str:
    return watchdog(g, n, op, at=f"E323 10:00:00.{frac}", group_rank=r, numel=numel, ran_ms=600_011)


def test_01_two_different_ranks_on_one_line() -> None:
    (e,) = events(caught(97, 6), "collective-timeout")
    assert (e.rank, e.group_rank) == (97, 6)


def test_02_the_rank_in_the_group_comes_from_the_line_that_names_the_group() -> None:
    text = caught(97, 6) + (
        "[rank97]:[E323 10:00:00.000000002 ProcessGroupNCCL.cpp:2268] [PG ID 3 PG GUID 41(pp) Rank 1]  failure "
        "detected by watchdog at work "
        "sequence id: 7 PG status: last enqueued work: 7, last completed work: 6\n"
    )
    (e,) = events(text, "collective-timeout")
    assert (e.rank, e.group_rank, e.group) == (97, 1, GroupRef(pg_id=3, uid="41", desc="pp"))


def test_03_the_timeout_line_alone_names_no_group() -> None:
    (e,) = events(caught(2, 2), "collective-timeout")
    assert e.group is None


def test_04_the_dump_signal_speaks_for_the_default_group() -> None:
    text = caught(4, 0) + (
        "[rank4]:[E911 18:45:03.180410509 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0 Rank 4] Received a dump "
        "signal due to a collective "
        "timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: -1, "
        "last completed NCCL "
        "work: -1.This is most likely\n"
    )
    (e,) = [x for x in parsed(text).events if isinstance(x, DumpSignal)]
    assert (e.group, e.last_enqueued, e.last_completed) == (GroupRef(pg_id=0, uid="0"), -1, -1)
    assert not [x for x in parsed(text).events if isinstance(x, WorkStatus)]


def test_05_the_fraction_of_the_second_is_not_wall_time() -> None:
    first, second = (
        events(caught(r, r, frac=f), "collective-timeout")[0] for r, f in ((0, "900000000"), (1, "100000000"))
    )
    assert first.time == second.time == datetime(1900, 3, 23, 10)


def test_09_last_completed_may_be_ahead_of_what_failed() -> None:
    text = (
        "[rank0]:[E323 10:00:00.000000002 ProcessGroupNCCL.cpp:2268] [PG ID 3 PG GUID 41 Rank 1]  failure detected by "
        "watchdog at work sequence "
        "id: 7 PG status: last enqueued work: 5, last completed work: 9\n"
    )
    (e,) = [x for x in parsed(text).events if isinstance(x, WorkStatus)]
    assert (e.failed, e.last_enqueued, e.last_completed) == (7, 5, 9)


def test_10_sizes_of_two_to_the_64th_minus_one_are_no_sizes() -> None:
    (e,) = [x for x in parsed(caught(0, 0, op="COALESCED", numel=2**64 - 1)).events if isinstance(x, CollectiveTimeout)]
    assert (e.numel_in, e.numel_out) == (None, None)


def test_11_the_path_of_the_dump_is_not_needed() -> None:
    text = (
        "[rank0]:[E323 10:00:00.000000002 ProcessGroupNCCL.cpp:1575] [PG ID 0 PG GUID 0 Rank 0] "
        "ProcessGroupNCCL preparing to dump debug info.\n"
    )
    (e,) = events(text, "dump-note")
    assert (e.rank, e.what) == (0, "preparing")  # type: ignore[attr-defined]


def test_12_a_terminated_watchdog_may_be_all_that_is_seen() -> None:
    text = (
        "[I ProcessGroupNCCL.cpp:828] [Rank 1] NCCL watchdog thread terminated with exception: [Rank 1] Watchdog "
        "caught collective operation "
        "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800011 milliseconds before "
        "timing out.\n"
    )
    (e,) = [x for x in parsed(text).events if isinstance(x, CollectiveTimeout)]
    assert (e.group_rank, e.seq) == (1, 7)


def test_13_records_begin_in_the_middle_of_lines_and_get_spliced() -> None:
    bar = " 12%|█▏        | 12/100 [00:01<00:07, 11.97it/s]"
    for text in (bar + caught(3, 3), bar + "\r" + caught(3, 3), caught(3, 3).replace("[rank3]:", "[rank3[]:")):
        (e,) = events(text, "collective-timeout")
        assert (e.rank, e.group_rank) == (3, 3), text


def test_14_who_prints_is_not_thereby_the_rank_that_is_missing() -> None:
    text = "".join(caught(r, r) for r in (0, 1, 3))
    assert [e.rank for e in events(text, "collective-timeout")] == [0, 1, 3]  # rank 2 is silent: no event speaks of it
    assert not [e for e in parsed(text).events if e.rank == 2]


def test_15_a_hang_while_the_communicator_is_made_leaves_no_timeout() -> None:
    text = (
        "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: wait timeout after 1800000ms, keys: "
        "/default_pg/0//cuda//0\n"
    )
    assert events(text, "collective-timeout") == []
    assert parsed(text).events


def test_18_lines_of_the_launcher_are_no_ranks_own_words() -> None:
    text = (
        "W0703 05:23:00.169000 99742 torch/distributed/elastic/multiprocessing/api.py:900] "
        "Sending process 99753 closing signal SIGTERM\n"
    )
    assert all(e.rank is None for e in parsed(text).events)
