"""Jobs whose truth is known: the bundled samples, simulated ones, and folders that hold ``truth.json`` or ``label.json``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builders.files.packing import as_bytes
from damage.kinds.registry import Files
from simulator import jobs as simulator
from staged import jobs as staged

from nccldoctor.cli import demo
from nccldoctor.model.ranks import Ranks

INSIDE = {"unfinished", "device-stalled", "network", "hardware"}
"""Classes of faults inside a call that all ranks entered."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a verdict may say: one of ``rank_sets`` and one of ``classes``; None where any answer is right.

    ``is_failure`` is true where *none* would be a false all-clear.
    """

    rank_sets: tuple[frozenset[int], ...] | None
    classes: frozenset[str] | None
    is_failure: bool

    def has_ranks(self, ranks: str) -> bool:
        return self.rank_sets is None or frozenset(Ranks.parse(ranks)) in self.rank_sets

    def has_class(self, cause: str) -> bool:
        """True for the class, and for one that says less than the class, and nothing else.

        *Unfinished* says less than the faults inside a call, and *not-arrived* less than a rank that comes later, in lines that are lost.
        """
        if self.classes is None or cause in self.classes:
            return True
        wider = {"unfinished": INSIDE, "not-arrived": {"straggler"}}
        return bool(self.classes & wider.get(cause, set()))

    def has_rank(self, rank: int) -> bool:
        return self.rank_sets is None or any(rank in ranks for ranks in self.rank_sets)

    def moved(self, one: int, other: int) -> Truth:
        """What a verdict may say where files of these two ranks have each other's name: the truth, or the truth moved with the names."""
        if self.rank_sets is None:
            return self
        names = {one: other, other: one}
        moved = (frozenset(names.get(rank, rank) for rank in ranks) for ranks in self.rank_sets)
        return replace(self, rank_sets=tuple(dict.fromkeys((*self.rank_sets, *moved))))


@dataclass(frozen=True, slots=True)
class Labelled:
    """A job: its name, its files, and what is true about it."""

    name: str
    files: Files
    truth: Truth


CLASSES_OF_LABELS = {
    "rank-missing": {"not-arrived", "frozen", "died", "raised", "missed-call"},
    "order-or-shape-mismatch": {
        "op-mismatch", "size-mismatch", "dtype-mismatch", "missed-call", "extra-call", "order-inversion", "unmatched-p2p"
    },
    "all-entered-not-finished": {"unfinished", "device-stalled", "network", "hardware"},
    "process-died": {"died", "raised"},
    "slow-or-timeout-too-short": {"straggler", "not-arrived"},
}  # fmt: skip
"""Verdicts of labelled texts, and the classes that say so; any other verdict is a class itself."""

OLD_CLASSES = {
    "rank_not_arrived": "not-arrived", "rank_dead": "died", "rank_exception": "raised", "rank_frozen": "frozen",
    "p2p_unmatched": "unmatched-p2p",
}  # fmt: skip
"""Classes as recorded captures name them."""


def of_samples() -> Iterator[Labelled]:
    """The bundled samples."""
    for sample in demo.samples():
        verdict = tomllib.loads(demo.expected(sample.name))["verdict"]
        ranks = frozenset(Ranks.parse(verdict.get("ranks", "")))
        truth = Truth((ranks,), frozenset(verdict["class"]), verdict["class"] != ["none"])
        yield Labelled(f"sample {sample.name}", demo.contents(sample.name), truth)


def of_simulator(seeds: Iterable[int]) -> Iterator[Labelled]:
    """Simulated jobs."""
    for seed in seeds:
        job = simulator.make(seed)
        yield Labelled(f"simulated {seed}", as_bytes(job.files), of_truth(job.truth))


def of_stage(seeds: Iterable[int]) -> Iterator[Labelled]:
    """Jobs of the second author."""
    for seed in seeds:
        job = staged.make(seed)
        yield Labelled(f"staged {seed}", as_bytes(job.files), of_truth(job.truth))


def of_folders(folders: Iterable[Path]) -> Iterator[Labelled]:
    """Every folder below these that holds ``truth.json`` (evidence beside it) or ``label.json`` (with ``log.txt``)."""
    for top in folders:
        for mark in sorted((*top.rglob("truth.json"), *top.rglob("label.json"))):
            known = json.loads(mark.read_text(encoding="utf-8"))
            files = {
                path.relative_to(mark.parent).as_posix(): path.read_bytes()
                for path in sorted(mark.parent.rglob("*"))
                if path.is_file() and path != mark
            }
            if any(path.startswith("raw/") for path in files):
                files = {path: content for path, content in files.items() if not path.startswith("fixed/")}
            truth = of_truth(known) if mark.name == "truth.json" else _of_label(known["expected"])
            yield Labelled(f"{top.name} {mark.parent.name}", files, truth)


def of_truth(known: dict[str, Any]) -> Truth:
    """The truth of a job that was made or recorded on purpose."""
    cause = OLD_CLASSES.get(known["class"], known["class"].replace("_", "-"))
    accepted = {OLD_CLASSES.get(c, c.replace("_", "-")) for c in known.get("acceptable_classes", ())} | {cause}
    for less in (known.get("without_logs", {}), known.get("without_dumps", {})):  # what is true of a part of the files
        accepted |= {OLD_CLASSES.get(c, c) for c in (less.get("class"), *less.get("acceptable_classes", ())) if c}
    tells_class = known.get("determinable_class", known.get("determinable", True))
    tells_ranks = known.get("determinable_ranks", known.get("determinable", True))
    culprits = frozenset(known["culprit_ranks"])
    sets = [
        culprits,
        *map(frozenset, known.get("acceptable_rank_sets", ())),
        frozenset(known.get("acceptable_ranks") or culprits),
    ]
    open_classes = accepted | {"unfinished", "undetermined"}
    return Truth(
        tuple(dict.fromkeys(sets if tells_ranks else [*sets, frozenset()])),
        frozenset(accepted if tells_class else open_classes),
        bool(known.get("hang", cause != "none")) or cause != "none",
    )


def _of_label(expected: dict[str, Any]) -> Truth:
    verdict = expected["verdict"]
    classes = CLASSES_OF_LABELS.get(verdict, {verdict}) | set(expected.get("acceptable_classes", ()))
    laggards = expected["laggards"]
    sets = None if not laggards else tuple(map(frozenset, [laggards, *expected.get("acceptable_rank_sets", ())]))
    return Truth(sets, frozenset(classes), expected.get("all_clear") is False)
