"""Who moved between two analyses, and when that is told again."""

from __future__ import annotations

from pathlib import Path

import nccldoctor
from nccldoctor.live.fronts import Front, Movement, compare_fronts, fronts
from nccldoctor.live.remarks import MovementRemarks
from nccldoctor.model.ranks import Ranks


def test_steps_and_calls_are_progress_and_a_stack_is_life() -> None:
    before = {
        0: Front(step=5, frames=("a",)),
        1: Front(group="0", completed=7, enqueued=8),
        2: Front(step=5, frames=("load",)),
        3: Front(step=5, frames=("wait",)),
        4: Front(step=5),
        5: Front(step=5),
    }
    after = {
        0: Front(step=6, frames=("b",)),
        1: Front(group="0", completed=7, enqueued=9),
        2: Front(step=5, frames=("decode",)),
        3: Front(step=5, frames=("wait",)),
        4: Front(step=5, frames=("wait",)),
        6: Front(step=9),
    }
    moved = compare_fronts(before, after)
    assert moved == Movement(onward=Ranks([0, 1]), stirred=Ranks([2]), still=Ranks([3, 4, 6]), gone=Ranks([5]))


def test_counts_of_different_groups_are_not_compared() -> None:
    moved = compare_fronts({0: Front(group="tp", completed=5)}, {0: Front(group="dp", completed=90)})
    assert moved.still == Ranks([0])


def test_fronts_come_from_logs_and_stacks(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(
            "".join(f"2026-01-11 10:05:0{n} [rank {rank}] step {n} loss=2.5\n" for n in range(4 + rank))
        )
    (tmp_path / "stacks-1").mkdir()
    (tmp_path / "stacks-1" / "rank_0.txt").write_text(
        "Process 4711: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        'Thread 4711 (idle): "MainThread"\n    load_shard (train.py:9)\n    <module> (train.py:30)\n'
    )
    found = fronts(nccldoctor.analyze(tmp_path))
    assert (found[0].step, found[1].step) == (3, 4)
    assert "load_shard" in found[0].frames[0]


def test_the_same_movement_is_told_again_when_its_time_doubled() -> None:
    stuck = Movement(Ranks(), Ranks(), Ranks([0, 1]), Ranks())
    remarks = MovementRemarks()
    told = [remarks.about(stuck, now - 30.0, now) for now in (30.0, 60.0, 90.0, 120.0)]
    assert told == [
        ["Ranks 0-1 didn't move for 30 s."],
        ["Ranks 0-1 didn't move for 60 s."],
        [],
        ["Ranks 0-1 didn't move for 2 min."],
    ]
    moving = Movement(Ranks([0]), Ranks([1]), Ranks(), Ranks())
    assert remarks.about(moving, 120.0, 150.0) == [
        "Rank 0 moved on within 30 s.",
        "Rank 1 did no step, but its stack changed.",
    ]
