"""What Slurm did to another step or job says nothing of the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccldoctor.discover.discover import discover
from nccldoctor.events import SchedulerEvent
from nccldoctor.identify.case import Case
from nccldoctor.identify.runs.separate_jobs import one_job
from nccldoctor.identify.runs.stale_dumps import newest_case
from nccldoctor.ingest.ingest import ingest

ENVIRONMENT = "RANK=0\nWORLD_SIZE=2\nSLURM_JOB_ID=4711\nSLURM_STEP_ID=0\nMASTER_ADDR=n1\n"
CANCELLED = "slurmstepd: error: *** {what} ON n1 CANCELLED AT 2026-02-02T03:30:00{why} ***\n"
STEP = "2026-02-02 03:{at} [rank 0] step {n} loss=2.5\n"


def read(folder: Path, cancelled: str, environment: str = "", last: str = "30:20", why: str = "") -> Case:
    folder.joinpath("rank-0").mkdir()
    steps = STEP.format(at="29:00", n=1) + STEP.format(at=last, n=2)
    folder.joinpath("rank-0", "train.log").write_text(steps)
    folder.joinpath("rank-0", "environment.txt").write_text(environment)
    folder.joinpath("slurmd.log").write_text(CANCELLED.format(what=cancelled, why=why))
    return newest_case(one_job(ingest(discover([folder]))))


@pytest.mark.parametrize(
    ("cancelled", "is_own"),
    [
        ("STEP 4711.0", True),
        ("STEP 4711.3", False),
        ("STEP 1.0", False),
        ("STEP 4711.batch", True),
        ("JOB 4711", True),
        ("JOB 4690", False),
        ("STEP 4709+1.0", True),
    ],
)
def test_the_variables_of_the_ranks_say_which_step_is_theirs(cancelled: str, is_own: bool, tmp_path: Path) -> None:
    case = read(tmp_path, cancelled, ENVIRONMENT)
    assert any(case.of(SchedulerEvent)) is is_own
    assert any(gap.what.endswith(" of Slurm") for gap in case.gaps) is not is_own


@pytest.mark.parametrize(("last", "is_own"), [("30:20", True), ("34:00", False)])
def test_a_step_that_ranks_outlived_was_not_theirs(last: str, is_own: bool, tmp_path: Path) -> None:
    """For a while ranks may go on: Slurm waits before it kills."""
    assert any(read(tmp_path, "STEP 1.0", last=last).of(SchedulerEvent)) is is_own


def test_without_the_variables_no_job_is_known_to_be_another(tmp_path: Path) -> None:
    assert any(read(tmp_path, "JOB 4690", last="34:00").of(SchedulerEvent))


def test_a_time_limit_is_told_of_the_own_step_alone(tmp_path: Path) -> None:
    assert not list(read(tmp_path, "STEP 4711.3", ENVIRONMENT, why=" DUE TO TIME LIMIT").of(SchedulerEvent))


CONTROLLER = """\
[2026-03-01T10:29:00.123] Time limit exhausted for JobId=4690
[2026-03-01T10:30:00.123] Killing JobId=4711 on failed node n7
"""


@pytest.mark.parametrize(
    ("environment", "beside", "kept"),
    [
        ("", "", []),
        (ENVIRONMENT, "", ["node-failure"]),
        (
            "",
            "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-01T10:30:01 ***\n",
            ["cancelled", "node-failure"],
        ),
    ],
)
def test_the_log_of_the_controller_speaks_of_our_job_only_where_that_is_known(
    environment: str, beside: str, kept: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "rank-0"
    folder.mkdir()
    (folder / "environment.txt").write_text(environment)
    (folder / "train.log").write_text(STEP.format(at="29:00", n=1) + beside)
    (tmp_path / "slurmctld.log").write_text(CONTROLLER)
    case = newest_case(one_job(ingest(discover([tmp_path]))))
    assert sorted(event.what for event in case.of(SchedulerEvent)) == kept
