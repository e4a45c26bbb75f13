"""What counts as right and wrong: one entry for each score, judged on one job and one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from hangbench.answers import FAMILIES, Answer
from hangbench.jobs import BenchJob, KnownTruth

Ending = Literal["answered", "crashed", "timed out", "no input"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one tool made of one job: how it ended, its answer, the processor seconds it took, and a complaint if it has none.

    A tool that crashed or ran out of time has the empty answer, which is scored like *cannot tell*.
    """

    job: BenchJob
    ending: Ending
    answer: Answer = field(default_factory=Answer)
    cpu_s: float = 0.0
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """One score: ``judge`` says for a job whether it happened, and None where the job is not asked."""

    title: str
    meaning: str
    is_fault: bool
    judge: Callable[[KnownTruth, Answer], bool | None]

    def count(self, outcomes: Iterable[Outcome]) -> tuple[int, int]:
        """The jobs in which it happened, and those that were asked."""
        judged = [self.judge(one.job.truth, one.answer) for one in outcomes]
        asked = [happened for happened in judged if happened is not None]
        return sum(asked), len(asked)

    def names(self, outcomes: Iterable[Outcome]) -> list[str]:
        """The names of the jobs in which it happened."""
        return [one.job.name for one in outcomes if self.judge(one.job.truth, one.answer)]


def is_exact(truth: KnownTruth, answer: Answer) -> bool | None:
    """Exactly the culprits, or another accepted set, are named."""
    return answer.ranks in truth.rank_sets if _has_known_culprits(truth) else None


def is_among(truth: KnownTruth, answer: Answer) -> bool | None:
    """All culprits are among the ranks and suspects that are named."""
    named = answer.ranks | answer.suspects
    return any(ranks <= named for ranks in truth.rank_sets) if _has_known_culprits(truth) else None


def has_class(truth: KnownTruth, answer: Answer) -> bool | None:
    """The class is one of the accepted ones."""
    return answer.cause in truth.classes if truth.tells_class and not truth.is_healthy else None


def has_family(truth: KnownTruth, answer: Answer) -> bool | None:
    """The class or family that is named belongs to the family of an accepted class."""
    if not truth.tells_class or truth.is_healthy:
        return None
    return FAMILIES.get(answer.cause or "") in _families(truth)


def accuses_innocent(truth: KnownTruth, answer: Answer) -> bool:
    """A rank is named that belongs to no accepted set."""
    return not all(any(rank in ranks for ranks in truth.rank_sets) for rank in answer.ranks)


def is_false_all_clear(truth: KnownTruth, answer: Answer) -> bool | None:
    """The job is called healthy although it failed."""
    return answer.says_healthy if "none" not in truth.classes else None


def is_wrong_for_sure(truth: KnownTruth, answer: Answer) -> bool | None:
    """With high confidence ranks, a class or an all-clear are stated that are not right."""
    if answer.confidence != "high":
        return None
    wrong_ranks = bool(answer.ranks) and answer.ranks not in truth.rank_sets
    stated = answer.cause
    if stated in FAMILIES.values() and stated not in truth.classes:  # a family alone, such as "absent"
        wrong_class = stated not in _families(truth)
    else:
        wrong_class = stated is not None and stated not in truth.classes
    return wrong_ranks or wrong_class or bool(is_false_all_clear(truth, answer))


def is_left_open(truth: KnownTruth, answer: Answer) -> bool | None:
    """No rank is named, and no all-clear given, although the files show the culprits."""
    return not answer.ranks and not answer.says_healthy if _has_known_culprits(truth) else None


def is_careful(truth: KnownTruth, answer: Answer) -> bool | None:
    """Where nobody can tell, nobody is named, or with low confidence, or the right ranks all the same."""
    if truth.tells_ranks or truth.is_healthy:
        return None
    return not answer.ranks or answer.confidence in ("low", "cannot-tell") or answer.ranks in truth.rank_sets


def is_all_clear(truth: KnownTruth, answer: Answer) -> bool | None:
    """A healthy job is called healthy."""
    return answer.says_healthy if truth.is_healthy else None


SCORES = (
    Score(
        "culprit exact",
        "exactly the ranks at fault are named and no other, of failed jobs whose files show them",
        False,
        is_exact,
    ),
    Score(
        "culprit among those named",
        "all ranks at fault are among the ranks and suspects named, of the same jobs",
        False,
        is_among,
    ),
    Score("class right", "the class is an accepted one, of failed jobs whose files show it", False, has_class),
    Score(
        "family right",
        "the class, or the family that is named instead, is of the right family, of the same jobs",
        False,
        has_family,
    ),
    Score(
        "careful where nobody can tell",
        "nobody is named, or with low confidence, or the right ranks, of jobs whose files do not show who is at fault",
        False,
        is_careful,
    ),
    Score("healthy job called healthy", "an all-clear, of healthy jobs", False, is_all_clear),
    Score("innocent accused", "a rank is named that is in no right answer, of all jobs", True, accuses_innocent),
    Score("false all-clear", "the job is called healthy, of failed jobs", True, is_false_all_clear),
    Score(
        "wrong with high confidence",
        "ranks, class or all-clear are wrong, of answers that state high confidence",
        True,
        is_wrong_for_sure,
    ),
    Score(
        "left open, though decidable",
        "no rank is named and no all-clear given, of failed jobs whose files show who is at fault",
        True,
        is_left_open,
    ),
)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """One outcome for the file of results."""
    return {
        "job": outcome.job.name,
        "ending": outcome.ending,
        "answer": outcome.answer.as_json() if outcome.ending == "answered" else None,
        "cpu_s": round(outcome.cpu_s, 3),
        "complaint": outcome.complaint,
    }


def _has_known_culprits(truth: KnownTruth) -> bool:
    return truth.tells_ranks and bool(truth.culprits)


def _families(truth: KnownTruth) -> set[str]:
    return {FAMILIES[cause] for cause in truth.classes}
