"""Positions and timers that are printed: who came after the others, who called from elsewhere, and what came after the alarm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders.jobs.verdicts import read, told_to_dump, torchrun
from builders.logs.lines import watchdog

import nccldoctor as nd

ALARM = datetime(2026, 3, 2, 10, 10, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    """The prefix of a c10 line so many seconds after the alarm."""
    return f"E{ALARM + timedelta(seconds=seconds):%m%d %H:%M:%S.%f}000".replace("E0", "E", 1)


def lost(rank: int, seconds: float, seq: int = 41, limit_ms: int = 600_000) -> str:
    """A watchdog that is told of a lost peer before its own limit has run out."""
    call = f"WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)={limit_ms})"
    why = "NCCL error: remote process exited or there was a network error, NCCL version 2.27.5"
    return (
        f"[rank{rank}]:[{at(seconds)} ProcessGroupNCCL.cpp:660] [Rank {rank}] Collective {call} raised the following "
        f"async exception: {why}\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    )


def late_by_timer(late: int, seconds: float, size: int = 6) -> str:
    """A job in which all but one rank gave up, and that one lost its peers so many seconds later."""
    return "".join(watchdog(r, 41, at=at(0.01 * r)) for r in range(size) if r != late) + lost(late, seconds)


@pytest.mark.parametrize(("late", "seconds"), [(0, 31), (3, 9), (5, 200)])
def test_a_timer_that_did_not_fire_shows_who_came_late(late: int, seconds: float) -> None:
    ruling = read({"train.log": late_by_timer(late, seconds)})
    assert (ruling.cause, ruling.ranks) == ("straggler", str(late)), str(ruling)
    assert ruling.verdict["confidence_in"]["class"] == "medium", "a watchdog that hangs looks the same"


def test_a_timer_that_was_about_to_fire_shows_nothing() -> None:
    assert read({"train.log": late_by_timer(3, 0.6)}).blamed == set()


def test_a_track_shows_the_bounds_of_each_entry(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(late_by_timer(3, 31))
    tracks = nd.analyze(tmp_path).tracks
    entries = tracks[tracks.doing == "in call"].set_index("global_rank")
    assert entries.known_by.to_dict()[2] == "own timer"
    assert entries.known_by.to_dict()[3] == "silent timer"
    apart = entries.earliest.diff().abs().loc[3].total_seconds()
    assert 30 < apart < 32, "the silent rank entered at least 31 s after rank 2"


HEAD = "all_reduce from /opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2806"
AGREE = ("agree (/srv/plan.py:77)", "step (/srv/loop.py:418)", "<module> (/srv/main.py:61)")
LAYER = (
    "row_parallel (/srv/layers.py:264)",
    "decode (/srv/model.py:509)",
    "step (/srv/loop.py:418)",
    "<module> (/srv/main.py:61)",
)
OTHER_CALLER = ("agree (/srv/plan.py:77)", "evaluate (/srv/loop.py:90)", "<module> (/srv/main.py:61)")


def failed_in(rank: int, frames: tuple[str, ...], head: str = HEAD) -> str:
    """A watchdog that gave up on #70 without naming the operation, and the stack of the call."""
    prefix = f"[rank{rank}]:[{at(0.01 * rank)} ProcessGroupNCCL.cpp:"
    counters = "Last enqueued NCCL work: 70, last completed NCCL work: 69."
    shown = [head, *(frame.replace(" (", " from ").rstrip(")") for frame in frames)]
    return (
        f"{prefix}1746] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from this local "
        f"rank and we will try our best to dump the debug info. {counters}\n"
        f"{prefix}670] Stack trace of the failed collective: \n"
        + "".join(f"#{n} {f}\n" for n, f in enumerate(shown))
        + "\n"
    )


@pytest.mark.parametrize("odd", [0, 2, 5])
@pytest.mark.parametrize("elsewhere", [LAYER, OTHER_CALLER])
def test_another_place_of_the_call_is_another_call(odd: int, elsewhere: tuple[str, ...]) -> None:
    log = "".join(failed_in(rank, elsewhere if rank == odd else AGREE) for rank in range(6))
    ruling = read({"serve.log": log})
    assert (ruling.cause, ruling.ranks) == ("missed-call", str(odd)), str(ruling)
    apart = ("decode", "agree") if elsewhere is LAYER else ("evaluate", "step")
    assert all(f"called from {function}" in ruling.verdict["headline"] for function in apart), str(ruling)


def test_two_halves_at_two_places_name_nobody() -> None:
    log = "".join(failed_in(rank, LAYER if rank % 2 else AGREE) for rank in range(4))
    ruling = read({"serve.log": log})
    assert (ruling.cause, ruling.blamed) == ("missed-call", set()), str(ruling)


def test_a_root_and_the_others_may_make_one_call_at_two_places() -> None:
    head = HEAD.replace("all_reduce", "broadcast")
    log = "".join(failed_in(rank, LAYER if rank == 0 else AGREE, head) for rank in range(6))
    assert read({"serve.log": log}).blamed == set()


GLOO_WAIT = (
    ("Traceback (most recent call last):", '  File "/srv/fit.py", line 58, in <module>', "    main()"),
    ('  File "/srv/gate.py", line 97, in all_finite', "    dist.all_gather_object(parts, report, group=cpu_group)"),
    (
        '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 3158, in all_gather_object',
    ),
    ("    all_gather(sizes, local, group=group)",),
    (
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.1.7.14]:23381",
    ),
)


def in_gloo(rank: int) -> str:
    """A rank that answered the dump signal outside the call #41, and whose traceback ends in a gloo call."""
    lines = (f"[rank{rank}]: {line}\n" for part in GLOO_WAIT for line in part)
    return told_to_dump(rank, 0 if rank else 1, 40) + "".join(lines)


@pytest.mark.parametrize("apart", [(3,), (0,), (1, 4)])
def test_a_wait_in_another_backend_is_one_deadlock(apart: tuple[int, ...]) -> None:
    log = "".join(in_gloo(rank) if rank in apart else watchdog(rank, 41, at=at(0)) for rank in range(6))
    ruling = read({"fit.log": log})
    assert (ruling.cause, ruling.blamed) == ("order-inversion", set(apart)), str(ruling)


@pytest.mark.parametrize(("first", "code"), [(1, 3), (3, 1), (2, -11)])
def test_an_exit_after_an_answer_to_the_dump_signal_explains_nothing(first: int, code: int) -> None:
    told = "".join(told_to_dump(rank, 5, 40) for rank in range(5))
    ends = torchrun(first, code, {rank: 1 for rank in range(5) if rank != first}, at="10:10:04")
    ruling = read({"serve.log": told + ends})
    assert first not in ruling.blamed, str(ruling)


def test_a_kernel_that_tells_of_the_same_fault_adds_no_rank() -> None:
    fault = (
        f"[rank3]:[{at(-600)} ProcessGroupNCCL.cpp:2057] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread "
        "terminated with exception: CUDA error: uncorrectable ECC error encountered\n"
    )
    kernel = "Mar  2 10:00:00 node0 kernel: NVRM: Xid (PCI:0000:c1:00): 94, pid=518834, name=python, Contained: FB (0x3, 0x1).\n"
    log = fault + "".join(watchdog(r, 41, at=at(0)) for r in range(8) if r != 3) + torchrun(0, -6, {}, at="10:11:04")
    alone, both = read({"train.log": log}), read({"train.log": log, "node0-kernel.log": kernel})
    assert (alone.cause, alone.ranks) == (both.cause, both.ranks) == ("hardware", "3"), f"{alone} / {both}"
