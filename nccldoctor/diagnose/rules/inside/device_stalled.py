"""A rank queued the call, but its GPU stopped: no more of its calls finish while its process keeps running.

How we know: in one group the rank's last finished call is below its peers', it is in no call that lacks a member, and its process
queued further calls.
"""

from __future__ import annotations

from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Entry, Hypothesis, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.watchdog_diffs import EARLY
from nccldoctor.identify.clock_skew import SHARED
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.questions.backends import ON_CPU

FAR_BEHIND = 8
"""Completed calls between a rank and its peers that no snapshot of a running job shows."""

STANDS_STILL = 1_000_000_000
"""Nanoseconds after which a watchdog has noticed the end of a call for certain: it looks ten times a second."""

EARLY_ROOT = ("BROADCAST", "REDUCE", "GATHER", "SCATTER")
"""Operations whose root, or whose other ranks, may rightly finish early."""


@rule(CauseClass.DEVICE_STALLED, refuted_by="a later dump had shown more finished calls on that rank")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a device stands still: a minority is still in a call that the majority completed."""
    call = stall.call
    if stall.kind is not StallKind.FULL or call is None or call.pair is not None or not call.completed:
        return None
    if call.row >= 0 and facts.case.dumps[facts.case.calls.dump[call.row]].backend in ON_CPU:
        return None
    if len(call.inside) > len(call.completed) or stall.is_scattered or _is_mere_snapshot(facts, call):
        return None
    can_differ = EARLY_ROOT if call.row >= 0 else frozenset((*EARLY_ROOT, *EARLY))
    if stall.details is not None and stall.details.op in can_differ:
        return None
    stopped = Ranks(rank for rank in call.inside if _has_issued_more(facts, call, rank))
    # where nobody gave up, a few calls in flight are what every running job shows
    is_unproven = facts.liveness.first_alarm is None and not _is_holding_up_peers(facts, call, stopped)
    if not stopped or (is_unproven and not _is_alone_behind(facts, call)):
        return None
    progress = {rank: facts.progress.by_group_rank[call.group, rank] for rank in stopped}
    waiting = _calls_waiting_for(facts, call)
    own = [
        Entry(p.row, say("inside.queued-but-unfinished", rank=r, queued=p.enqueued, number=call.seq))
        for r, p in list(progress.items())[:3]
        if p.row >= 0
    ]
    peers = [(r, facts.progress.by_group_rank.get((call.group, r))) for r in list(call.completed)[:2]]
    known = [(r, front) for r, front in peers if front is not None and front.row >= 0]
    done = [Entry(p.row, say("inside.finished-on-peer", rank=r, number=p.completed)) for r, p in known]
    is_recorded = all(p.row >= 0 for p in progress.values())
    doubts = [] if waiting else [doubt_of("no-peer-waits", ranks=stopped)]
    if is_unproven:
        doubts.append(doubt_of("dumped-earlier", ranks=stopped))
    if not is_recorded:
        fronts = (facts.progress.by_group_rank.get((call.group, rank)) for rank in call.completed)
        pending = {front.pending for front in fronts if front is not None and front.pending is not None}
        # where no peers agree with each other, the ranks may as well be out of step
        doubts.append(doubt_of("counted-by-lines", apart=len(call.completed) < 2 or len(pending) > 1))
    if facts.case.groups[call.group].learned == "assumed":
        doubts.append(doubt_of("members-assumed"))
    held = [c for c in waiting if c.blockers & stopped and c.pair is None]  # the call that others wait in comes first
    return Hypothesis(
        headline_of("inside.gpu-stopped", who=who(facts.case, stopped), ranks=stopped, call=stall.what),
        [*own, *done, *(Waiting(other, 1) for other in waiting[:2])],
        doubts,
        ranks=stopped,
        call=next(iter(sorted(held, key=lambda c: c.group != call.group)), call) if call.row >= 0 else call,
        refuted_by=say("refuted.completions-moved", ranks=stopped),
    )


def _is_mere_snapshot(facts: Facts, call: StuckCall) -> bool:
    """True when many other ranks, too, are behind their peers in calls of their own.

    Devices do not stop by the dozen: such dumps show one running job at different moments. Two of a larger job may well have stopped.
    """
    calls = (s.call for s in facts.stalls if s.kind is StallKind.FULL and s.call is not None)
    behind = [call.inside for call in calls if 0 < len(call.inside) <= len(call.completed)]
    together = call.inside.union(*behind)
    return bool(together - call.inside) and 4 * len(together) > len(facts.case.world)


def _is_holding_up_peers(facts: Facts, call: StuckCall, stopped: Ranks) -> bool:
    """True when peers wait for the stopped rank elsewhere, or have left its call far or long behind.

    Example: rank 3 does not complete ALLREDUCE #18; ranks 0-2 wait in BROADCAST #7, which rank 3 has not even issued.
    """
    done = (f.completed for f in facts.progress.by_group_rank.values() if f.group == call.group)
    gap = max(done, default=call.seq) - call.seq
    waited_for = any(c.missing & stopped for c in _calls_waiting_for(facts, call))
    return gap >= FAR_BEHIND or waited_for or _was_done_long_ago(facts, call)


def _is_alone_behind(facts: Facts, call: StuckCall) -> bool:
    """True when one rank is in the call, and all others in a later one that it queued too."""
    others = facts.case.world - call.inside
    nexts = (c for c in _calls_waiting_for(facts, call) if c.group == call.group and c.queued == call.inside)
    return len(call.inside) == 1 < len(others) and any(c.inside == others for c in nexts)


def _was_done_long_ago(facts: Facts, call: StuckCall) -> bool:
    """True when peers had finished the call a second before the newest moment in the dumps of those inside it.

    A dump that was merely written earlier than theirs holds no later moment. Clocks can be compared where calls were finished together.
    """
    calls, rows = facts.case.calls, rows_at(facts.case, facts.progress, call.group, call.seq)
    done = [at for r in call.completed if r in rows and (at := int(calls.completed_ns[rows[r]])) > 0]
    mine = [facts.sequences.rows(r) for r in call.inside]
    shared = [(calls.completed_ns[m[facts.case.call_group[m] == call.group]] > 0).sum() for m in mine]
    if not done or min(shared) < SHARED:
        return False
    newest = min(max(int(calls.created_ns[m].max()), int(calls.completed_ns[m].max())) for m in mine)
    return newest - max(done) > STANDS_STILL


def _has_issued_more(facts: Facts, call: StuckCall, rank: int) -> bool:
    """True when the rank's host issued further calls after the one that does not complete."""
    front = facts.progress.by_group_rank.get((call.group, rank))
    last = facts.progress.last_row.get(rank)
    return front is not None and (
        front.enqueued > call.seq or (last is not None and front.row >= 0 and last > front.row)
    )


def _calls_waiting_for(facts: Facts, call: StuckCall) -> list[StuckCall]:
    """Calls in which peers that passed this one wait for a rank inside it."""
    others = (c for c in facts.wait_graph.calls.values() if c.key != call.key)
    found = [c for c in others if c.blockers & call.inside and c.inside - call.inside]
    return sorted(found, key=lambda c: (facts.issued_at.get(c.key, 0.0), c.key))
