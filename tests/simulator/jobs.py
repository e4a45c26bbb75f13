"""Simulates hung (and healthy) NCCL jobs with known truth.

``make(seed)`` plays one, ``Job.write(folder)`` leaves its files.

Ranks, streams, communicators, watchdogs, monitors and launchers act as they do in PyTorch 2.2 to 2.13; what they
print and dump is written in the form of the chosen release. No clock and no randomness but that of the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.discrete_events import Sim
from simulator.evidence import Files, gather
from simulator.faults import absent_rank, no_culprit, stuck_in_call, wrong_calls
from simulator.faults.scenarios import SCENARIOS, Fault, Stage
from simulator.files import write as write_files
from simulator.knobs import Knobs, draw
from simulator.program import Job as Plan
from simulator.program import make_job
from simulator.recorder import Dumps
from simulator.sequence_numbers import count_before, number
from simulator.steps import make_model, programs
from simulator.truth.determinable import judge
from simulator.truth.truth import Kept, describe, stalled_works
from simulator.watchdogs import Story, watch

__all__ = ["SCENARIOS", "Job", "make", "seeds"]

FAULTS = (absent_rank, wrong_calls, stuck_in_call, no_culprit)
"""The modules whose scenarios register themselves."""


@dataclass(frozen=True, slots=True)
class Job:
    """A finished job: what is true about it, and the files it left."""

    seed: int
    truth: dict[str, Any]
    knobs: Knobs
    files: dict[str, str | bytes]
    story: Story
    dumps: Dumps
    kept: Kept

    @property
    def about(self) -> str:
        """The draw, in one line."""
        knobs = self.knobs
        return f"{knobs.era} {knobs.layout} {knobs.world} {knobs.evidence} {knobs.files}"

    def write(self, folder: Path) -> Path:
        """Write the files (not the truth) below ``folder``; returns it."""
        write_files(folder, self.files)
        return folder


def _needs(rng: random.Random, needs: dict[str, Any], knobs: dict[str, Any]) -> dict[str, Any]:
    """The knobs a scenario needs, choices drawn; what the caller gave comes last."""
    out: dict[str, Any] = {}
    for key, value in needs.items():
        if key == "at_checkpoint":
            out["ckpt_every"] = rng.choice([20, 50, 100])
            out["step"] = out["ckpt_every"] * rng.randrange(1, 60)
        else:
            out[key] = rng.choice(value) if isinstance(value, tuple) else value
    return {**out, **knobs}


def play(
    seed: int, name: str, knobs: dict[str, Any]
) -> tuple[random.Random, Plan, Fault, Sim, Story, Dumps, list[Any]]:
    """Everything up to the files: place the job, edit its programs, run it, let the watchdogs act."""
    rng = random.Random(seed)
    chosen = SCENARIOS[name]
    drawn = draw(rng, **_needs(rng, chosen.needs, knobs))
    job = make_job(drawn)
    model = make_model(rng, job)
    first = max(1, drawn.step - 1)
    steps = range(first, drawn.step + drawn.sync_every + 3)
    healthy = programs(job, model, steps)
    edited = [list(program) for program in healthy]
    stage = Stage(job, model, rng, edited, drawn.step - first + (first == 1))
    fault = chosen.play(stage)
    fault.cls, fault.scenario, fault.what = chosen.cls, name, chosen.what
    sim = Sim(job, edited, first - (first == 1), fault.slow).run()
    counters = count_before(job, healthy, first)
    number(sim, counters)
    story = watch(job, sim, rng, fault.ends, fault.hang)
    return rng, job, fault, sim, story, Dumps(story, counters, first), healthy


def make(seed: int, *, scenario: str | None = None, cls: str | None = None, **knobs: Any) -> Job:
    """Play one job. ``scenario`` or ``cls`` choose the fault, else the seed does; ``knobs`` fix fields of "
    ":class:`Knobs`."""
    names = sorted(n for n, s in SCENARIOS.items() if cls in (None, s.cls))
    name = scenario or random.Random(f"scenario {seed}").choice(names)
    rng, job, fault, _, story, dumps, healthy = play(seed, name, knobs)
    files: Files = gather(rng, story, fault, dumps)
    works, missing = stalled_works(story, healthy, fault) if fault.hang else ([], set())
    told_ranks, told_class, classes = judge(story, fault, files.kept, works, missing)
    truth: dict[str, Any] = {
        "class": fault.cls,
        "scenario": name,
        "what": fault.what,
        "culprit_ranks": sorted(fault.culprits),
        "acceptable_classes": sorted(set(classes)),
        "acceptable_rank_sets": [sorted(s) for s in fault.rank_sets],
        "determinable_ranks": told_ranks,
        "determinable_class": told_class,
        "determinable": told_ranks and told_class,
        "suspects": sorted(fault.suspects),
        "hang": fault.hang,
        "stalled": describe(job, story, dumps, files.kept, works, missing) if fault.hang else None,
        "world_size": job.knobs.world,
        "hosts": {h: [r for r in range(job.knobs.world) if job.host(r) == h] for h in job.hosts},
        "exits": {str(f.rank): f.code for f in story.fates if f.code is not None},
    }
    return Job(seed, truth, job.knobs, files.content, story, dumps, files.kept)


def seeds(cls: str, count: int = 20) -> Iterator[int]:
    """Seeds whose own draw is of that class, in order."""
    found, seed = 0, 0
    names = sorted(SCENARIOS)
    while found < count:
        if SCENARIOS[random.Random(f"scenario {seed}").choice(names)].cls == cls:
            yield seed
            found += 1
        seed += 1
