"""Every remedy through the public call, on files: a job in which it comes first, and one, near it, in which it is absent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.remedies.remedy_jobs import Job
from diagnosis.remedies import divergence, lateness, machine, network, versions

from nccldoctor.pipeline import analyze
from nccldoctor.prescribe.catalogue.load import load_catalogue

MODULES = (lateness, divergence, machine, network, versions)
CASES: dict[str, tuple[Callable[[], Job], Callable[[], Job]]] = {}
for _module in MODULES:
    CASES |= _module.CASES
REMEDIES = sorted(entry.remedy.id for entry in load_catalogue().entries if not entry.is_discouraged)


def offered(job: Job, folder: Path) -> tuple[str, list[str]]:
    incident = analyze(job.write(folder / "logs"))
    told = f"{incident.verdict.cause} {incident.verdict.ranks} ({incident.verdict.confidence})"
    return told, [advice.id for advice in incident.diagnosis.remedies]


def test_every_remedy_has_a_job() -> None:
    assert sum(len(module.CASES) for module in MODULES) == len(CASES), "one table for each"
    assert sorted(CASES) == REMEDIES


def test_no_two_remedies_share_a_job() -> None:
    seen: dict[str, str] = {}
    for name, jobs in CASES.items():
        for number, make in enumerate(jobs):
            files = sorted(make().content().items())
            print_ = hashlib.sha256(repr(files).encode()).hexdigest()
            assert print_ not in seen, f"{name} {number} is {seen[print_]}"
            seen[print_] = f"{name} {number}"


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_remedy_comes_first(name: str, tmp_path: Path) -> None:
    told, ids = offered(CASES[name][0](), tmp_path)
    assert ids[:1] == [name], f"{told}: {ids}"


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_remedy_is_absent_from_its_near_miss(name: str, tmp_path: Path) -> None:
    told, ids = offered(CASES[name][1](), tmp_path)
    assert name not in ids, f"{told}: {ids}"


def test_the_headline_of_an_eviction_ends_with_a_sentence(tmp_path: Path) -> None:
    told = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9213Mi. Container a was using 212Gi."
    job = Job().raw("events.txt", f"2m11s   Warning   Evicted   pod/llm-ft-worker-2   {told}")
    headline = analyze(job.write(tmp_path / "logs")).verdict.headline
    assert "low on resource: ephemeral-storage." in headline
