"""More healthy ranks change no answer that was right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from properties.jobs import Job, made
from properties.verdicts import Pair
from simulator import jobs as simulator
from simulator.faults.scenarios import SCENARIOS


def pairs(rng: Random, job: Job) -> Iterator[Pair]:
    """The same scenario and seed on four times the hosts, of which the groups are as many times more."""
    if not isinstance(job.made, simulator.Job) or "nodes" in SCENARIOS[job.made.truth["scenario"]].needs:
        return
    nodes = job.made.knobs.nodes
    if job.made.knobs.world <= 16:
        other = made("simulated", simulator.make(job.made.seed, nodes=4 * nodes))
        yield Pair(f"{nodes} -> {4 * nodes} hosts", other.files, other.truth)
