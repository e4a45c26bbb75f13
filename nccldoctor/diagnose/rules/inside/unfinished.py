"""All members entered the call and it did not finish, and no more is known.

How we know: every member recorded the call, or timed out in it, with the same operation and sizes; no rank's calls are out of
step and no GPU or transport reports an error. We name no rank.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.unrecorded_waits import has_hidden_transfers, ranks_in_lost_calls
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import where_ranks_stand as where
from nccldoctor.diagnose.signs.absence import is_shown_whole
from nccldoctor.diagnose.signs.watchdog_diffs import EARLY
from nccldoctor.events import CallTimeout
from nccldoctor.model import CauseClass, Doubt


@rule(CauseClass.UNFINISHED, refuted_by=say("refuted.member-elsewhere", call="the call"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a call hangs although no member is shown to be missing."""
    call = stall.call
    if stall.kind is not StallKind.FULL or call is None or (len(call.entered) < 2 and call.row >= 0):
        return None
    can_end_early = stall.details is not None and stall.details.op in EARLY
    if (call.completed and not can_end_early) or stall.is_scattered:
        return None
    whole = is_shown_whole(facts, call)
    if len(call.inside) < 2 and not whole:
        return None  # one rank's word: whoever it waits for may be anybody
    is_all = call.entered == facts.case.world
    headline = (
        headline_of("inside.none-finished", ranks=call.entered, is_all=is_all, call=stall.what)
        if whole and not call.completed
        else headline_of("inside.stuck-without-absentee", inside=call.inside, call=stall.what, passed=call.completed)
    )
    few, most = where.odd_ones(facts)
    evidence: list[Citation] = [Waiting(call, 4), *where.show(facts, few, most), *where.show(facts, most, few)[:1]]
    doubts, refuted_by = [*_doubts(facts, call, whole)], say("refuted.member-elsewhere", call=stall.what)
    return Hypothesis(
        headline, evidence, doubts, suspects=where.known_ranks(few) or call.completed, call=call, refuted_by=refuted_by
    )


def _doubts(facts: Facts, call: StuckCall, whole: bool) -> Iterator[Doubt]:
    """Doubts that all members are in the call, that they agree, and that it does not end."""
    group = facts.case.groups[call.group]
    is_silent = facts.liveness.first_alarm is None
    if len(call.inside) < 2 or not whole:
        yield doubt_of("not-all-inside")
    if call.completed:
        yield doubt_of("some-passed", passed=call.completed)
    if group.learned == "listed" and len(facts.case.world) == 2:
        yield doubt_of("may-be-two-of-many")
    if is_silent and (facts.liveness.logged or has_hidden_transfers(facts.case)):  # no watchdog wrote them
        yield doubt_of("may-end")
    # watchdogs give up on whatever queues behind, and lines of one second do not show which came first
    given_up = {e.seq for e in facts.case.of(CallTimeout) if e.rank in call.entered and e.seq is not None}
    if call.row < 0 and given_up - {call.seq}:
        yield doubt_of("order-of-timeouts")
    dtypes = facts.case.calls.dtypes[call.row] if call.row >= 0 else -1
    has_none = dtypes >= 0 and not any(facts.case.vocabulary.dtypes[dtypes])
    # the ring of a dumped rank no longer holds the call, or only a line shows a rank in a call that others recorded
    fronts = (facts.progress.by_group_rank.get((call.group, r)) for r in call.entered)
    by = {front.known_by for front in fronts if front is not None}
    is_apart = "status" in by or (call.row >= 0 and "log" in by)
    if has_none or group.learned in ("listed", "seats") or is_apart:
        yield doubt_of("not-comparable")
    if call.row < 0:
        yield doubt_of("only-lines")
    if is_silent:
        yield doubt_of("no-timeout")
    if not frozenset(facts.case.world) <= facts.liveness.dumped | facts.liveness.logged:  # it may wait in another call
        yield doubt_of("may-queue-behind")
    if lost := ranks_in_lost_calls(facts.case) & call.entered:
        yield doubt_of("open-call-lost", ranks=lost)
