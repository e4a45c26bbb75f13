"""Several jobs on the nodes that were asked: which one is meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nccldoctor.dataclass import dataclass
from nccldoctor.model.ranks import Ranks

MOST_NAME, MOST_NUMBER = 500, 10_000_000
"""Characters of a name and the highest rank or pid that are believed."""


@dataclass(frozen=True, slots=True)
class JobHere:
    """A job on the nodes that were asked.

    ``name`` are the variables that its ranks share (``MASTER_ADDR=n1 MASTER_PORT=29500 WORLD_SIZE=8``), ``ranks`` those on these nodes.
    ``running`` are the processes of ranks that had not ended when their node had answered.
    """

    name: str
    ranks: Ranks
    running: tuple[int, ...] = ()


def jobs_of(processes: Iterable[Mapping[str, Any]]) -> tuple[JobHere, ...]:
    """The jobs of the processes that one node lists; rows of another form are none."""
    ranks: dict[str, set[int]] = defaultdict(set)
    running: dict[str, list[int]] = defaultdict(list)
    for row in processes:
        name, rank, pid = row.get("job"), _bounded(row.get("rank")), _bounded(row.get("pid"))
        if isinstance(name, str) and name and rank is not None and pid is not None and row.get("of") is None:
            ranks[name[:MOST_NAME]].add(rank)
            if row.get("ended") is False:
                running[name[:MOST_NAME]].append(pid)
    return tuple(JobHere(name, Ranks(ranks[name]), tuple(running[name])) for name in sorted(ranks))


def _bounded(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < MOST_NUMBER else None


def merged(jobs: Iterable[JobHere]) -> tuple[JobHere, ...]:
    """The jobs of several nodes, each once."""
    parts: dict[str, list[JobHere]] = defaultdict(list)
    for job in jobs:
        parts[job.name].append(job)
    return tuple(
        JobHere(
            name,
            Ranks(rank for part in parts[name] for rank in part.ranks),
            tuple(pid for part in parts[name] for pid in part.running),
        )
        for name in sorted(parts)
    )


def chosen_job(jobs: Sequence[JobHere]) -> JobHere | None:
    """The job with the most ranks among those that run, else among all; of equal ones the first by name."""
    running = [job for job in jobs if job.running]
    return max(sorted(running or jobs, key=lambda job: job.name), key=lambda job: len(job.ranks), default=None)
