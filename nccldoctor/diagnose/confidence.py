"""Collects the doubts about a conclusion: those of its rule, and those that hold for every class.

A conclusion starts at *high* in its ranks and in its class. Each doubt names what it leaves of the two, so that a reader sees why a
confidence is not higher. No doubt raises a confidence.

A promise of 98 % takes 150 judged jobs with that kind of evidence. With fewer, *medium* is the most for the class. Stacks beside dumps or
logs only add observers, so that such jobs count with those without stacks. ``judged_jobs.toml`` holds the numbers;
``tests/scoring/calibrate.py --write`` writes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from nccldoctor.align.exits import SLACK
from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.hypothesis import Conclusion
from nccldoctor.diagnose.missing_input import MEMBERS_KNOWN, has_skipped_calls, loss_words, relevant_losses
from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.diagnose.signs.absence import are_only_ones_left
from nccldoctor.events import CallTimeout, ExceptionRaised
from nccldoctor.model import CauseClass, Confidence, Doubt, Family, Source, SourceKind
from nccldoctor.model.evidence_sources import observers
from nccldoctor.model.ranks import Ranks


def weighed(facts: Facts, conclusion: Conclusion) -> tuple[Doubt, ...]:
    """All doubts about a conclusion, the strongest first, each sentence once."""
    found = (
        *_of_observers(facts, conclusion),
        *_of_groups(facts, conclusion),
        *_of_nameless_errors(facts, conclusion),
        *_of_losses(facts, conclusion),
        *_of_worlds(facts, conclusion),
    )
    doubts = {doubt.says: doubt for doubt in found}
    own = {doubt.says: doubt for doubt in conclusion.doubts}
    found = (*own.values(), *(doubt for says, doubt in doubts.items() if says not in own))
    judged = judged_jobs().get(kind := kind_of_evidence(facts.case.sources), 0)
    if judged < ENOUGH and all(doubt.cause is Confidence.HIGH for doubt in found):
        found = (*found, doubt_of("few-judged", number=judged, kind=kind))
    return strongest_first(found)


def strongest_first(doubts: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    """The doubts by what they leave of the lower confidence; in the same order where they leave the same."""
    return tuple(sorted(doubts, key=lambda doubt: -max(doubt.ranks.depth, doubt.cause.depth)))


def _of_observers(facts: Facts, conclusion: Conclusion) -> Iterator[Doubt]:
    """High needs two independent observers and none that contradicts; one observer is medium at most.

    Which ranks it is may be sure all the same, where every other rank is proven to wait.
    """
    against = next((e for e in conclusion.evidence if not e.supports), None)
    if against is not None:
        yield doubt_of("contradicted", claim=against.says)
    kinds = observers(conclusion.evidence, conclusion.ranks)
    writers = {e.observer for e in conclusion.evidence if e.supports and e.observer}
    if len(kinds) < 2 and (conclusion.ranks or len(writers) < 2) and conclusion.cause is not CauseClass.UNDETERMINED:
        yield doubt_of("one-kind-of-source", shown=_are_shown_outside(facts, conclusion))


def _are_shown_outside(facts: Facts, conclusion: Conclusion) -> bool:
    """True when every other rank is proven to wait.

    The ranks must have left records of their own, but for the set-up of a group: its store itself counts who did not join.
    """
    ranks = conclusion.ranks
    if conclusion.cause.family is Family.SETUP and facts.case.world_size is not None:
        return bool(ranks) and frozenset(facts.case.world) <= ranks | conclusion.victims
    is_outside = conclusion.cause.family in (Family.ABSENT, Family.SLOW) and ranks <= facts.ledger.heard
    return is_outside and are_only_ones_left(facts, ranks)


ON_RECORD = (CauseClass.DIED, CauseClass.RAISED, CauseClass.HARDWARE, CauseClass.NETWORK, CauseClass.INIT)
"""Causes that something records, whichever call the others wait in."""


def _of_groups(facts: Facts, conclusion: Conclusion) -> Iterator[Doubt]:
    """Where several groups wait and nothing names them, each may miss a rank of its own."""
    if conclusion.cause in ON_RECORD or not (conclusion.ranks or conclusion.suspects):
        return
    # lines without a global rank, which a named rank may have written
    unplaced = (e for e in facts.case.of(CallTimeout) if e.rank is None and e.group is None)
    own = next((e.group_rank for e in unplaced if e.group_rank is not None), None)
    if own is not None and conclusion.ranks - facts.ledger.waiting:
        yield doubt_of("unplaced", group_rank=own, ranks=conclusion.ranks)
    if others := _waiting_for_strangers(facts, conclusion):
        yield doubt_of("waits-for-strangers", ranks=others)
    is_unnamed = any(group.learned == "unnamed" for group in facts.case.groups)
    if is_unnamed and not are_only_ones_left(facts, conclusion.ranks):
        yield doubt_of("groups-unnamed")


def _waiting_for_strangers(facts: Facts, conclusion: Conclusion) -> Ranks:
    """The ranks that wait in a group of which no other member is known.

    Example: the dump that lists the group is cut. Rank 1 waits in it for rank 3, which left nothing.
    """
    if conclusion.cause.family is not Family.ABSENT or are_only_ones_left(facts, conclusion.ranks):
        return Ranks()
    alone = (
        call.inside
        for call in facts.wait_graph.calls.values()
        if not (call.completed or call.blockers or call.missing or call.unknown or call.queued)
        and facts.case.groups[call.group].learned not in MEMBERS_KNOWN
        and facts.case.groups[call.group].members <= call.inside
    )
    return Ranks(rank for inside in alone for rank in inside) - conclusion.ranks


def _of_nameless_errors(facts: Facts, conclusion: Conclusion) -> Iterator[Doubt]:
    """An exception of no rank may be that of the rank that did not arrive.

    Which rank it is stays as sure. Its place below the first complaint says nothing where files were joined; a later time does.
    """
    if conclusion.cause not in (CauseClass.NOT_ARRIVED, CauseClass.FROZEN) or not conclusion.ranks:
        return
    raised = (e for e in facts.case.of(ExceptionRaised) if e.rank is None and e.origin == "own" and not e.logged)
    times = [facts.liveness.time(e) for e in raised]
    if any(not at > facts.liveness.alarm + SLACK for at in times):
        yield doubt_of("nameless-error")


def _of_losses(facts: Facts, conclusion: Conclusion) -> Iterator[Doubt]:
    lost = relevant_losses(facts, conclusion)
    if not lost:
        return
    is_order_open = conclusion.cause.family is Family.DISAGREE and has_skipped_calls(facts, lost)
    yield doubt_of("lost", what=loss_words(lost), decides=is_order_open)


def _of_worlds(facts: Facts, conclusion: Conclusion) -> Iterator[Doubt]:
    """Where worlds share rank numbers, the cause may stand in one that was left out."""
    gaps = [gap for gap in facts.case.gaps if gap.of_worlds]
    if any(not gap.apart for gap in gaps):
        yield doubt_of("worlds-mixed")
    elif gaps:
        is_open = conclusion.cause not in ON_RECORD and any(gap.ranks for gap in gaps)
        yield doubt_of("other-worlds", open=is_open)


ENOUGH = 150
"""Judged jobs from which on a kind of evidence may promise *high*."""


def kind_of_evidence(sources: Iterable[Source]) -> str:
    """The kind of evidence that a job left: ``dumps and logs``, ``dumps``, ``logs``, ``stacks`` or ``other files``."""
    kinds = {source.kind for source in sources}
    recorded = [name for name, kind in (("dumps", SourceKind.RECORDER), ("logs", SourceKind.LOG)) if kind in kinds]
    return " and ".join(recorded) or ("stacks" if SourceKind.STACKS in kinds else "other files")


@cache
def judged_jobs() -> dict[str, int]:
    """The judged jobs by kind of evidence."""
    return dict(tomllib.loads(Path(__file__).with_name("judged_jobs.toml").read_text(encoding="utf-8"))["jobs"])
