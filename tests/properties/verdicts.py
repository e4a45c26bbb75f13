"""What an analysis said before and after a transformation, and what is wrong with the change."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from damage.harness import SCALE, Answer, seen_here
from damage.kinds.registry import Files
from damage.labelled import Truth
from properties.jobs import Job

from nccldoctor.model.ranks import Ranks

KINDS = {
    "crash": "an exception ended the analysis",
    "innocent at high": "a rank that is not at fault is named with high confidence, and was not named before",
    "innocent at medium": "the same with medium confidence",
    "worse with it": "the ranks and the class are right without a file, and wrong with it",
    "all-clear": "no failure is found where there is one, and it was found before",
    "wrong": "the ranks or the class are wrong now, and were right before",
    "accused": "something is said against a job in which nothing is wrong",
    "remedy": "a remedy is offered for a job in which nothing is wrong",
    "other ranks": "other ranks are named",
    "nobody": "nobody is named now",
    "other class": "the class is another",
    "surer": "the same is said with a higher confidence",
    "less sure": "the same is said with a lower confidence",
}
"""What can be wrong with a change, the worst first."""

NAMED_WRONG = ("crash", "innocent at high", "innocent at medium", "all-clear", "wrong")
FEWER = ("crash", "innocent at high", "innocent at medium", "worse with it")

MUST = {
    "unchanged": tuple(KINDS),
    "same ranks, never surer": (*NAMED_WRONG, "other ranks", "nobody", "surer"),
    "true": NAMED_WRONG,
    "no worse with the file": FEWER,
    "nothing wrong": ("crash", "accused", "remedy"),
}
"""What a property asks, and the kinds of change that break it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sets of files about one job. ``moved`` is where each rank of the first is in the second."""

    how: str
    after: Files
    truth: Truth
    before: Files | None = None
    moved: dict[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """A property without a label: what it asks of a change, and the pairs that it makes of a job."""

    name: str
    about: str
    must: str
    pairs: Callable[[Random, Job], Iterator[Pair]]


@dataclass(frozen=True, slots=True)
class Tried:
    """One pair of verdicts; ``broken`` is the worst kind of change that the property forbids, empty where it holds."""

    property: str
    job: str
    how: str
    before: Answer
    after: Answer
    broken: str = ""

    def __str__(self) -> str:
        remedy = f" {self.after.remedy}" if self.broken == "remedy" else ""
        return (
            f"{self.property}: {self.broken or 'holds'}: {self.job}: {self.how}: {self.before} -> {self.after}{remedy}"
        )


def verdict(files: Files) -> Answer:
    """The answer about these files, from this process."""
    try:
        return seen_here(files)
    except Exception:
        return Answer(crash=traceback.format_exc())


def tried(prop: Property, job: Job, pair: Pair, before: Answer) -> Tried:
    """What a pair shows; ``before`` is the answer about the job as it is."""
    first = before if pair.before is None else verdict(pair.before)
    after = verdict(pair.after)
    true = job.truth if pair.before is None else pair.truth
    kinds = set(changes(first, after, pair, true)) & set(MUST[prop.must])
    return Tried(prop.name, job.name, pair.how, first, after, next((kind for kind in KINDS if kind in kinds), ""))


def accuses(answer: Answer) -> bool:
    """Something is said against the job."""
    return bool(answer.blamed) or answer.cause not in ("none", "undetermined")


def changes(before: Answer, after: Answer, pair: Pair, true: Truth) -> Iterator[str]:
    """Every kind of change between two answers; ``true`` is what the first may say."""
    if after.crash:
        yield "crash"
        return
    truth = pair.truth
    was = Ranks((pair.moved or {}).get(rank, rank) for rank in Ranks.parse(before.ranks))
    now = Ranks.parse(after.ranks)
    if not truth.is_failure and accuses(after) and not accuses(before):
        yield "accused"
    if not truth.is_failure and after.remedy and not before.remedy:
        yield "remedy"
    if after.in_ranks in ("medium", "high") and any(not truth.has_rank(rank) for rank in set(now) - set(was)):
        yield f"innocent at {after.in_ranks}"
    if truth.is_failure and after.cause == "none" != before.cause:
        yield "all-clear"
    if after.is_wrong(truth) and before.is_right(true):
        yield "wrong"
    if after.is_right(truth) and before.is_wrong(true):
        yield "worse with it"
    if now != was:
        yield "other ranks" if now else "nobody"
    if after.cause != before.cause:
        yield "other class"
    steps = [
        SCALE.index(getattr(after, part)) - SCALE.index(getattr(before, part)) for part in ("in_ranks", "in_class")
    ]
    if max(steps) > 0:
        yield "surer"
    if min(steps) < 0:
        yield "less sure"
