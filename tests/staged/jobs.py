"""Stages jobs with known truth: ``make(seed)`` draws one, ``Job.write(folder)`` leaves its files.

A second author's jobs beside ``tests/simulator``, with which they share no code and no wording: there streams and
communicators are simulated, here a scene says who stands where, and wording, cadence, labels, layout, release and
losses are drawn. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from staged import truth
from staged.plan import Plan, draw, healthy
from staged.play import Played, open_works, run
from staged.scenes import absent, disagree, inside, others, strange, strange_files
from staged.scenes.stage import SCENES, STRANGE, Stage
from staged.writing.layouts import Files, Kept, collect

FAULTS = (absent, disagree, inside, others, strange, strange_files)
"""The modules whose scenes register themselves."""


@dataclass(frozen=True)
class Job:
    """A staged job: what is true about it, and the files it left."""

    seed: int
    truth: dict[str, Any]
    plan: Plan
    played: Played
    files: Files
    kept: Kept

    @property
    def about(self) -> str:
        """The draw, in one line."""
        plan = self.plan
        return (
            f"{plan.release} {plan.shape} {plan.world}/{len(plan.hosts)} {plan.sources} {plan.layout} {plan.launcher}"
        )

    def write(self, folder: Path) -> Path:
        """Write the files (not the truth) below ``folder``; returns it."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder


def scene_of(seed: int) -> str:
    """The scene that a seed plays."""
    return random.Random(f"scene {seed}").choice(sorted(SCENES))


def make(seed: int, *, scenario: str | None = None, cls: str | None = None) -> Job:
    """Stage one job; ``scenario`` or ``cls`` choose what goes wrong, else the seed does."""
    name = scenario or scene_of(seed)
    if cls is not None:
        name = random.Random(f"scene {seed}").choice(_of_class(cls))
    maker, needs = (SCENES | STRANGE)[name]
    plan = draw(seed, name, needs)
    programs = healthy(plan)
    before = [list(program) for program in programs]
    scene = maker(Stage(plan, programs, max(1, plan.steps - 2)))
    played = run(plan, programs, scene)
    files, kept = collect(plan, played, scene)
    if scene.twist is not None:
        scene.twist(files)
    works, missing = truth.root(plan, before, played, scene)
    told_ranks, told_class = truth.judge(plan, played, scene, kept, works)
    also = list(scene.also)
    if not told_class:
        also += _loose(scene.cls)
    known: dict[str, Any] = {
        "class": scene.cls,
        "scenario": name,
        "what": (maker.__doc__ or name).strip().split("\n")[0],
        "culprit_ranks": sorted(scene.culprits),
        "acceptable_classes": sorted({scene.cls, *also}),
        "acceptable_rank_sets": [sorted(s) for s in scene.rank_sets],
        "determinable_ranks": told_ranks,
        "determinable_class": told_class,
        "determinable": told_ranks and told_class,
        "hang": scene.stalled,
        "stalled": truth.describe(plan, played, scene, kept, works, missing),
        "world_size": plan.world,
        "hosts": {h: [r for r in range(plan.world) if plan.host(r) == h] for h in plan.hosts},
        "waits": {str(r): sorted({w.call.group.uid for w in open_works(played.works[r])}) for r in range(plan.world)},
    }
    return Job(seed, known, plan, played, files, kept)


def _of_class(cls: str) -> list[str]:
    """The scenes of a class: each is staged once to see."""
    return [n for n in sorted(SCENES) if make(0, scenario=n).truth["class"] == cls]


def _loose(cls: str) -> list[str]:
    """What else is a right answer where the files do not settle the class."""
    if cls in truth.ABSENT or cls == "straggler":
        return [*truth.ABSENT, "undetermined", "unfinished", "none" if cls == "straggler" else "undetermined"]
    if cls in truth.DISAGREE:
        return [*truth.DISAGREE, "not-arrived", "unfinished", "undetermined", "device-stalled"]
    if cls in ("hardware", "network", "device-stalled", "unfinished"):
        return [*truth.ABSENT, "unfinished", "device-stalled", "network", "undetermined"]
    return ["undetermined"] if cls == "undetermined" else ["undetermined", "unfinished"]


def seeds(first: int, last: int) -> Iterator[Job]:
    """The jobs of these seeds, both included."""
    for seed in range(first, last + 1):
        yield make(seed)
