"""A quoted record names all ranks that left the same, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nccldoctor


def alike(folder: Path, part: str) -> set[str]:
    """The ranks named beside the exhibits that show this part of the argument."""
    proof = nccldoctor.analyze(folder).diagnosis.proof
    return {str(exhibit.alike) for exhibit in proof if exhibit.lines is not None and part in exhibit.parts}


@pytest.mark.parametrize("sample, peers", [("hardware", "1-3,5-7"), ("straggler", "2-7"), ("jax-barrier", "1-3")])
def test_every_rank_that_printed_the_same_is_named(sample: str, peers: str) -> None:
    """Rules cite three of the ranks that timed out; the reader is told of all."""
    assert peers in alike(Path(__file__).parents[4] / "sample_logs" / sample, "peer")


def test_a_timeout_of_another_call_is_not_the_same(tmp_path: Path) -> None:
    """Rank 6 gave up on #5, all other peers on #4."""
    source = Path(__file__).parents[4] / "sample_logs" / "hardware"
    for path in source.rglob("*.txt"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for path in source.rglob("*.log"):
        text = path.read_text()
        other = re.sub(r"SeqNum=4,", "SeqNum=5,", text) if path.name == "rank_6.log" else text
        (tmp_path / path.name).write_text(other)
    assert "1-3,5,7" in alike(tmp_path, "peer")
