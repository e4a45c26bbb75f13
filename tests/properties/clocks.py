"""Clocks err: with one host ahead of the others, or without dates, the same ranks are named and nothing is said more surely."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from properties import stamps
from properties.jobs import Job, host_of
from properties.verdicts import Pair

AHEAD = {"1 s": 1, "40 s": 40, "8 h": 8 * 3600}


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """One host's clock is ahead; and the dates of all times are gone."""
    if job.is_well:
        return
    host_of_file = {path: host_of(job, path) for path in job.files}
    if len(job.hosts) > 1 and all(host_of_file[path] or path not in job.logs for path in job.files):
        host, ahead = rng.choice(sorted(job.hosts)), rng.choice(sorted(AHEAD))
        moved = {p: stamps.moved(job.files[p], AHEAD[ahead]) for p, of in host_of_file.items() if of == host}
        if any(job.files[path] != content for path, content in moved.items()):
            yield Pair(f"{host} {ahead} ahead", job.files | moved, job.truth)
    cut = {path: stamps.without_dates(job.files[path]) for path in job.logs}
    if any(job.files[path] != content for path, content in cut.items()):
        yield Pair("times without dates", job.files | cut, job.truth)
