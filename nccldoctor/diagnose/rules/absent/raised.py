"""A rank ended with an exception of its own.

How we know: a traceback whose exception is not an echo of a failed collective, store or connection, or an error that CUDA returns to a
faulty program, of a rank that is not waiting in a call itself; the launcher's exit record where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nccldoctor.align.exits import SLACK, has_ended_badly
from nccldoctor.align.facts import Facts
from nccldoctor.align.failures import Failure
from nccldoctor.align.liveness import RankActivity
from nccldoctor.align.stack_activity import user_frame
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases import ends
from nccldoctor.diagnose.phrases.say import doubt_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import are_only_ones_left
from nccldoctor.diagnose.signs.silence import ranks_without_alarm, show_lost_connections
from nccldoctor.diagnose.signs.where_ranks_stand import is_about_itself
from nccldoctor.events import Event, ExceptionRaised, OutOfMemory, ProcessExit
from nccldoctor.model import CauseClass, Doubt, EventRole
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost

CAUSE = CauseClass.RAISED


@rule(CAUSE, refuted_by=say("refuted.after-exception"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The earliest exception of a rank that others wait for, or that nothing else explains."""
    waits_in = facts.wait_graph.waits_in
    failures = [f for f in facts.failures if f.cause is CAUSE and not any(waits_in.get(r) for r in f.ranks)]
    if stall.kind is StallKind.ABSENT:
        failures = [f for f in failures if f.ranks & stall.ranks] or [f for f in failures if f.certain and not f.ranks]
    elif stall.kind is not StallKind.CRASH:
        return None
    if not failures:
        return None
    only_left = _only_rank_left(facts, stall) if not failures[0].ranks else Ranks()
    if only_left:
        failures = [replace(failures[0], ranks=only_left, certain=False)]
    first = failures[0]
    if stall.kind is StallKind.CRASH:
        # what ranks met together: at one time, at an unknown one, or one error a few seconds apart
        error = ends.exception_words(first.events[0])
        soon = [f for f in failures if f.when - first.when <= SLACK and ends.exception_words(f.events[0]) == error]
        failures = [f for f in failures if f.when == first.when or f.when != f.when or f in soon]
    return _failed(facts, stall, failures, is_inferred=bool(only_left))


def _only_rank_left(facts: Facts, stall: ObservedStall) -> Ranks:
    """Returns the only rank that can have raised an exception whose line names no rank.

    It is the only absent rank, unless another one exited with 1 first; after a crash it is the only one that did so.
    """
    activities = facts.liveness.by_rank.items()
    failed = Ranks(r for r, activity in activities if any(e.exitcode == 1 and e.first for e in activity.exits))
    if stall.kind is StallKind.CRASH:
        return failed if len(failed) == 1 else Ranks()
    ranks = stall.named if stall.ranks == facts.wait_graph.roots else Ranks()  # one exception is not that of several
    return ranks if len(ranks) == 1 and (not failed or ranks <= failed) else Ranks()


