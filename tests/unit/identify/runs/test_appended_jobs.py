"""Where one file holds the output of several jobs of Slurm, the last one alone is diagnosed."""

from __future__ import annotations

from pathlib import Path

from nccldoctor.discover.discover import discover
from nccldoctor.identify.case import Case
from nccldoctor.identify.runs.separate_jobs import one_job
from nccldoctor.identify.runs.stale_dumps import newest_case
from nccldoctor.ingest.ingest import ingest

CANCELLED = "slurmstepd: error: *** JOB {job} ON node{job} CANCELLED AT 2026-02-02T0{hour}:30:00 ***\n"
RANK = "node{job}:100:100 [0] NCCL INFO ncclCommInitRank comm 0x55 rank {rank} nranks {size} cudaDev 0 commId 0x7 - Init START\n"


def output(job: int, size: int, hour: int) -> str:
    """The output of a job that its owner cancelled."""
    ranks = "".join(RANK.format(job=job, rank=rank, size=size) for rank in range(size))
    return ranks + CANCELLED.format(job=job, hour=hour)


def read(folder: Path, text: str) -> Case:
    (folder / "train.log").write_text(text)
    return newest_case(one_job(ingest(discover([folder]))))


def test_hosts_and_sizes_of_an_earlier_job_are_not_those_of_the_last(tmp_path: Path) -> None:
    case = read(tmp_path, output(1, 8, hour=3) + output(2, 2, hour=4))
    assert set(case.rank_host.values()) == {"node2"}
    assert list(case.world) == [0, 1]
    assert [gap.what for gap in case.gaps if gap.apart] == ["train.log:1-9: a different job"]


def test_a_step_of_the_same_job_is_no_other_job(tmp_path: Path) -> None:
    step = CANCELLED.format(job=1, hour=3).replace("JOB 1 ", "STEP 1.0 ")
    case = read(tmp_path, RANK.format(job=1, rank=0, size=2) + step + output(1, 2, hour=4))
    assert not [gap for gap in case.gaps if "another job" in gap.what]


def test_a_list_of_jobs_is_no_output_of_one(tmp_path: Path) -> None:
    listed = CANCELLED.format(job=1, hour=3) + CANCELLED.format(job=2, hour=4)
    case = read(tmp_path, RANK.format(job=1, rank=0, size=2) + listed)
    assert list(case.rank_host) == [0]


def test_jobs_that_take_turns_in_a_file_are_not_told_apart(tmp_path: Path) -> None:
    case = read(tmp_path, output(1, 2, hour=3) + output(2, 2, hour=4) + output(1, 2, hour=5))
    assert not [gap for gap in case.gaps if "another job" in gap.what]
