"""The release that printed the lines changes no answer that was right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from properties.jobs import Job, made
from properties.verdicts import Pair
from simulator import jobs as simulator
from simulator.faults.scenarios import SCENARIOS
from simulator.knobs import ERAS


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """The same draw of the simulator in two other releases; what its files tell is judged anew."""
    if not isinstance(job.made, simulator.Job):
        return
    needs = SCENARIOS[job.made.truth["scenario"]].needs.get("era", tuple(ERAS))
    others = [era for era in ERAS if era in needs and era != job.made.knobs.era]
    for era in rng.sample(others, min(2, len(others))):
        other = made("simulated", simulator.make(job.made.seed, era=era))
        yield Pair(f"{job.made.knobs.era} -> {era}", other.files, other.truth)
