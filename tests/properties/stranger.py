"""A log that is not of this job changes nothing: of another job, of yesterday, of the attempt before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from random import Random

from damage.kinds.registry import Files, NotApplicable
from properties import jobs, stamps
from properties.jobs import Job
from properties.verdicts import Pair
from simulator import jobs as simulator
from staged import jobs as staged

EARLIER = {
    "of yesterday": ("yesterday", timedelta(hours=26)),
    "of the attempt before": ("attempt_0", timedelta(minutes=6)),
    "of another job": ("job-40777", timedelta(hours=3, minutes=10)),
}


_COUNT = re.compile(r"attempt_(\d+)/")


def _next(hit: re.Match[str]) -> str:
    return f"attempt_{int(hit[1]) + 1}/"


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """A log of a job with another seed, twice, whose last time is some time before the first of this job."""
    if job.is_well:
        return
    with suppress(NotApplicable):
        begin, _ = stamps.span(job.files)
        text, name, about = _other(rng, job)
        _, end = stamps.span({name: text})
        for how in rng.sample(sorted(EARLIER), 2):
            folder, before = EARLIER[how]
            files: Files = dict(job.files)
            if folder == "attempt_0":
                counted = next((path for path in files if "attempt_0/" in path), None)
                if counted:  # the launcher's own folders count on
                    folder = counted.partition("attempt_0/")[0] + folder
                    files = {_COUNT.sub(_next, path): content for path, content in files.items()}
                else:
                    files = {f"attempt_1/{path}": content for path, content in files.items()}
            stranger = stamps.moved(text, (begin - before - end).total_seconds())
            yield Pair(f"a log {how}: {about}", files | {f"{folder}/{name}": stranger}, job.truth)


def _other(rng: Random, job: Job) -> tuple[bytes, str, str]:
    """A log with dates of a failed job of the same author."""
    author, made = ("staged", staged.make) if isinstance(job.made, staged.Job) else ("simulated", simulator.make)
    for _ in range(20):
        other = jobs.made(author, made(rng.randrange(10_000, 20_000)))
        logs = [path for path in other.logs if len(stamps.dated(other.files[path])) > 3]
        if logs and not other.is_well:
            path = rng.choice(logs)
            return other.files[path], path.rpartition("/")[2], other.name
    raise NotApplicable
