"""Real jobs that are captured while they hang, from the command to the verdict: gloo processes, no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import nccldoctor
from nccldoctor.capture.sidecar import process_state
from nccldoctor.cli.app import cli
from nccldoctor.cli.live import rehearsing
from nccldoctor.rehearsal.faults import fault_named
from nccldoctor.rehearsal.launch import rehearsed

pytestmark = [pytest.mark.live, pytest.mark.costly("jobs of torch")]

PATIENCE_S = 240.0
"""Seconds for a machine that other work keeps busy."""


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch", minversion="2.13", reason="needs torch 2.13 (pip install torch)")


def test_a_rank_that_holds_the_interpreter_lock_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Python thread of the rank runs: its stacks come from the timer, by way of its sidecar."""
    monkeypatch.setattr(rehearsing, "PATIENCE_S", PATIENCE_S)
    folder = tmp_path / "job"
    done = CliRunner().invoke(cli, ["demo", "--live", "held-lock", "--no-open", "--to", str(folder)])
    assert done.exit_code == 1, done.output
    assert "Rank 2" in done.stdout
    assert "match_tokens" in done.stdout
    assert (tmp_path / "job.html").stat().st_size > 0
    said = [line for path in folder.rglob("rank_*.log") for line in path.read_text().splitlines() if "pid=" in line]
    pids = {int(word.removeprefix("pid=")) for line in said for word in line.split() if word.startswith("pid=")}
    assert len(pids) == 4
    assert {process_state(pid)[0] for pid in pids} <= {"?", "Z", "X"}, "every rank is ended"


def test_a_job_that_trains_while_it_is_looked_at_is_not_accused(tmp_path: Path) -> None:
    fault = fault_named("training")
    assert fault is not None
    with rehearsed(fault, tmp_path / "job") as job:
        assert job.is_shown_within(fault, PATIENCE_S)
        incident = nccldoctor.analyze([tmp_path / "job" / "capture"])
    looks = [path.parent.name for path in (tmp_path / "job" / "capture" / "stacks").glob("*/rank_*.txt")]
    assert len(looks) == 4, "SIGUSR1 at one rank makes all ranks look"
    assert incident.verdict.cause == "none", incident.to_full_markdown()
    assert not incident.verdict.ranks