def _failed(facts: Facts, stall: ObservedStall, failures: Sequence[Failure], *, is_inferred: bool) -> Hypothesis:
    ranks = Ranks(r for f in failures for r in f.ranks)
    citations: list[Citation] = [Line(e, ends.raised_by_record(e)) for f in failures[:4] for e in f.events]
    for rank in list(ranks)[:2]:
        own = facts.liveness.activity(rank)
        citations += [Line(e, say("ends.exited-by-record", rank=rank, code=e.exitcode)) for e in own.exits[:1]]
        if (stack := own.lingering_stack) is not None:
            place = innermost((user_frame(stack.frames) or stack.frames[0],))
            citations.append(Line(stack, say("ends.still-there", rank=stack.rank, place=place)))
        citations += stall.outside(rank)
    own_lines = [(f, facts.liveness.activity(r)) for f in failures for r in f.ranks]
    was_last = all(own.last_event in (*f.events, *own.own_exceptions) for f, own in own_lines)
    lost = show_lost_connections(facts, ranks) if was_last else []
    error = failures[0].events[0]
    seen = [e for e in facts.case.of(ProcessExit) if e.local_rank is not None and e.place.is_below(error.place)]
    quiet = all(isinstance(e, ExceptionRaised) for e in facts.case.events if e.consequence is EventRole.CASCADE)
    alone = seen if quiet and not ranks and [(e.first, e.exitcode) for e in seen] in ([(True, 1)], [(True, -6)]) else []
    named = who(facts.case, ranks) if ranks else ends.process_name(alone[0]) if alone else "a rank"
    headline = ends.crashed(named, error, is_only_logged=_is_only_logged(facts, failures[0]))
    if stall.call is not None:
        inside = stall.call.inside - ranks
        is_outside = stall.kind is StallKind.ABSENT and bool(ranks)
        headline = ends.before(headline, stall.what) if is_outside else ends.with_waiting(headline, inside, stall.what)
    return Hypothesis(
        headline,
        [*citations, *(Line(e, ends.ended_by_record(e)) for e in alone), Waiting(stall.call), *lost],
        [*_doubts_of_failure(facts, stall, failures[0], bool(lost), is_inferred)],
        ranks=ranks,
        suspects=Ranks() if ranks else ranks_without_alarm(facts) or stall.ranks,
        call=stall.call,
    )


def _doubts_of_failure(
    facts: Facts, stall: ObservedStall, first: Failure, has_broken_connection: bool, is_inferred: bool
) -> Iterator[Doubt]:
    """Doubts that the exception belongs to the rank, and that it came before the stall."""
    if not first.ranks:
        yield doubt_of("exception-without-rank")
    elif isinstance(first.events[0], ExceptionRaised) and first.events[0].is_of_mpi:
        yield doubt_of("mpi-peer")
    elif isinstance(first.events[0], OutOfMemory):
        yield doubt_of("memory-line")
    elif is_inferred and isinstance(first.events[0], ExceptionRaised) and not first.events[0].frames:
        # without its traceback: the program may have caught it, and printed what it was
        yield doubt_of("exception-line")
    elif is_inferred:
        failed = all(any(e.exitcode == 1 for e in facts.liveness.activity(r).exits) for r in first.ranks)
        if not failed or stall.kind is not StallKind.ABSENT:
            yield doubt_of("only-one-left", left=are_only_ones_left(facts, first.ranks))
    elif _is_only_logged(facts, first) and not has_broken_connection:
        missed = stall.kind is StallKind.ABSENT
        # a rank that went on and waits would say so too, as all others do
        of, time = facts.liveness.activity, facts.liveness.time
        others = facts.case.world - first.ranks
        later = Ranks(r for r in others for e in of(r).alarms if is_about_itself(e) and time(e) > first.when + SLACK)
        is_last = all(of(r).last_event in (*first.events, *of(r).own_exceptions) for r in first.ranks)
        silent = bool(others) and is_last and later == others
        yield doubt_of("caught", missed=missed, left=missed and are_only_ones_left(facts, first.ranks), silent=silent)
    elif not (first.certain or has_broken_connection or stall.kind is StallKind.ABSENT):
        yield doubt_of("caught-unmissed")
    if any(_is_possibly_later(facts, facts.liveness.activity(r), first.events[0]) for r in first.ranks):
        yield doubt_of("undated-exception")


def _is_possibly_later(facts: Facts, own: RankActivity, error: Event) -> bool:
    """True of an exception without a time whose rank wrote a line below it after others had timed out."""
    last = own.last_event
    is_below = last is not None and last.place.source == error.place.source and last is not error
    is_late = last is not None and facts.liveness.time(last) > facts.liveness.alarm + SLACK
    return is_below and is_late and math.isnan(facts.liveness.time(error))


def _is_only_logged(facts: Facts, failure: Failure) -> bool:
    """True when code caught the exception, and no exit or abort of its rank is on record."""
    return not failure.certain and not all(has_ended_badly(facts.liveness.activity(r)) for r in failure.ranks)
