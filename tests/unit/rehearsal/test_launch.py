"""Jobs of a rehearsal: started, waited for, and ended in every case. The script is one without torch."""

from __future__ import annotations

import os
import select
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nccldoctor.capture.sidecar import process_state
from nccldoctor.rehearsal import launch
from nccldoctor.rehearsal.faults import FAULTS, WORLD, fault_named
from nccldoctor.rehearsal.launch import sidecars_of

SCRIPT = """
import os, sys, time
from pathlib import Path
Path(os.environ["READY"], "ready-" + os.environ["RANK"]).write_text(sys.argv[1])
while sys.argv[1] != "healthy":
    time.sleep(0.05)
"""


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setattr(launch, "_SCRIPT", tmp_path / "train.py")
    monkeypatch.setenv("READY", str(tmp_path))
    yield tmp_path


def fault(name: str) -> launch.Fault:
    found = fault_named(name)
    assert found is not None
    return found


def wait_until_ready(folder: Path, ranks: int) -> None:
    """Block until each rank has written its file; the test's own limit ends it otherwise."""
    while len(list(folder.glob("ready-*"))) < ranks:
        select.select([], [], [], 0.02)


def wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([descriptor], [], [], 30)[0], f"process {pid} still runs"
    os.close(descriptor)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_every_process_is_ended_whatever_happens(
    ready: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = ready / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(error), launch.rehearsed(fault("deadlock"), ready / "run") as job:
        wait_until_ready(ready, WORLD)
        ranks = list(job.pids)
        sidecars = list(sidecars_of(ranks))
        assert (len(ranks), len(sidecars)) == (WORLD, WORLD)
        raise error
    for pid in ranks + sidecars:
        wait_for_end(pid)
    assert not list(scratch.iterdir()), "sidecars clear up, also where they had hardly begun"
    for pid in ranks + sidecars:
        assert process_state(pid)[0] in ("?", "Z", "X")


def test_a_job_that_ends_is_not_waited_for(ready: Path) -> None:
    with launch.rehearsed(fault("healthy"), ready / "run") as job:
        assert job.is_shown_within(fault("healthy"), 60)
        assert not job.pids


def test_the_rank_that_never_starts_is_not_started(ready: Path) -> None:
    with launch.rehearsed(fault("never-starts"), ready / "run") as job:
        assert sorted(job.processes) == [0, 1, 2]


def test_a_stall_that_was_looked_at_twice_has_shown(ready: Path) -> None:
    job = launch.Rehearsal(ready, {})
    assert not job.has_shown(fault("deadlock"))
    for name in ("20261123T044454Z", "20261123T044456Z"):
        (ready / "capture" / "stacks" / name).mkdir(parents=True)
    assert not job.has_shown(fault("deadlock")), "before the first step nothing is stuck"
    log = ready / "capture" / "rank_0.log"
    log.write_text("2026-11-23T04:44:55.100+00:00 INFO [rank 0] heartbeat: step=1\n")
    assert not job.has_shown(fault("deadlock")), "a look from before the last step is none of the fault"
    log.write_text("2026-11-23T04:44:50.100+00:00 INFO [rank 0] heartbeat: step=1\n")
    assert job.has_shown(fault("deadlock"))
    assert not job.has_shown(fault("straggler"))


def test_faults_are_told_apart() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 14
    for one in FAULTS:
        assert one.rank is None or 0 <= one.rank < WORLD
        assert not one.about.endswith(".")
