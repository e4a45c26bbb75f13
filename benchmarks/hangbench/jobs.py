"""The labelled jobs: the bundled incidents, and simulated jobs of fixed seeds, each with what is true about it."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.files.packing import as_bytes, write
from simulator import jobs as simulator
from staged import jobs as staged
from staged.scenes.stage import STRANGE

from hangbench.dumps import recorder_dumps
from nccldoctor.cli import demo
from nccldoctor.model.ranks import Ranks

FIRST_SEED = 50_000
"""The first seed of both simulators. No other test or measurement of this repository takes seeds above it."""

HEALTHY_SHARE = 8
"""One of so many simulated jobs is healthy on purpose; by chance it would be one of twenty."""

STRANGE_SEED = 50_003
"""The seed of the kinds met at strangers: of the first twelve, that with which rank 0 is at fault least often."""

SETS = {
    "recorded": "Real processes: PyTorch, gloo, torchrun, py-spy and JAX wrote these files in formats of their own, on CPUs; the training "
    "script and its fault are ours. NCCL had no part in it, so there is no answer of RAS",
    "bundled": "The other incidents that come with nccldoctor: written after somebody's report, or simulated",
    "simulator": "A simulator that plays streams and communicators",
    "staged": "A second simulator, in which a scene says who stands where",
    "strangers": "Kinds on which an earlier build of nccldoctor erred when it met the files of strangers: one job of each, made anew by "
    "the second simulator",
}
"""The sets of jobs, by the first word of their names, and where they come from."""

Made = simulator.Job | staged.Job


@dataclass(frozen=True, slots=True)
class KnownTruth:
    """What is true about a job, and how much of it its files can tell.

    ``rank_sets`` are the right answers to *which ranks*, the culprits first; ``classes`` those to *why*, the true class first.
    Where ``tells_ranks`` is false nobody can tell the culprits from these files, and likewise the class.
    """

    about: str
    rank_sets: tuple[Ranks, ...]
    classes: tuple[str, ...]
    tells_ranks: bool
    tells_class: bool

    @property
    def culprits(self) -> Ranks:
        """The ranks at fault; none where no rank is."""
        return self.rank_sets[0]

    @property
    def cause(self) -> str:
        """The true class."""
        return self.classes[0]

    @property
    def is_healthy(self) -> bool:
        """Nothing is wrong with the job."""
        return self.cause == "none"

    def as_json(self) -> dict[str, Any]:
        """The truth as ``truth.json`` holds it."""
        return {
            "about": self.about,
            "healthy": self.is_healthy,
            "culprits": str(self.culprits),
            "accepted_ranks": [str(ranks) for ranks in self.rank_sets],
            "files_tell_ranks": self.tells_ranks,
            "class": self.cause,
            "accepted_classes": list(self.classes),
            "files_tell_class": self.tells_class,
        }


@dataclass(frozen=True, slots=True)
class BenchJob:
    """One labelled job: its name, the content of its files by path, and the truth, which no tool is shown."""

    name: str
    files: Mapping[str, bytes]
    truth: KnownTruth

    @property
    def origin(self) -> str:
        """The set that it belongs to: a key of :data:`SETS`."""
        return self.name.partition("-")[0]

    def write(self, folder: Path) -> None:
        """Write the files, and not the truth, below ``folder``."""
        write(folder, self.files)


def labelled_jobs(simulated: int) -> Iterator[BenchJob]:
    """All bundled incidents, ``simulated`` jobs of each simulator, an eighth of them healthy, and a job of each kind met at strangers."""
    yield from bundled_jobs()
    for author, make in (("simulator", simulator.make), ("staged", staged.make)):
        healthy = simulated // HEALTHY_SHARE
        yield from drawn_jobs(author, make, simulated - healthy)
        yield from healthy_jobs(author, make, healthy)
    yield from stranger_jobs()


def bundled_jobs() -> Iterator[BenchJob]:
    """The bundled incidents, as ``expected.toml`` has them; *undetermined* there means that nobody can tell."""
    for sample in demo.samples():
        known = tomllib.loads(demo.expected(sample.name))
        verdict, origin = known["verdict"], "recorded" if known["origin"]["kind"] == "recorded" else "bundled"
        classes = tuple(verdict["class"])
        can_tell = "undetermined" not in classes
        truth = KnownTruth(sample.about, (Ranks.parse(verdict.get("ranks", "")),), classes, can_tell, can_tell)
        yield BenchJob(f"{origin}-{sample.name}", demo.contents(sample.name), truth)


def drawn_jobs(author: str, make: Callable[[int], Made], count: int) -> Iterator[BenchJob]:
    """Jobs of the first seeds that fit: every second one leaves recorder dumps, for tools that read nothing else."""
    seed = FIRST_SEED
    waiting: dict[bool, list[BenchJob]] = {True: [], False: []}
    for number in range(count):
        wants_dumps = number % 2 == 0
        while not waiting[wants_dumps]:
            job = simulated_job(f"{author}-{seed}", make(seed))
            waiting[bool(recorder_dumps(job.files))].append(job)
            seed += 1
        yield waiting[wants_dumps].pop(0)


def healthy_jobs(author: str, make: Callable[..., Made], count: int) -> Iterator[BenchJob]:
    """Jobs with which nothing is wrong."""
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        yield simulated_job(f"{author}-healthy-{seed}", make(seed, cls="none"))


def stranger_jobs() -> Iterator[BenchJob]:
    """One job of each kind that once misled nccldoctor on the files of strangers; no seed draws such a kind."""
    for kind in sorted(STRANGE):
        name = f"strangers-{kind.replace('_', '-')}"
        yield simulated_job(name, staged.make(STRANGE_SEED, scenario=kind))


def simulated_job(name: str, made: Made) -> BenchJob:
    """A job of a simulator under a name."""
    return BenchJob(name, as_bytes(made.files), simulated_truth(made.truth))


def simulated_truth(known: Mapping[str, Any]) -> KnownTruth:
    """The truth of a simulated job."""
    culprits = Ranks(known["culprit_ranks"])
    others = (Ranks(ranks) for ranks in known["acceptable_rank_sets"])
    return KnownTruth(
        known["what"],
        tuple(dict.fromkeys((culprits, *others))),
        tuple(dict.fromkeys((known["class"], *known["acceptable_classes"]))),
        known["determinable_ranks"],
        known["determinable_class"],
    )


def fingerprint(jobs: Iterable[BenchJob]) -> str:
    """Twelve digits that are the same for the same jobs: names, files and truth."""
    digest = hashlib.sha256()
    for job in sorted(jobs, key=lambda job: job.name):
        parts = [job.name.encode(), json.dumps(job.truth.as_json(), sort_keys=True).encode()]
        for path, content in sorted(job.files.items()):
            parts += [path.encode(), content]
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:12]
