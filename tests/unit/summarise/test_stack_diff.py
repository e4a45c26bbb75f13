"""Two stacks side by side: whose they are, and where they part."""

from __future__ import annotations

from builders.jobs.cases import Log, RecordedRank, facts, said
from builders.remedies.fixtures_conditions import blames

from nccldoctor.events import Stack
from nccldoctor.model.figures import StackDiff
from nccldoctor.summarise.stack_diff import FRAMES, stack_diff

TAIL = ("main (/opt/train/train.py:388)", "<module> (/opt/train/train.py:401)")
LOADER = (
    "poll (/usr/lib/python3.11/multiprocessing/connection.py:257)",
    "next (/opt/train/data.py:9)",
    "step (/opt/train/train.py:214)",
)
REDUCE = (
    "all_reduce (/opt/venv/site-packages/torch/distributed/distributed_c10d.py:2810)",
    "step (/opt/train/train.py:217)",
)


def recorded(rank: int, stalls: bool = True) -> RecordedRank:
    out = RecordedRank(rank).calls(3)
    return out.call(done=False) if stalls else out


def dumped(rank: int, *frames: str, **more: object) -> Log:
    return Log(f"stacks_{rank}.txt", (said(Stack, rank, None, frames=frames, **{"main": True, **more}),), rank=rank)


def found(*logs: Log) -> StackDiff | None:
    return stack_diff(
        facts(recorded(0), recorded(1), recorded(2), recorded(3, stalls=False), logs=logs), blames(3, (0, 1, 2))
    )


def test_the_first_differing_frame_is_marked_on_both_sides() -> None:
    both = found(dumped(3, *LOADER, *TAIL), dumped(1, *REDUCE, *TAIL))

    assert both is not None
    assert both.peer is not None
    assert (both.culprit.rank, both.peer.rank) == (3, 1)
    assert [f.function for f in both.culprit.frames if f.parts] == ["step"]
    assert [(f.function, f.line) for f in both.peer.frames if f.parts] == [("step", 217)]


def test_library_frames_are_told_from_the_users_own() -> None:
    both = found(dumped(3, *LOADER, *TAIL))

    assert both is not None
    assert [f.own for f in both.culprit.frames] == [False, True, True, True, True]
    assert both.peer is None


def test_a_recorded_call_tells_where_a_peer_is() -> None:
    frames = [
        {"name": "all_reduce", "filename": "/x/torch/distributed/c10d.py", "line": 1},
        {"name": "main", "filename": "/opt/train/train.py", "line": 388},
    ]
    aligned = facts(
        RecordedRank(0).calls(3).call(done=False, frames=frames),
        recorded(1),
        recorded(2),
        recorded(3, stalls=False),
        logs=(dumped(3, *LOADER, *TAIL),),
    )
    both = stack_diff(aligned, blames(3, (0, 1, 2)))

    assert both is not None
    assert both.peer is not None
    assert "newest recorded call" in both.peer.what
    assert both.peer.where.endswith("#entries[3]")


def test_stacks_whose_roots_differ_part_above_a_frame_they_share() -> None:
    both = found(dumped(3, *LOADER, *TAIL, "_run (/launcher.py:3)"), dumped(0, *REDUCE, *TAIL))

    assert both is not None
    assert [f.function for f in both.culprit.frames if f.parts] == ["step"]


def test_equal_stacks_mark_nothing() -> None:
    both = found(dumped(3, *REDUCE, *TAIL), dumped(0, *REDUCE, *TAIL))

    assert both is not None
    assert both.peer is not None
    assert not any(f.parts for f in (*both.culprit.frames, *both.peer.frames))


def test_the_main_thread_is_shown() -> None:
    log = Log(
        "s.txt",
        (
            said(Stack, 3, frames=("pin (/opt/a.py:1)",), thread="pin"),
            said(Stack, 3, frames=LOADER, main=True),
            said(Stack, 3, frames=("x",)),
        ),
        rank=3,
    )
    both = found(log)

    assert both is not None
    assert both.culprit.frames[0].function == "poll"


def test_deep_stacks_are_cut_around_the_parting() -> None:
    deep = tuple(f"rec{n} (/opt/train/deep.py:{n})" for n in range(100))
    both = found(dumped(3, *deep, *LOADER, *TAIL), dumped(0, *REDUCE, *TAIL))

    assert both is not None
    assert len(both.culprit.frames) == FRAMES
    assert both.culprit.cut == 105 - FRAMES
    assert any(f.parts for f in both.culprit.frames)


def test_no_stack_no_picture() -> None:
    assert found() is None
