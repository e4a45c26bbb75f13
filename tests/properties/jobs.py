"""Jobs that transformations work on: files with a known truth, and the generator's job where a generator made them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.files.packing import as_bytes
from damage.kinds.folders import rank_in
from damage.kinds.registry import Files, texts
from damage.labelled import Truth, of_folders, of_truth
from simulator import jobs as simulator
from staged import jobs as staged

Made = simulator.Job | staged.Job

WELL = {"simulated": ("healthy", "healthy_scary", "snapshot"), "staged": ("finished", "finished_with_noise", "running")}
"""Scenarios of both generators in which nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job: its name, its files, what is true, its hosts with their ranks where they are known, and who made it."""

    name: str
    files: Files
    truth: Truth
    hosts: dict[str, list[int]]
    made: Made | None = None

    @property
    def is_well(self) -> bool:
        """Nothing is wrong with the job."""
        return not self.truth.is_failure

    @property
    def logs(self) -> list[str]:
        """The texts that processes wrote line by line."""
        return [path for path in texts(self.files) if not any(word in path for word in NO_LOGS)]


NO_LOGS = ("stack", "pyspy", "dmesg", "notes.md", ".yaml", ".py", ".toml", ".json")


def made(author: str, job: Made) -> Job:
    """A job of a generator."""
    known: dict[str, Any] = job.truth
    name = f"{author} {job.seed} {known['scenario']}"
    return Job(name, as_bytes(job.files), of_truth(known), known["hosts"], job)


def of_generators(seeds: Iterable[int]) -> Iterator[Job]:
    """A job of each generator for every seed."""
    for seed in seeds:
        yield made("simulated", simulator.make(seed))
        yield made("staged", staged.make(seed))


def of_well_jobs(seeds: Iterable[int]) -> Iterator[Job]:
    """Healthy jobs of both generators for every seed."""
    for seed in seeds:
        at = seed % 3
        yield made("simulated", simulator.make(seed, scenario=WELL["simulated"][at]))
        yield made("staged", staged.make(seed, scenario=WELL["staged"][at]))


def of_given(folders: Iterable[Path]) -> Iterator[Job]:
    """The jobs below these folders, each marked by ``truth.json`` or ``label.json``."""
    for job in of_folders(folders):
        yield Job(job.name, job.files, job.truth, {})


def host_of(job: Job, path: str) -> str | None:
    """The one host of which a file tells; None where it tells of several, or nobody knows."""
    words = re.split(r"[/_.]", path)
    named = next((host for host in job.hosts if host in words), None)
    if named:
        return named
    rank = rank_in(path)
    return next((host for host, ranks in job.hosts.items() if rank in ranks), None)
