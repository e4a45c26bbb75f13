"""Who looks absent and is not: ranks that wait in a call which no recorder notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.jobs.cases import START, Log, RecordedRank, Team, facts, said, world

import nccldoctor
import nccldoctor.samples
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.events import ExceptionRaised, Stack
from nccldoctor.model.ranks import Ranks

WAITING = (
    "all_reduce (/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:2800)",
    "step (/opt/train/train.py:31)",
)
BUSY = ("_load (/opt/train/data.py:12)", "step (/opt/train/train.py:31)")


def absent(*logs: Log) -> Ranks:
    """Who is found absent where 2 and 3 of four are missing from the third call."""
    recorded_ranks = [RecordedRank(r).calls(2) for r in range(4)]
    for recorded in recorded_ranks[:2]:
        recorded.call(done=False)
    found = facts(*recorded_ranks, logs=logs)
    assert found.wait_graph.roots == Ranks([2, 3])
    return Ranks(r for s in found.stalls for r in s.ranks)


def stacks(rank: int, frames: tuple[str, ...], *, main: bool = True) -> Log:
    return Log(f"stacks_{rank}.txt", [said(Stack, rank, frames=frames, main=main)], rank=rank)


def test_nobody_is_excused_for_nothing() -> None:
    assert absent() == Ranks([2, 3])


def test_a_main_thread_inside_a_collective_excuses() -> None:
    assert absent(stacks(2, WAITING), stacks(3, BUSY)) == Ranks([3])


def test_another_thread_excuses_nobody() -> None:
    assert absent(stacks(2, WAITING, main=False), stacks(3, BUSY)) == Ranks([2, 3])


@pytest.mark.parametrize(
    "message", ["Timed out waiting 8000ms for recv operation to complete", "Connection closed by peer [10.0.0.7]:5555"]
)
def test_a_call_that_failed_because_a_peer_did_not_come_excuses(message: str) -> None:
    log = Log(
        "rank_2.log", [said(ExceptionRaised, 2, 600, type="RuntimeError", message=message, origin="echo")], rank=2
    )
    assert absent(log) == Ranks([3])


def test_an_exception_of_its_own_excuses_nobody() -> None:
    error = said(ExceptionRaised, 2, 600, type="ValueError", message="Connection closed by peer", origin="own")
    assert absent(Log("rank_2.log", [error], rank=2)) == Ranks([2, 3])


def test_never_all_of_them() -> None:
    assert absent(stacks(2, WAITING), stacks(3, WAITING)) == Ranks([2, 3])


# ---- gloo: sends are not recorded, the past tells who comes first


def test_a_rank_beside_a_peer_that_receives_in_the_same_function_waits_for_its_send() -> None:
    """``isend().wait()`` leaves no frame; rank 1, whose stack is elsewhere, has sent and received nothing."""
    exchange = ("exchange (/opt/train/sim.py:39)", "main (/opt/train/sim.py:9)")
    receives = ("recv (/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:2799)", *exchange)
    recorded_ranks = [RecordedRank(r, backend="gloo").calls(2) for r in range(4)]
    recorded_ranks[3].call(done=False)
    logs = [stacks(0, exchange), stacks(1, BUSY), stacks(2, receives)]
    found = facts(*recorded_ranks, logs=logs)
    assert Ranks(r for s in found.stalls for r in s.ranks) == Ranks([1])


PIPE = world(2)
FRONT, BACK = Team("1", "tp_a", (0, 2)), Team("2", "tp_b", (1, 3))


def pipeline(backend: str, steps: int = 4) -> tuple[Stall, ...]:
    """Two stages: 0 and 2 compute first, then 1 and 3. In the last step 2 stops, so 0 waits, and 3 gets no input."""
    four = world(4)
    teams = {0: FRONT, 2: FRONT, 1: BACK, 3: BACK}
    recorded_ranks = {r: RecordedRank(r, four, t, backend=backend) for r, t in teams.items()}

    def at(rank: int, second: float) -> dict[str, int]:
        return {"time_created_ns": int((START + second) * 1e9) + rank}

    for step in range(steps):
        last = step == steps - 1
        for rank in (0, 2):
            if not (last and rank == 2):
                recorded_ranks[rank].call(team=FRONT, done=not last, **at(rank, step * 10 + 1))
        for rank in (1, 3):
            if not last:
                recorded_ranks[rank].call(team=BACK, **at(rank, step * 10 + 5))
        if not last:
            for rank in range(4):
                recorded_ranks[rank].call("barrier", four, **at(rank, step * 10 + 8))
    # one rank of the second stage is in its call, having got its input by another way; its partner is not
    recorded_ranks[1].call(team=BACK, done=False, **at(1, steps * 10))
    found = facts(*(recorded_ranks[r] for r in range(4)))
    assert found.wait_graph.roots == Ranks([2, 3])
    return found.stalls


def who(found: tuple[Stall, ...]) -> Ranks:
    return Ranks(r for s in found for r in s.ranks)


def test_of_two_gloo_stages_the_one_that_always_came_first_is_absent() -> None:
    assert who(pipeline("gloo")) == Ranks([2])


def test_the_order_of_past_steps_alone_is_a_guess() -> None:
    assert [s.inferred for s in pipeline("gloo")] == [True]
    assert not any(s.inferred for s in pipeline("nccl"))


def test_where_all_gloo_ranks_wait_the_waiting_ends_in_something_not_recorded() -> None:
    recorded_ranks = [RecordedRank(r, backend="gloo").calls(2) for r in range(4)]
    for recorded in recorded_ranks[:2]:
        recorded.call(done=False)
    kinds = {StallKind.HIDDEN: (WAITING, WAITING), StallKind.ABSENT: (WAITING, BUSY)}
    for kind, (second, third) in kinds.items():
        found = facts(*recorded_ranks, logs=[stacks(2, second), stacks(3, third)])
        assert [s.kind for s in found.stalls] == [kind]


def test_where_sends_are_recorded_order_excuses_nobody() -> None:
    assert who(pipeline("nccl")) == Ranks([2, 3])


def test_without_a_past_nobody_is_excused() -> None:
    assert who(pipeline("gloo", steps=1)) == Ranks([2, 3])


# ---- gloo: a dump that was cut off keeps its counters, in which what failed counts as done


def cut_to(tmp_path: Path, rank: int) -> dict[str, Any]:
    """What the dumps of a bundled job say of who did not arrive, with the dump of one rank cut in half."""
    for dump in sorted((Path(nccldoctor.samples.__path__[0]) / "not-arrived" / "dumps").iterdir()):
        whole = dump.read_bytes()
        (tmp_path / dump.name).write_bytes(whole[: len(whole) // 2] if dump.name.endswith(f"_{rank}") else whole)
    document: dict[str, Any] = json.loads(nccldoctor.analyze(tmp_path).to_json())
    return document


@pytest.mark.parametrize("rank", [0, 3, 7])
def test_a_rank_whose_entries_were_lost_is_not_blamed_beside_one_that_is_shown_to_be_absent(
    tmp_path: Path, rank: int
) -> None:
    found = cut_to(tmp_path, rank)
    assert (found["verdict"]["class"], found["verdict"]["ranks"]) == ("not-arrived", "6")
    assert {r["role"] for r in found["ranks"] if rank in Ranks.parse(r["ranks"])} <= {"unknown", "waiting"}


def test_the_absent_rank_itself_is_not_told_by_counters_alone(tmp_path: Path) -> None:
    assert cut_to(tmp_path, 6)["verdict"]["confidence"] != "high"
