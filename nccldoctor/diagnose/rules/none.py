"""The job is shown to be well.

What it means: it ended well, or goes on, and nothing that was read speaks against it.
How we know: every rank that was read ended well, or steps, completed calls or moved stacks are seen after everything that stood open.
No failure, and no line that looks like one, is left without an answer.
What would refute it: a file of this job that was not read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nccldoctor.align.facts import Facts
from nccldoctor.align.health.cadence import has_reached, reported_steps
from nccldoctor.align.health.proof import Health, Proof
from nccldoctor.diagnose.citations import Citation, Entry, Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.missing_input import loss_words
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.silence import has_dumped_while_stalled
from nccldoctor.events import Note, Stack
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb

CAUSE = CauseClass.NONE

FEW_STEPS = 4
"""Steps, or recorded calls, that it takes to see that a rank is late again and again."""

NO_NUMBER = Doubt.at_most(Confidence.LOW, "what the job computes is no longer a number")

_HEADS = {
    Proof.ENDED: "The job ended well: no stall and no failure in its files",
    Proof.STOPPED: "A person stopped the job; no stall and no failure before that",
    Proof.WENT_ON: "Some calls were in flight when the dumps were written; the job went on after them",
    Proof.COMPLETED: "Every recorded call completed on every rank: no rank waits",
    Proof.MOVED: "The job runs: steps or moved stacks follow the first look at it, and nobody complains",
}


@rule(CAUSE, refuted_by="a file of this job that was not read")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The job is proven to be well; silence alone proves nothing."""
    health = stall.health
    if not health.is_proven or has_dumped_while_stalled(facts):
        return None
    evidence = [*_good_ends(health), *_newest_records(facts)]
    if not evidence:
        return None
    lost = loss_words([gap for gap in facts.case.gaps if gap.lost])
    head = _HEADS[health.proof]
    diverged = [e for e in facts.case.of(Note) if e.has_lost_loss][:1]
    if diverged:
        head, evidence = f"{head}; but the loss is not a number", [Line(diverged[0], "the loss is lost"), *evidence]
    return Hypothesis(
        f"{head}; not everything could be read: {lost}" if lost else head,
        evidence,
        (*_doubts_of_proof(facts, health, lost), *_doubts_of_length(facts), *([NO_NUMBER] if diverged else [])),
        refuted_by=f"what is lost of {lost}" if lost else "",
    )


def _doubts_of_proof(facts: Facts, health: Health, lost: str) -> Iterator[Doubt]:
    """Doubts about the proof: only the good end of every rank of a job of known size is sure."""
    case, liveness = facts.case, facts.liveness
    seen = liveness.logged | liveness.dumped
    if lost:
        yield Doubt.at_most(Confidence.LOW, f"what is lost of {lost} may show otherwise")
    if not liveness.logged:
        yield Doubt.at_most(Confidence.LOW, "no log of a rank was read")
    if case.world_size is None:
        yield Doubt.at_most(Confidence.LOW, "the size of the job is not known")
    elif 2 * len(seen) < len(case.world):
        yield Doubt.at_most(Confidence.LOW, f"only {len(seen)} of {len(case.world)} ranks were read")
    elif case.world - seen:
        yield Doubt.at_most(Confidence.MEDIUM, f"{ranks_phrase(case.world - seen)} left nothing that was read")
    if facts.lateness.late:
        late = facts.lateness.late_ranks
        yield Doubt.at_most(Confidence.LOW, f"{ranks_phrase(late)} {verb(late, 'was', 'were')} late in call after call")
    if health.proof in (Proof.STOPPED, Proof.MOVED):
        yield Doubt.at_most(Confidence.LOW, "a job that is late looks the same")
    elif health.proof is not Proof.ENDED:
        yield Doubt.at_most(Confidence.MEDIUM, "no line says that the job ended")
    elif case.world - (health.ended | _at_last_step(facts)):
        yield Doubt.at_most(Confidence.MEDIUM, "not every rank is seen to end")


def _doubts_of_length(facts: Facts) -> Iterator[Doubt]:
    """A rank that is late again and again shows after some steps only."""
    steps = max((len(reported_steps(own)) for own in facts.liveness.by_rank.values()), default=0)
    calls = int(np.bincount(facts.case.call_rank[facts.progress.collective]).max(initial=0))
    if max(steps, calls) < FEW_STEPS:
        yield Doubt.at_most(
            Confidence.MEDIUM, f"fewer than {FEW_STEPS} steps are on record: a late rank would not show"
        )


def _at_last_step(facts: Facts) -> Ranks:
    """The ranks whose newest step is the newest of all, and those whose dump holds complete calls only."""
    activity = facts.liveness.by_rank
    newest = max((a.step for a in activity.values() if a.step is not None), default=None)
    waiting = Ranks(r for c in facts.wait_graph.calls.values() for r in c.inside | c.missing)
    done = Ranks(r for r, own in activity.items() if has_reached(own, newest))
    return done | (facts.liveness.dumped - waiting)


def _good_ends(health: Health) -> list[Citation]:
    return [Line(e, "it says that the job is done") for e in health.ends[:3]]


def _newest_records(facts: Facts) -> list[Citation]:
    """The last line and the newest call of some ranks."""
    out: list[Citation] = []
    for rank in facts.case.world:
        signs = facts.liveness.activity(rank)
        row = facts.progress.last_row.get(rank)
        last = signs.step_event if isinstance(signs.last_event, Stack) else signs.last_event
        if last is not None:
            out.append(Line(last, f"the last line of rank {rank}: no complaint"))
        if row is not None:
            out.append(Entry(row, f"the newest call of rank {rank}"))
        if len(out) >= 6:
            break
    return out
