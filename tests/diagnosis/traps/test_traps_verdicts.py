"""What misleads readers of these logs, carried through to the verdict: the same job with and without the bait.

The numbers are those of ``test_traps_lines.py`` and ``test_traps_dumps.py``.
"""

from __future__ import annotations

import re

import pytest
from builders.jobs.verdicts import Ruling, gave_up, raised, read, told_to_dump, torchrun
from builders.logs.lines import caught, old_watchdog

READY = "[rank{r}]: 2026-01-01 09:59:50,000 INFO process groups ready world_size={n}\n"


def job(missing: int, ranks: int = 4) -> dict[str, str | bytes]:
    """A log for each rank; all but one gave up in the same call."""
    lines = {r: READY.format(r=r, n=ranks) for r in range(ranks)}
    return {f"rank_{r}.log": text + (gave_up(r, 7) if r != missing else "") for r, text in lines.items()}


def edited(files: dict[str, str | bytes], pattern: str, by: str) -> dict[str, str | bytes]:
    out = {name: re.sub(pattern, by, text) for name, text in files.items() if isinstance(text, str)}
    assert out != files
    return dict(out)


def same(one: Ruling, other: Ruling) -> None:
    assert (one.cause, one.ranks, one.sure, one.at, one.blamed) == (
        other.cause,
        other.ranks,
        other.sure,
        other.at,
        other.blamed,
    ), f"{one}\n{other}"


def test_02_a_rank_that_a_static_text_repeats_is_nobodys() -> None:
    """WorkNCCL lines say the rank of whichever group logged first in that process: here always 2, who is silent."""
    files = job(missing=2)
    bait = edited(files, r"\[Rank \d\] Watchdog", "[Rank 2] Watchdog")
    same(read(bait), read(files))


def test_05_the_fraction_does_not_order_lines_of_one_second() -> None:
    """The nine digits are of another clock, different on each host."""
    files = job(missing=2)
    later = edited(files, r"\.00000000(\d) ProcessGroupNCCL", r".99999999\g<1> ProcessGroupNCCL")
    later["rank_0.log"] = files["rank_0.log"]
    same(read(later), read(files))


def test_11_the_default_log_level_hides_where_dumps_went() -> None:
    """With INFO on, each rank says where its dump lies; without, nothing may follow from the silence."""
    files = job(missing=2)
    told = {
        name: str(text)
        + f"[rank{name[5]}]:[E111 10:10:01.000000001 ProcessGroupNCCL.cpp:1575] [PG ID 0 PG GUID 0(default_pg) Rank "
        f"{name[5]}] ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1\n"
        for name, text in files.items()
    }
    loud = {
        name: text
        + f"[rank{name[5]}]:[I111 10:10:01.000000002 ProcessGroupNCCL.cpp:1585] [PG ID 0 PG GUID 0(default_pg) Rank "
        f"{name[5]}] ProcessGroupNCCL dumping nccl trace to /scratch/nccl_trace_rank_{name[5]}\n"
        for name, text in told.items()
    }
    same(read(dict(told)), read(dict(loud)))


def test_12_old_releases_say_that_a_watchdog_ended_at_info_only() -> None:
    def ended(rank: int) -> str:
        head = f"[I ProcessGroupNCCL.cpp:475] [Rank {rank}] NCCL watchdog thread terminated with exception: "
        return f"{head}{caught(rank, 7, numel=None, limit_ms=1_800_000, ran_ms=1_800_011)}\n"

    quiet: dict[str, str | bytes] = {
        f"rank_{r}.log": old_watchdog(r, 7) if r != 2 else "step 3 loss 2.0\n" for r in range(4)
    }
    loud = {n: str(text) + (ended(int(n[5])) if n[5] != "2" else "") for n, text in quiet.items()}
    one = read(quiet)
    assert one.cause != "none", "a timeout without that line is a timeout"
    same(read(dict(loud)), one)


def test_14_whoever_prints_is_not_blamed() -> None:
    found = read(job(missing=2))
    assert found.blamed == {2}, str(found)


