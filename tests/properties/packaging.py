"""How the lines are packed changes no rank: by rank, merged, labelled by srun, prefixed by kubectl, folded by Ray."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from damage.kinds.registry import Files
from damage.labelled import of_truth
from properties.jobs import Job
from properties.verdicts import Pair
from simulator import file_layouts
from simulator import jobs as simulator
from simulator.lines.book import Line
from simulator.program import Job as Program


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """The log lines of a simulated job in one of the other layouts, against one file a rank."""
    if not isinstance(job.made, simulator.Job):
        return
    played, plan, lines = file_layouts.lines_of(job.made.seed, job.made.truth["scenario"])
    name = rng.choice([name for name in file_layouts.LAYOUTS if name != "per-rank"])
    yield Pair(name, _packed(name, plan, lines), of_truth(played.truth), before=_packed("per-rank", plan, lines))


def _packed(name: str, plan: Program, lines: list[Line]) -> Files:
    with tempfile.TemporaryDirectory() as scratch:
        folder = file_layouts.write(Path(scratch), name, plan, lines)
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
