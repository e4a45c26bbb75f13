"""A real hang, looked at while it hangs: three gloo processes, one of which never joins a call."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.live.fake_ranks import Ranks, fake_ranks, state

import nccldoctor
from nccldoctor.collect.bundle import Answer, write_bundle

pytestmark = [pytest.mark.live, pytest.mark.costly("jobs of torch")]

ATTEMPTS = 20
"""Looks until the peers of the late rank have entered their call."""

TRAIN = """
import os, sys, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
def wait_for_shard():
    sys.stdin.read()
def train():
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=3)
    dist.all_reduce(torch.ones(1))
    print("ready", flush=True)
    if rank == 1:
        wait_for_shard()
    dist.all_reduce(torch.ones(1))
train()
"""


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Ranks]:
    pytest.importorskip("torch", reason="needs torch")
    if shutil.which("py-spy", path=str(Path(sys.executable).parent)) is None and shutil.which("py-spy") is None:
        pytest.skip("needs py-spy")
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    with fake_ranks(tmp_path) as ranks:
        ranks.start_all(3, script, [str(tmp_path / "store")], OMP_NUM_THREADS="1")
        yield ranks


def analyzed(ranks: Ranks, folder: Path) -> nccldoctor.Incident:
    stream = folder / "answer.tar"
    stream.write_bytes(ranks.collect("--twice", "0.2").data)
    target = folder / "bundle.tar.zst"
    write_bundle(target, [Answer("here", stream, None, 1.0)], "nccldoctor collect --local")
    return nccldoctor.analyze(target)


def test_the_rank_that_never_joins_is_named_while_the_job_hangs(hung: Ranks, tmp_path: Path) -> None:
    for _ in range(ATTEMPTS):
        incident = analyzed(hung, tmp_path)
        if incident.verdict.cause == "not-arrived":
            break
    assert (incident.verdict.cause, str(incident.verdict.ranks)) == ("not-arrived", "1"), incident.to_full_markdown()
    assert f"pid {hung.processes[1].pid}" in incident.to_text(width=200, color=False)
    assert "wait_for_shard" in incident.verdict.headline
    assert {state(process.pid) for process in hung.processes} <= {"S", "R", "D"}, "nobody was harmed"


def test_a_stopped_rank_is_frozen(hung: Ranks, tmp_path: Path) -> None:
    hung.stop(hung.processes[1].pid)
    for _ in range(ATTEMPTS):
        incident = analyzed(hung, tmp_path)
        if incident.verdict.cause == "frozen":
            break
    assert (incident.verdict.cause, str(incident.verdict.ranks)) == ("frozen", "1"), incident.to_full_markdown()
    assert state(hung.processes[1].pid) == "T"
