"""Says why: the observations that speak for and against a finding, and the best other explanation.

The weights stand in ``causes.toml``, one table per class; ``nccldoctor explain CLASS`` prints it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.hypothesis import Conclusion
from nccldoctor.diagnose.rank_observations import LOG_READ, UNKNOWN, Observation, observe
from nccldoctor.model import CauseClass, Confidence, Evidence, Place, Reason, RunnerUp
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase

CONTRADICTS = -2.0
"""The weight from which on an observation rules a class out as another explanation."""


class CauseRow(Struct, frozen=True):
    """What observations weigh for a class, by ``name=value``, and what would separate it from each sibling.

    ``settled`` has the observation that already separates it from a sibling, ``read`` what would separate it where a log was read.
    """

    weights: dict[str, float]
    siblings: dict[CauseClass, str]
    settled: dict[CauseClass, str] = {}
    read: dict[CauseClass, str] = {}

    def is_separated_from(self, other: CauseClass, observations: Iterable[Observation]) -> bool:
        """True when an observation contradicts the other class, or answers what would separate the two."""
        seen = list(observations)
        weights = cause_table()[other].weights
        is_contradicted = any(weights.get(one.key, 0.0) <= CONTRADICTS for one in seen)
        return is_contradicted or self.settled.get(other) in {one.key for one in seen}

    def separated_by(self, other: CauseClass, observations: Iterable[Observation], ranks: Ranks) -> str:
        """What would separate the class from another, for these ranks; "" where nothing is known to."""
        is_read = LOG_READ in {seen.key for seen in observations}
        text = (self.read.get(other, "") if is_read else "") or self.siblings.get(other, "")
        return text.replace("{ranks}", ranks_phrase(ranks) if ranks else "each rank")


@cache
def cause_table() -> dict[CauseClass, CauseRow]:
    """The row of every class."""
    table = tomllib.loads(Path(__file__).with_name("causes.toml").read_text(encoding="utf-8"))
    return msgspec.convert(table, dict[CauseClass, CauseRow])


def reasons(observed: Iterable[Observation], cause: CauseClass, evidence: Sequence[Evidence]) -> tuple[Reason, ...]:
    """The observations that weigh for a class or against it, the strongest first, then the unknown ones."""
    row = cause_table()[cause]
    asked = {key.partition("=")[0] for key in row.weights}
    numbers: dict[Place | None, int] = {
        item.where: number for number, item in reversed(list(enumerate(evidence, 1))) if item.where is not None
    }
    rows = [
        Reason(seen.name, seen.value, seen.observer, row.weights.get(seen.key, 0.0), numbers.get(seen.where))
        for seen in observed
        if row.weights.get(seen.key) or (seen.value == UNKNOWN and seen.name in asked)
    ]
    return tuple(sorted(rows, key=lambda reason: -abs(reason.weight)))


def runner_up(facts: Facts, conclusion: Conclusion, rivals: Sequence[Conclusion]) -> RunnerUp | None:
    """The best other explanation: a hypothesis that held too, else the likeliest sibling where the class is in doubt.

    None where observations contradict them all.
    """
    row = cause_table()[conclusion.cause]
    named = [c for c in rivals if c.cause not in (CauseClass.NONE, CauseClass.UNDETERMINED)]
    for rival in sorted(named, key=lambda c: c.confidence.depth):
        ranks = rival.ranks or rival.suspects
        if not row.is_separated_from(rival.cause, observe(facts, rival.call, ranks)):
            asked = conclusion.ranks or ranks
            separated = row.separated_by(rival.cause, observe(facts, conclusion.call, asked), _told_apart(facts, asked))
            refuted_by = conclusion.refuted_by or rival.refuted_by
            return RunnerUp(rival.cause, ranks, separated or f"Check whether {refuted_by}.")
    if conclusion.confidence_in.cause is Confidence.HIGH:
        return None
    ranks = conclusion.ranks or conclusion.suspects
    observed = observe(facts, conclusion.call, ranks)
    for cause in row.siblings:
        if not row.is_separated_from(cause, observed):
            return RunnerUp(cause, ranks, row.separated_by(cause, observed, _told_apart(facts, ranks)))
    return None


def _told_apart(facts: Facts, ranks: Ranks) -> Ranks:
    """The ranks; none where they are the whole job, which has no other ranks to compare them with."""
    return ranks if facts.case.world - ranks else Ranks()
