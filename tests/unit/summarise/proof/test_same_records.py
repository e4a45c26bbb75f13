"""A quoted record names all ranks that left the same, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.jobs.verdicts import gave_up, told_to_dump

import nccldoctor


def alike(folder: Path, part: str) -> set[str]:
    """The ranks named beside the exhibits that show this part of the argument."""
    proof = nccldoctor.analyze(folder).diagnosis.proof
    return {str(exhibit.alike) for exhibit in proof if exhibit.lines is not None and part in exhibit.parts}


@pytest.mark.parametrize("sample, peers", [("straggler", "2-7"), ("jax-barrier", "1-3")])
def test_every_rank_that_printed_the_same_is_named(sample: str, peers: str) -> None:
    """Rules cite three of the ranks that timed out; the reader is told of all."""
    assert peers in alike(Path(__file__).parents[4] / "sample_logs" / sample, "peer")


def test_a_timeout_of_another_call_is_not_the_same(tmp_path: Path) -> None:
    """Rank 6 gave up on #5, all other peers on #4."""
    for rank in (0, 1, 2, 3, 5, 6, 7):
        (tmp_path / f"rank_{rank}.log").write_text(gave_up(rank, 5 if rank == 6 else 4))
    (tmp_path / "rank_4.log").write_text(told_to_dump(4, 0, 3))
    assert "1-3,5,7" in alike(tmp_path, "peer")


def test_one_error_at_two_lines_is_not_the_same(tmp_path: Path) -> None:
    """Rank 0 lost its connection in ``backward``, rank 1 in ``all_reduce``; every rank is a suspect, so that none is missing as a peer."""
    for rank, (line, code) in enumerate([(33, "loss.backward()"), (38, "dist.all_reduce(loss)")]):
        rows = (
            "Traceback (most recent call last):",
            f'  File "/opt/train/train.py", line {line}, in main',
            f"    {code}",
            "RuntimeError: [/pytorch/third_party/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:22930: Connection reset by peer",
        )
        (tmp_path / f"rank_{rank}.log").write_text("".join(f"[rank{rank}]: {row}\n" for row in rows))
    (tmp_path / "rank_2.log").write_text(
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] "
        "op.preamble.length <= op.nbytes. 4228 vs 4. Received data size doesn't match expected size.\n"
    )
    (tmp_path / "env.log").write_text("export WORLD_SIZE=3\n")
    diagnosis = nccldoctor.analyze(tmp_path).diagnosis
    claims = [exhibit.claim for exhibit in diagnosis.proof]
    assert any("train.py:33" in claim for claim in claims) and any("train.py:38" in claim for claim in claims), claims
    assert not any(exhibit.alike for exhibit in diagnosis.proof), diagnosis.proof
    assert not any("a waiting rank" in part.says for part in diagnosis.unshown), diagnosis.unshown
