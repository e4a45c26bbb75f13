"""More files never make it worse: without a file nobody innocent is named, and with it what was right stays right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from damage.kinds.registry import without
from properties.jobs import Job
from properties.verdicts import Pair


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """Each of two files left out. The same two answers show what adding it again does."""
    if len(job.files) < 2:
        return
    for path in rng.sample(sorted(job.files), min(2, len(job.files))):
        yield Pair(f"without {path}", without(job.files, [path]), job.truth)
