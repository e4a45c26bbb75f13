"""The job is shown to be well.

How we know: every rank with a log or dump ended well, or steps, finished calls or moved stacks follow every open call. Every failure, and
every line that looks like one, is resolved by a later line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from nccldoctor.align.descriptions import describe_row
from nccldoctor.align.facts import Facts
from nccldoctor.align.health.proof import Health, Proof, has_flawed_dumps, has_open_calls
from nccldoctor.align.liveness import steps_among
from nccldoctor.diagnose.hypothesis import Citation, Entry, Hypothesis, Line
from nccldoctor.diagnose.missing_input import loss_words
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.ends import process_name
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import rank_or_process
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.silence import has_dumped_while_stalled
from nccldoctor.events import Heartbeat, Note, ProcessExit, Progress, Stack
from nccldoctor.events.base import Writer
from nccldoctor.model import CauseClass, Doubt
from nccldoctor.model.ranks import Ranks

FEW_STEPS = 4
"""Steps, or recorded calls, that it takes to see that a rank is late again and again."""

_HEADS = {
    Proof.WENT_ON: "undetermined.kept-running",
    Proof.COMPLETED: "undetermined.all-calls-finished",
    Proof.MOVED: "undetermined.still-moving",
}


@rule(CauseClass.NONE, refuted_by=say("refuted.missing-file-showed-failure"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The job is proven to be well; silence alone proves nothing. Nobody knows that of a folder in which another run failed."""
    health = stall.job.health
    if not health.is_proven or has_dumped_while_stalled(facts) or any(gap.failed for gap in facts.case.gaps):
        return None
    evidence = [*_stop(facts, health), *_good_ends(facts, health), *_newest_records(facts)]
    if not evidence:
        return None
    lost = loss_words([gap for gap in facts.case.gaps if gap.lost])
    head = headline_of(_HEADS[health.proof]) if health.proof in _HEADS else _end_headline(facts, health)
    doubts = [*_doubts_of_proof(facts, health, lost), *_doubts_of_length(facts)]
    diverged = [e for e in facts.case.of(Note) if e.has_lost_loss][:1]
    if diverged:
        doubts.append(doubt_of("loss-is-nan"))
        head = headline_of("undetermined.but-loss-is-nan", found=head.sure.removesuffix("."))
        evidence = [Line(diverged[0], say("undetermined.loss-is-nan")), *evidence]
    return Hypothesis(
        headline_of("undetermined.but-unreadable", found=head.short, lost=lost) if lost else head,
        evidence,
        doubts,
        refuted_by=say("refuted.lost-part-showed-failure", lost=lost) if lost else "",
    )


def _end_headline(facts: Facts, health: Health) -> Headline:
    """How the job ended; with its steps where all ranks reported each of them, and where a person stopped it."""
    if health.proof is Proof.STOPPED:
        newest = _newest_step(facts)
        total = newest.total if isinstance(newest, Progress) else None
        return headline_of("undetermined.stopped-before-end", step=newest.step if newest else None, total=total or None)
    world = facts.case.world
    if facts.case.world_size is None or world - (health.ended | _at_last_step(facts)):
        return headline_of("undetermined.job-finished")
    if facts.case.is_size_guessed:
        return headline_of("undetermined.ranks-finished", ranks=world, steps=_counted_steps(facts) or None)
    exits = {e.rank: e.exitcode for e in facts.case.of(ProcessExit)}
    exited, steps = all(exits.get(rank) == 0 for rank in world), _counted_steps(facts) or None
    return headline_of("undetermined.all-finished", size=len(world), steps=steps, exited=exited)


def _counted_steps(facts: Facts) -> int | None:
    """The steps of the job where every rank reported all of them, from the first; else None.

    One line shows no more than that the first step is reported: the next may be the twentieth.
    """
    of_rank = {tuple(facts.liveness.activity(rank).reported_steps) for rank in facts.case.world}
    steps = of_rank.pop() if len(of_rank) == 1 else ()
    is_whole = len(steps) > 1 and steps[0] in (0, 1) and len(steps) == steps[-1] - steps[0] + 1
    return len(steps) if is_whole else None


