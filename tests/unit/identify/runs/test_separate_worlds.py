"""Worlds of one Ray job that number their ranks alike: they are told apart by the kind of actor, or said to be mixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.logs.lines import watchdog

import nccldoctor

NAN = (
    "Traceback (most recent call last):",
    '  File "/job/critic.py", line 88, in step',
    "    loss = f(x)",
    "ValueError: reward is nan",
)


def gave_up(actor: str, pid: int, rank: int, seq: int = 57) -> str:
    return f"({actor} pid={pid}, ip=10.0.0.1) {watchdog(rank, seq)}"


def raised(actor: str, pid: int, rank: int) -> str:
    return "".join(f"({actor} pid={pid}, ip=10.0.0.1) [rank{rank}]: {line}\n" for line in NAN)


def told(folder: Path, *lines: str) -> dict[str, Any]:
    """The document about a log of these lines."""
    (folder / "job.log").write_text("".join(lines))
    return dict(json.loads(nccldoctor.analyze(folder).to_json()))


def noticed(document: dict[str, Any]) -> str:
    return " ".join(problem for row in document["coverage"] for problem in row["problems"])


POLICY = [gave_up("PolicyModelActor", 100 + rank, rank, seq=100) for rank in range(4)]


def test_the_world_in_which_something_broke_is_diagnosed(tmp_path: Path) -> None:
    critic = [
        raised("CriticModelActor", 201, 1),
        *(gave_up("CriticModelActor", 200 + rank, rank) for rank in (0, 2, 3)),
    ]
    document = told(tmp_path, *(line for pair in zip(POLICY, critic, strict=True) for line in pair))
    verdict = document["verdict"]
    assert (verdict["class"], verdict["ranks"], verdict["victims"]) == ("raised", "1", "0,2-3")
    assert verdict["confidence"] == "medium"
    assert "processes of PolicyModelActor, ranks 0-3: a different world" in noticed(document)


def test_another_world_that_stands_too_leaves_little_confidence(tmp_path: Path) -> None:
    critic = [gave_up("CriticModelActor", 200 + rank, rank) for rank in range(4)]
    verdict = told(tmp_path, *(line for pair in zip(POLICY, critic, strict=True) for line in pair))["verdict"]
    assert (verdict["class"], verdict["confidence"]) == ("unfinished", "low")
    assert len(verdict["evidence"]) == len([e for e in verdict["evidence"] if "SeqNum=57" not in e["quote"]])


def test_two_engines_of_one_kind_are_said_to_be_mixed(tmp_path: Path) -> None:
    engines = [gave_up("RayWorkerWrapper", 100 * engine + rank, rank) for rank in range(4) for engine in (1, 2)]
    document = told(tmp_path, *engines[:6], engines[7], engines[0])
    assert document["verdict"]["confidence"] in ("low", "cannot-tell")
    assert "several worlds share rank numbers" in noticed(document)


@pytest.mark.parametrize("actors", [("EngineCore_DP0", "RayWorkerWrapper"), ("WorkerDict", "WorkerDict")])
def test_processes_that_share_no_rank_are_of_one_world(tmp_path: Path, actors: tuple[str, str]) -> None:
    """The driver of an engine of vLLM is rank 0, its workers are the other ranks."""
    lines = [gave_up(actors[rank > 0], 100 + rank, rank) for rank in range(4)]
    document = told(tmp_path, *lines)
    assert document["verdict"]["victims"] == "0-3"
    assert "world" not in noticed(document)


def test_an_actor_that_was_started_again_is_of_the_same_world(tmp_path: Path) -> None:
    first = [f"(WorkerDict pid={100 + rank}) [rank{rank}]: step {step}\n" for step in range(3) for rank in range(2)]
    again = [gave_up("WorkerDict", 200 + rank, rank) for rank in range(2)]
    assert "world" not in noticed(told(tmp_path, *first, *again))
