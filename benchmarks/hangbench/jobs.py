"""The labelled jobs: the bundled incidents, and simulated jobs of fixed seeds, each with what is true about it."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.files.packing import as_bytes, write
from simulator import jobs as simulator
from staged import jobs as staged

from nccldoctor.cli import demo
from nccldoctor.model.ranks import Ranks

FIRST_SEED = 50_000
"""The first seed of both simulators. No other test or measurement of this repository takes seeds above it."""

HEALTHY_SHARE = 8
"""One of so many simulated jobs is healthy on purpose; by chance it would be one of twenty."""

DUMP = re.compile(r"^(?P<stem>.*?)(?P<rank>\d{1,7})$")
PICKLE = b"\x80"
"""The first byte of a pickle of protocol 2 and later, in which PyTorch writes its recorder dumps."""

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

    def write(self, folder: Path) -> None:
        """Write the files, and not the truth, below ``folder``."""
        write(folder, self.files)


def labelled_jobs(simulated: int) -> Iterator[BenchJob]:
    """All bundled incidents, then ``simulated`` jobs of each of the two simulators, an eighth of them healthy."""
    yield from bundled_jobs()
    for author, make in (("simulator", simulator.make), ("staged", staged.make)):
        healthy = simulated // HEALTHY_SHARE
        yield from drawn_jobs(author, make, simulated - healthy)
        yield from healthy_jobs(author, make, healthy)


def bundled_jobs() -> Iterator[BenchJob]:
    """The bundled incidents, as ``expected.toml`` has them; *undetermined* there means that nobody can tell."""
    for sample in demo.samples():
        verdict = tomllib.loads(demo.expected(sample.name))["verdict"]
        classes = tuple(verdict["class"])
        can_tell = "undetermined" not in classes
        truth = KnownTruth(sample.about, (Ranks.parse(verdict.get("ranks", "")),), classes, can_tell, can_tell)
        yield BenchJob(f"bundled-{sample.name}", demo.contents(sample.name), truth)


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


def recorder_dumps(files: Mapping[str, bytes]) -> dict[int, str]:
    """The recorder dumps as PyTorch writes them: rank to path.

    A dump is a pickle whose name ends in the rank. Of several sets with different names the largest counts, of equal ones the last.
    """
    sets: dict[str, dict[int, str]] = {}
    for path in sorted(files):
        named = DUMP.match(path)
        if named and files[path].startswith(PICKLE):
            sets.setdefault(named["stem"], {})[int(named["rank"])] = path
    return max(reversed(sets.values()), key=len, default={})


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
