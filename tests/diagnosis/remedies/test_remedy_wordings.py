"""Remedies whose sign NCCL words in several ways: each wording leads to them, and a like one does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.remedies.remedy_jobs import Job

from nccldoctor.pipeline import analyze


def offered(job: Job, folder: Path) -> list[str]:
    return [advice.id for advice in analyze(job.write(folder / "logs")).diagnosis.remedies]


@pytest.mark.parametrize(
    "warning",
    [
        "init.cc:290 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000",
        "init.cc:290 NCCL WARN Multiple ranks detected using the same GPU on this node. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
        "init.cc:290 (initTransports) NCCL WARN Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK",
    ],
)
def test_two_ranks_on_one_gpu(warning: str, tmp_path: Path) -> None:
    assert "duplicate-gpu" in offered(Job(steps=0).nccl(1, warning).stuck(seq=2), tmp_path)


def test_a_rank_that_was_there_before(tmp_path: Path) -> None:
    warning = "bootstrap.cc:320 NCCL WARN Bootstrap Root : rank 3 of 8 ranks has already checked in"
    assert "stale-store-elastic" in offered(Job(steps=0).nccl(0, warning).stuck(seq=1), tmp_path)


def test_environments_that_differ_are_told_by_nccls_own_diagnostics(tmp_path: Path) -> None:
    line = "NCCL DIAG NCCL environment: mismatch across 8 ranks in comm 0x12 for NCCL_ALGO"
    job = Job(steps=0).stuck(seq=7).say(0, f"node0:4000 {line}")
    assert "env-mismatch" in offered(job, tmp_path)


def test_counts_that_differ_are_no_environments_that_differ(tmp_path: Path) -> None:
    report = (
        "#0-0 (f00dfeed12345678) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  7 ranks have launched up to operation 812",
        "  Rank 5 has launched up to operation 811 -- GPU 5 managed by process 9 on node n1",
    )
    assert "env-mismatch" not in offered(Job(steps=0).stuck(seq=7).raw("ras.txt", *report), tmp_path)
