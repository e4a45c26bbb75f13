"""A backend is known by what its dumps show: another name changes no verdict."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from builders.jobs.cases import RecordedRank, world
from builders.jobs.verdicts import Ruling, read

import nccldoctor

SAMPLES = Path(__file__).parents[3] / "sample_logs"
ON_GLOO = sorted(
    folder.name
    for folder in SAMPLES.iterdir()
    if any(b"gloo:" in file.read_bytes() for file in folder.rglob("*") if file.is_file() and "." not in file.name)
)


def renamed(data: bytes, backend: str) -> bytes:
    dump = pickle.loads(data)
    for entry in dump["entries"]:
        entry["profiling_name"] = entry["profiling_name"].replace("gloo:", f"{backend}:")
    return pickle.dumps(dump, protocol=2)


def test_there_are_samples_on_gloo() -> None:
    assert "missed-call" in ON_GLOO


@pytest.mark.parametrize("name", ON_GLOO)
def test_a_renamed_backend_gets_the_same_verdict(name: str, tmp_path: Path) -> None:
    for source in (SAMPLES / name).rglob("*"):
        if source.is_file():
            data = source.read_bytes()
            target = tmp_path / source.relative_to(SAMPLES)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(renamed(data, "nccl2") if data.startswith(b"\x80\x02") else data)
    given = nccldoctor.analyze([SAMPLES / name]).diagnosis.verdict
    other = nccldoctor.analyze([tmp_path / name]).diagnosis.verdict
    assert (other.cause, other.ranks, other.suspects, other.confidence) == (
        given.cause,
        given.ranks,
        given.suspects,
        given.confidence,
    )


def ended_at_issue(backend: str, *counts: int) -> Ruling:
    """Dumps of a backend whose calls are retired as soon as they are issued, with so many calls on each rank."""
    ranks = [RecordedRank(r, world(4), backend=backend).calls(n, state="scheduled") for r, n in enumerate(counts)]
    return read({f"fr_trace_{one.rank}": one.data() for one in ranks})


@pytest.mark.parametrize("backend", ["gloo", "nccl2", "hccl", "fake"])
def test_calls_that_a_member_never_issued_have_not_ended_though_they_are_retired(backend: str) -> None:
    ruling = ended_at_issue(backend, 9, 8, 9, 9)
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert ended_at_issue(backend, 9, 9, 9, 9).cause == "none"


@pytest.mark.parametrize("backend", ["gloo", "nccl2", "hccl", "xccl", "site"])
def test_a_call_that_is_not_retired_waits_for_the_rank_that_did_not_issue_it(backend: str) -> None:
    ranks = [RecordedRank(r, world(4), backend=backend).calls(8, state="scheduled") for r in range(4)]
    for rank in (0, 2, 3):
        ranks[rank].call(done=False)
    ruling = read({f"fr_trace_{one.rank}": one.data() for one in ranks})
    assert (ruling.cause, ruling.ranks, ruling.at) == ("not-arrived", "1", ("ALLREDUCE", 9)), str(ruling)


def test_a_retired_call_of_a_backend_that_notes_completion_has_not_completed() -> None:
    ranks = [RecordedRank(r, world(4), backend="nccl2").calls(8) for r in range(4)]
    for rank in (0, 2, 3):
        ranks[rank].call(done=False, retired=True)
    ruling = read({f"fr_trace_{one.rank}": one.data() for one in ranks})
    assert (ruling.ranks, ruling.at) == ("1", ("ALLREDUCE", 9)), str(ruling)


@pytest.mark.parametrize("backend", ["gloo", "site"])
def test_a_mended_dump_gets_the_verdict_of_the_dump_as_recorded(backend: str) -> None:
    """Tools that mend a dump write *completed* where gloo says retired, also for the call in which ranks gave up."""

    def verdict(state: str) -> tuple[object, ...]:
        ranks = [RecordedRank(r, world(4), backend=backend).calls(8, state=state) for r in range(4)]
        for rank in (0, 2, 3):
            ranks[rank].call(done=True, state=state)
        ruling = read({f"fr_trace_{one.rank}": one.data() for one in ranks})
        return ruling.cause, ruling.ranks, ruling.at

    assert verdict("completed") == verdict("scheduled")
