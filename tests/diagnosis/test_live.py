"""A real hang from start to verdict: eight gloo processes under torchrun, no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccldoctor

pytestmark = [pytest.mark.live, pytest.mark.costly("jobs of torch")]


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch", minversion="2.13", reason="needs torch 2.13 (pip install torch)")


def test_a_hang_recorded_now_gets_the_right_verdict(tmp_path: Path) -> None:
    from recording.record_samples import record

    record("late-rank-three-groups", tmp_path / "logs")
    incident = nccldoctor.analyze(tmp_path / "logs")
    verdict = incident.verdict
    assert (verdict.cause, str(verdict.ranks)) == ("not-arrived", "1"), incident.to_full_markdown()
    assert verdict.stalled is not None
    assert (verdict.stalled.op, verdict.stalled.seq) == ("ALLREDUCE", 9)
    assert incident.case.world_size == 8
    assert len(incident.case.dumps) == 8


def test_a_job_without_a_fault_blames_nobody(tmp_path: Path) -> None:
    from recording.record_samples import record

    record("healthy", tmp_path / "logs")
    incident = nccldoctor.analyze(tmp_path / "logs")
    assert incident.verdict.cause == "none", incident.to_full_markdown()
    assert not incident.verdict.ranks