def test_14_nor_is_the_rank_that_a_dump_signal_came_from() -> None:
    files = job(missing=2)
    files["rank_2.log"] = str(files["rank_2.log"]) + told_to_dump(2, by=0, done=6)
    found = read(files)
    assert found.blamed <= {2}, str(found)


def test_15_a_group_that_never_came_up_waits_for_its_first_rank() -> None:
    """No work, so no watchdog: what the others say is that group rank 0 never entered its first call."""
    waits = (
        "[rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: "
        "/default_pg/0//cuda//0. This may indicate a possible application crash on rank 0 or a network set up issue.\n"
    )
    files: dict[str, str | bytes] = {
        f"rank_{r}.log": READY.format(r=r, n=4) + (waits.format(r=r) if r else "") for r in range(4)
    }
    found = read(files)
    assert (found.cause, found.ranks) == ("init", "0"), str(found)
    assert not found.blamed & {1, 2, 3}, str(found)
    assert not found.at[1], "no call was ever issued, so none may be numbered"


@pytest.mark.parametrize("hour", ["10:11:00", "10:11:09"])
def test_18_the_root_cause_of_a_launcher_is_that_of_its_node(hour: str) -> None:
    """Node 0 closes a victim of the timeout and calls it the root; the exception is on node 1, whenever that was noticed."""
    files: dict[str, str | bytes] = {
        f"rank_{r}.log": READY.format(r=r, n=8) + (gave_up(r, 7) if r != 6 else raised(6, "KeyError", "'shard-17'"))
        for r in range(8)
    }
    files["node0.log"] = torchrun(1, -6, {0: -15, 2: -6, 3: -15}, at="10:11:04", host="node0")
    files["node1.log"] = torchrun(6, 1, {4: -15, 5: -15, 7: -15}, at=hour, host="node1")
    found = read(files)
    assert found.blamed == {6}, str(found)


def test_18_a_killed_process_has_the_time_at_which_that_was_noticed() -> None:
    """Rank 6 was killed before the timeout; its launcher was busy and gives a later second than node 0's table."""
    files: dict[str, str | bytes] = {
        f"rank_{r}.log": READY.format(r=r, n=8) + (gave_up(r, 7) if r != 6 else "") for r in range(8)
    }
    files["node0.log"] = torchrun(1, -6, {0: -6, 2: -6, 3: -6}, at="10:11:00", host="node0")
    files["node1.log"] = torchrun(6, -9, {4: -6, 5: -6, 7: -6}, at="10:11:01", host="node1")
    found = read(files)
    assert (found.cause, found.ranks) == ("died", "6"), str(found)


REMOTE = (
    "[rank1]:[E111 10:09:59.000000001 ProcessGroupNCCL.cpp:{code}NCCL error: remote process exited or there was a network "
    "error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely.\nLast error:\nsocketProgress: Connection closed by remote peer node3<51234>\n"
)


def test_14_a_rank_that_nccl_told_of_a_lost_peer_is_not_said_to_be_elsewhere() -> None:
    files = job(missing=1)
    files["rank_1.log"] = str(files["rank_1.log"]) + REMOTE.format(
        code="2093] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: "
    )
    found = read(files)
    assert not found.ranks and not found.blamed, str(found)


def test_14_and_with_the_call_that_broke_it_is_inside() -> None:
    """The silent rank is the other one."""
    files = job(missing=1)
    files["rank_2.log"] = READY.format(r=2, n=4)
    files["rank_1.log"] = str(files["rank_1.log"]) + REMOTE.format(
        code="680] [Rank 1] Collective WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, "
        "Timeout(ms)=600000) raised the following async exception: "
    )
    found = read(files)
    assert (found.cause, found.ranks) == ("died", "2"), str(found)


def test_14_who_says_that_a_connection_was_closed_did_not_end_by_that() -> None:
    """NCCL's line has no time: it is what a victim sees, not the death of the rank that prints it."""
    files = job(missing=1)
    closed = "misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer node3<51234>\n"
    files["rank_1.log"] = str(files["rank_1.log"]) + f"node1:7:8 [1] {closed}"
    found = read(files)
    assert not found.ranks, str(found)
