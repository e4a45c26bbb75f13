"""The labelled jobs of hangbench are the same each time, carry their truth, and show no tool what it is."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hangbench import jobs
from hangbench.dumps import content_of, has_unnamed_groups_only, recorder_dumps
from hangbench.jobs import BenchJob
from staged.scenes.stage import STRANGE

from nccldoctor.model.causes import CauseClass
from nccldoctor.model.ranks import Ranks

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "hangbench" / "run.py"
FEW = 8


@pytest.fixture(scope="module")
def labelled() -> list[BenchJob]:
    return list(jobs.labelled_jobs(FEW))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The jobs as the command writes them, in a process with other hashes; and what it printed."""
    folder = tmp_path_factory.mktemp("written")
    command = [sys.executable, str(RUN), "--jobs", str(FEW), "--write", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_the_command_writes_the_same_bytes_in_another_process(
    labelled: list[BenchJob], written: tuple[Path, str]
) -> None:
    folder, printed = written
    assert printed == f"{len(labelled)} jobs, fingerprint {jobs.fingerprint(labelled)}\n"
    assert sorted(path.name for path in folder.iterdir()) == sorted(job.name for job in labelled)
    for job in labelled:
        files = folder / job.name / "files"
        held = {p.relative_to(files).as_posix(): p.read_bytes() for p in files.rglob("*") if p.is_file()}
        assert held == job.files, job.name


def test_the_truth_stands_beside_the_files_and_not_among_them(
    labelled: list[BenchJob], written: tuple[Path, str]
) -> None:
    for job in labelled:
        assert json.loads((written[0] / job.name / "truth.json").read_text()) == job.truth.as_json()
        assert not {"truth.json", "expected.toml"} & {Path(path).name for path in job.files}


def test_every_truth_is_whole(labelled: list[BenchJob]) -> None:
    assert len({job.name for job in labelled}) == len(labelled)
    for job in labelled:
        truth = job.truth
        assert job.files, job.name
        assert truth.about
        assert set(truth.classes) <= set(CauseClass)
        assert not (truth.is_healthy and truth.culprits), job.name
        assert truth.is_healthy or truth.culprits or truth.cause in ("unfinished", "undetermined"), job.name


def test_simulated_jobs_have_their_share_of_dumps_and_of_health(labelled: list[BenchJob]) -> None:
    for author in ("simulator", "staged"):
        mine = [job for job in labelled if job.name.startswith(author)]
        drawn = [job for job in mine if "healthy" not in job.name]
        assert [bool(recorder_dumps(job.files)) for job in drawn] == [n % 2 == 0 for n in range(FEW - 1)]
        assert [job.truth.is_healthy for job in mine if job not in drawn] == [True]


def test_each_set_is_described_and_holds_jobs(labelled: list[BenchJob]) -> None:
    assert {job.origin for job in labelled} == {*jobs.SETS}
    assert len([job for job in labelled if job.origin == "strangers"]) == len(STRANGE)


def test_what_programs_of_others_wrote_is_a_set_of_its_own(labelled: list[BenchJob]) -> None:
    recorded = {job.name: job for job in labelled if job.origin == "recorded"}
    assert {"recorded-died", "recorded-jax-barrier"} <= {*recorded}
    assert not {"recorded-frozen", "recorded-slow-norms"} & {*recorded}
    gloo = {name for name, job in recorded.items() if has_unnamed_groups_only(job.files)}
    assert gloo == {name for name, job in recorded.items() if recorder_dumps(job.files)}
    assert gloo == {job.name for job in labelled if has_unnamed_groups_only(job.files)}


def test_a_bundled_incident_that_nobody_can_settle_says_so(labelled: list[BenchJob]) -> None:
    known = {job.name: job.truth for job in labelled}
    assert (known["bundled-frozen"].culprits, known["bundled-frozen"].tells_ranks) == (Ranks([7]), True)
    assert not known["bundled-expand-blamed"].tells_ranks


def test_the_fingerprint_follows_files_and_truth(labelled: list[BenchJob]) -> None:
    job = labelled[0]
    other_file = replace(job, files={**job.files, "note": b""})
    other_truth = replace(job, truth=replace(job.truth, tells_ranks=not job.truth.tells_ranks))
    assert len({jobs.fingerprint([one]) for one in (job, other_file, other_truth)}) == 3
    assert jobs.fingerprint(labelled) == jobs.fingerprint(reversed(labelled))


def test_dumps_are_the_largest_set_of_pickles_named_by_rank() -> None:
    files = {
        "a/trace_0": b"\x80\x02",
        "b/trace_0": b"\x80\x02",
        "b/trace_10": b"\x80\x02",
        "b/trace_11": b"{}",
        "b/trace_x": b"\x80\x02",
    }
    assert recorder_dumps(files) == {0: "b/trace_0", 10: "b/trace_10"}
    assert recorder_dumps({"rank_0": b"step 1"}) == {}


def test_a_dump_names_groups_where_one_holds_members() -> None:
    def dump(**groups: str) -> bytes:
        return pickle.dumps({"version": "2.4", "pg_config": {name: {"ranks": ranks} for name, ranks in groups.items()}})

    assert has_unnamed_groups_only({"fr_0": dump(a="[]"), "fr_1": dump()})
    assert not has_unnamed_groups_only({"fr_0": dump(a="[]"), "fr_1": dump(a="[]", b="[0, 1]")})
    assert not has_unnamed_groups_only({"rank_0": b"step 1", "fr_0": pickle.dumps([])})


def test_a_dump_that_is_broken_or_could_run_code_holds_nothing() -> None:
    whole = pickle.dumps({"version": "2.4"})
    assert content_of(whole) == {"version": "2.4"}
    assert content_of(whole[:-3]) == content_of(pickle.dumps(Path("/"))) == content_of(b"step 1") == {}