def _doubts_of_proof(facts: Facts, health: Health, lost: str) -> Iterator[Doubt]:
    """Doubts about the proof: only the good end of every rank of a job of known size is sure."""
    case, liveness = facts.case, facts.liveness
    seen = liveness.logged | liveness.dumped
    if lost:
        yield doubt_of("lost", what=lost, decides=True)
    elif has_flawed_dumps(facts):
        yield doubt_of("odd-dumps")
    if not liveness.logged:
        yield doubt_of("no-rank-logs")
    if case.world_size is None:
        yield doubt_of("world-size-unknown")
    elif 2 * len(seen) < len(case.world):
        yield doubt_of("few-read", seen=len(seen), world=len(case.world))
    elif case.world - seen:
        yield doubt_of("left-nothing-behind", ranks=case.world - seen)
    elif case.is_size_guessed:
        yield doubt_of("world-size-guessed")
    if facts.lateness.late:
        yield doubt_of("late-often", ranks=facts.lateness.late_ranks)
    if health.proof in (Proof.STOPPED, Proof.MOVED):
        yield doubt_of("slow-looks-same")
    elif health.proof is not Proof.ENDED:
        yield doubt_of("no-end-logged")
    elif case.world - (health.ended | _at_last_step(facts)):
        yield doubt_of("not-all-ended")
    elif has_open_calls(facts) and all(math.isnan(liveness.time(event)) for event in health.ends):
        yield doubt_of("end-undated")


def _doubts_of_length(facts: Facts) -> Iterator[Doubt]:
    """A rank that is late again and again shows after some steps only."""
    steps = max((len(own.reported_steps) for own in facts.liveness.by_rank.values()), default=0)
    calls = int(np.bincount(facts.case.call_rank[facts.progress.collective]).max(initial=0))
    if max(steps, calls) < FEW_STEPS:
        newest = _newest_step(facts)
        is_of_no_rank = steps == 0 and newest is not None and (newest.step or 0) >= FEW_STEPS
        yield doubt_of("no-steps-by-rank") if is_of_no_rank else doubt_of("few-steps", steps=FEW_STEPS)


def _newest_step(facts: Facts) -> Heartbeat | Progress | None:
    """The line with the highest step that any writer reported, its own rank or not."""
    return max(steps_among(facts.case.events), key=lambda line: line.step or 0, default=None)


def _at_last_step(facts: Facts) -> Ranks:
    """The ranks whose newest step is the newest of all, and those whose dump holds complete calls only."""
    activity = facts.liveness.by_rank
    newest = max((a.step for a in activity.values() if a.step is not None), default=None)
    waiting = Ranks(r for c in facts.wait_graph.calls.values() for r in c.inside | c.missing)
    done = Ranks(r for r, own in activity.items() if own.has_reached(newest))
    return done | (facts.liveness.dumped - waiting)


def _stop(facts: Facts, health: Health) -> list[Citation]:
    """The line in which a person stopped the job, and the newest step until then."""
    if health.proof is not Proof.STOPPED:
        return []
    newest = _newest_step(facts)
    shown = [newest] if newest else []
    step = [Line(e, say("undetermined.last-step", who=rank_or_process(e.rank), step=e.step or 0)) for e in shown]
    told = next((e for e in health.stops if e.written_by is not Writer.RANK), health.stops[0])
    return [Line(told, say("undetermined.stopped-here")), *step]


def _good_ends(facts: Facts, health: Health) -> list[Citation]:
    """What programs say of their end, and the first good exit of these ranks that a launcher saw: another observer."""
    own = [e for e in health.ends if not isinstance(e, ProcessExit)]
    exits = (e for e in facts.case.of(ProcessExit) if e.exitcode == 0 and (e in health.ends or e.rank in health.ended))
    seen = [(e, process_name(e) if e.rank is None else rank_or_process(e.rank)) for e in islice(exits, 1)]
    return [
        *(Line(e, say("undetermined.reported-end", who=rank_or_process(e.rank))) for e in own[:3]),
        *(Line(e, say("undetermined.exited-with", who=name, code=0)) for e, name in seen),
    ]


def _newest_records(facts: Facts) -> list[Citation]:
    """The last line and the newest call of some ranks. A line about an error is no proof, although later work answers it."""
    out: list[Citation] = []
    for rank in facts.case.world:
        signs = facts.liveness.activity(rank)
        row = facts.progress.last_row.get(rank)
        last = signs.step_event if isinstance(signs.last_event, Stack) else signs.last_event
        if last is not None and not (last.is_trouble or last.is_stop_by_person):
            out.append(Line(last, say("undetermined.last-line-is-fine", rank=rank)))
        if row is not None:
            out.append(Entry(row, say("undetermined.last-recorded-call", rank=rank, call=describe_row(facts, row))))
        if len(out) >= 6:
            break
    return out
