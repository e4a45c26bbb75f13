"""A rank skipped a call, so that it is out of step with its peers.

What it means: a branch, an exception that was swallowed, a loop that ended early: this rank is in a later phase while
its peers still wait for it.
How we know: its calls equal its peers' when moved by one; or it is missing from the call and its own recorded order shows that this call
always came there before; or its step counter is ahead of everybody's.
What would refute it: a record of the call on that rank, or the same order of calls on its peers.
"""

from __future__ import annotations

from nccldoctor.align.descriptions import describe, stalled_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.mismatches import Mismatch, Shift, find_shift
from nccldoctor.align.nccl_counter_evidence import counter_evidence, counters_of, expected_count, issue_evidence
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Dump, Entry, Line, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import nccl_counter_diffs
from nccldoctor.diagnose.signs.call_order import OrderBreak, find_unusual_call, has_one_call_fewer
from nccldoctor.diagnose.signs.nccl_counter_diffs import unlike
from nccldoctor.events import CollectiveMismatch
from nccldoctor.identify.nccl_counters import NcclCounters
from nccldoctor.model import CauseClass, Confidence, Stalled
from nccldoctor.model.ranks import Ranks, names

REFUTED = "a record of the call on that rank, or calls that it issued in another order"


def gone_on(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """By the counts of NCCL's own observers alone. Launches do not wait, so that a mere swap of two calls leaves equal counts."""
    if stall.kind is StallKind.CYCLE:
        found = [pair for call in stall.calls for pair in _skipped(facts, stall, call)]
    elif stall.kind is StallKind.ABSENT and stall.call is not None:
        found = [(stall.call, rank) for rank in stall.proven_absent if _goes_on(facts, stall.call, rank)]
    else:
        return None
    if len({rank for _, rank in found}) != 1 or unlike(facts):
        return None
    call, rank = found[0]
    one, other = counters_of(facts, call), _elsewhere(facts, call, rank)
    if one is None or other is None or rank not in one.lines:
        return None
    what = describe(facts, call)
    return Hypothesis(
        f"{names([rank]).capitalize()} skipped {what} and went on in communicator ({other.comm})",
        (
            counter_evidence(
                one.lines[rank], one, f"rank {rank} had issued #{one.last[rank]} as its last call, not {what}"
            ),
            counter_evidence(
                other.lines[rank], other, f"rank {rank} had issued #{other.last[rank]} of communicator ({other.comm})"
            ),
            *issue_evidence(facts, call, what, 2),
        ),
        Confidence.MEDIUM,
        ranks=Ranks([rank]),
        call=call,
    )


def _skipped(facts: Facts, stall: ObservedStall, call: StuckCall) -> list[tuple[StuckCall, int]]:
    """The rank that went past a call which most other members are in: the one that is missing from it, or the one that it waits for
    itself in a pair. Both look alike: other pairs tell which of the two is out of step.
    """
    if counters_of(facts, call) is None or len(call.inside) < 2 or len(call.inside) <= len(call.missing):
        return []
    out = []
    for rank in call.missing:
        held = next((other for other in stall.calls if other is not call and rank in other.inside), None)
        if held is None:
            continue
        pair = counters_of(facts, held)
        often = expected_count(facts, pair) if pair is not None else None
        mine, theirs = _totals(facts, held, held.inside), _totals(facts, held, held.missing)
        if len(held.missing) > len(held.inside) or (often is not None and min(mine, default=0) > often):
            out.append((call, rank))
        elif often is not None and len(held.missing) == 1 and max(theirs, default=often) < often:
            out.append((held, min(held.missing)))
    return out


def _totals(facts: Facts, call: StuckCall, ranks: Ranks) -> list[int]:
    one = counters_of(facts, call)
    return [one.totals[r] for r in ranks if r in one.totals] if one is not None else []


def _goes_on(facts: Facts, call: StuckCall, rank: int) -> bool:
    one = counters_of(facts, call)
    return (
        one is not None
        and rank not in one.advanced
        and any(rank in other.advanced for other in facts.case.nccl_counters)
    )


def _elsewhere(facts: Facts, call: StuckCall, rank: int) -> NcclCounters | None:
    """The other communicator in which the rank is ahead, or was seen to go on."""
    others = [o for o in facts.case.nccl_counters if o.group != call.group and rank in o.lines]
    return next((o for o in others if rank in o.advanced or (o.lagging and rank not in o.lagging)), None)


CAUSE = CauseClass.MISSED_CALL
REFUTED = "a record of the call on that rank, or the same order of calls on its peers"


@rule(CAUSE, refuted_by=REFUTED)
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """By alignment of streams, by the rank's own order, by its steps, or by the counts of NCCL's own observers."""
    return (
        by_shift(facts, stall, missed=True)
        or _by_order(facts, stall)
        or _by_custom(facts, stall)
        or _by_steps(facts, stall)
        or _by_phase(facts, stall)
        or gone_on(facts, stall)
        or nccl_counter_diffs.by_shift(facts, 1)
    )


def by_shift(facts: Facts, stall: ObservedStall, *, missed: bool) -> Hypothesis | None:
    """Ranks whose calls in a group equal their peers' when moved by one."""
    found = stall.mismatch
    if found is None or found.is_tie:
        return None
    shifts = [
        s
        for r in found.minority
        if (s := find_shift(facts.case, facts.progress, facts.sequences, found, r)) is not None
    ]
    if not shifts and missed:
        shifts = [s for r in found.minority if (s := usual_next(facts, found, r)) is not None]
    if not shifts or any(s.missed is not missed for s in shifts):
        return None
    first = min(shifts, key=lambda s: (s.seq, s.rank))
    ranks = Ranks(s.rank for s in shifts)
    evidence: list[Citation] = []
    for item in shifts[:3]:
        evidence.append(
            Entry(
                item.row,
                f"rank {item.rank} issued this as #{item.seq}; the next {item.length} calls fit its peers' when moved by one",
            )
        )
        evidence.append(Entry(item.peer_row, f"its peers issued this as #{item.seq}"))
    evidence += [Waiting(call, 2) for call in stall.calls[:1]]
    group = facts.case.groups[first.group]
    verb = "skipped" if missed else "issued one call too many at"
    whole = len(found.rows) >= len(group.members) and len(found.majority) >= 2
    return Hypothesis(
        f"{names(ranks).capitalize()} {verb} #{first.seq} of {group.label}: from there its calls are off by one",
        evidence,
        Confidence.HIGH if whole and all(s.sure for s in shifts) else Confidence.MEDIUM,
        ranks=ranks,
        refuted_by=REFUTED,
        stalled=_stalled(facts, first),
    )


def usual_next(facts: Facts, found: Mismatch, rank: int) -> Shift | None:
    """A rank that issued what usually follows the call it should have issued: skipped, even where its peers have not come further."""
    streams, row = facts.sequences, found.rows[rank]
    peer_row = found.rows[min(found.majority)]
    at = streams.position(rank, row)
    usual = streams.outcomes(rank, at) if at is not None else {}
    mine, due = int(streams.labels[row]), int(streams.labels[peer_row])
    if mine in usual or due not in usual:
        return None
    rows = streams.rows(rank)
    after = usual[due] + 1
    if at is None or after >= at or int(streams.labels[rows[after]]) != mine:
        return None
    return Shift(rank, found.group, found.seq, True, row, peer_row, 1)


def first_open(facts: Facts, group: int, seq: int, row: int) -> StuckCall:
    """The first call from number ``seq`` on that does not complete in a group: the one under which the difference hurts."""
    pending = {
        f.pending
        for f in facts.progress.by_group_rank.values()
        if f.group == group and f.pending is not None and f.pending >= seq
    }
    number = min(pending, default=seq)
    key = ("collective", group, number, 0)
    if key in facts.wait_graph.calls:
        return facts.wait_graph.calls[key]
    at = next(
        (
            f.row
            for f in facts.progress.by_group_rank.values()
            if f.group == group and f.pending == number and f.row >= 0
        ),
        row,
    )
    return StuckCall(key, group, number, facts.case.groups[group].members, Ranks(), Ranks(), Ranks(), Ranks(), row=at)


def _stalled(facts: Facts, first: Shift) -> Stalled | None:
    return stalled_of(facts, first_open(facts, first.group, first.seq, first.peer_row))


def _by_order(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A circle in which one rank left its own earlier order by going past the call."""
    if stall.kind is not StallKind.CYCLE:
        return None
    found = [
        o
        for o in stall.order_breaks
        if o.call.pair is None and (o.surplus == -1 or (o.surplus is None and not o.issued_later and o.went_past))
    ]
    return _draft(facts, found) if found else _by_count(facts, stall)


def _by_count(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The one rank of a circle that had issued a call fewer than everybody of its kind when all came to the same later call."""
    calls = [c for c in stall.calls if c.pair is None]
    short = {r: c for c in calls for r in c.missing | c.queued if has_one_call_fewer(facts, c, r)}
    if len(short) != 1:
        return None
    ((rank, call),) = short.items()
    counted = facts.progress.by_group_rank[call.group, rank].enqueued
    said = f"rank {rank} had issued {counted:,} calls of that group by its newest call, everybody of its kind {counted + 1:,}"
    shown = Dump(rank, said)
    return Hypothesis(
        f"Rank {rank} skipped a call of {facts.case.groups[call.group].label}: it issued one fewer than all others by the same later call",
        (shown, Waiting(call)),
        Confidence.MEDIUM,
        ranks=Ranks([rank]),
        call=call,
    )


def _by_custom(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A minority inside a call that is none of its peers', who all finished what stood there and went on."""
    call = stall.call
    if (
        stall.kind is not StallKind.FULL
        or call is None
        or call.pair is not None
        or len(call.inside) >= len(call.completed)
    ):
        return None
    found = {r: place for r in call.inside if (place := find_unusual_call(facts, call, r)) is not None}
    if len(found) < len(call.inside):
        return None
    evidence: list[Citation] = []
    for rank, (row, due) in list(found.items())[:3]:
        evidence.append(Entry(row, f"rank {rank} issued this, which no peer did"))
        evidence.append(Entry(due, f"an earlier step of rank {rank}: what always came there"))
    passed = next(iter(call.completed))
    last = Dump(passed, f"rank {passed} finished #{call.seq} and went on")
    group = facts.case.groups[call.group]
    return Hypothesis(
        f"{names(found).capitalize()} left the order of calls before #{call.seq} of {group.label}, and the others went on without it",
        (*evidence, last),
        Confidence.MEDIUM,
        ranks=Ranks(found),
        call=call,
    )


def _draft(facts: Facts, found: list[OrderBreak]) -> Hypothesis:
    ranks = Ranks(o.rank for o in found)
    first = found[0]
    evidence: list[Citation] = []
    for item in found[:3]:
        evidence.append(Entry(item.row, f"rank {item.rank} issued this where {describe(facts, item.call)} was due"))
        evidence.append(Entry(item.expected, item.source))
    evidence.append(Waiting(first.call))
    return Hypothesis(
        f"{names(ranks).capitalize()} skipped {describe(facts, first.call)} and went on; the others still wait in it",
        evidence,
        Confidence.HIGH if len(ranks) == 1 else Confidence.MEDIUM,
        ranks=ranks,
        call=first.call,
    )


def _by_phase(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A rank outside the call, or in another one under its number, whose last word is that its epoch, or its work, is over, while the
    others still wait for it in the loop.
    """
    if stall.kind not in (StallKind.ABSENT, StallKind.FULL):
        return None
    over = {
        r: s.phases[-1]
        for r, s in facts.liveness.by_rank.items()
        if s.phases and s.phases[-1].what in ("epoch-end", "finished")
    }
    found = stall.mismatch if stall.kind is StallKind.FULL else None
    outside = stall.named if stall.kind is StallKind.ABSENT else found.minority if found is not None else Ranks()
    ranks = Ranks(r for r in outside if r in over)
    if not ranks or Ranks(over) - ranks:
        return None
    evidence: list[Citation] = [Line(over[r], f"rank {r} says that it is done with the loop") for r in ranks]
    for rank in list(ranks)[:2]:
        evidence += stall.outside[rank]
    evidence.append(Waiting(stall.call))
    return Hypothesis(
        f"{names(ranks).capitalize()} left the loop early: {stall.what} was never issued there",
        evidence,
        Confidence.HIGH,
        ranks=ranks,
        call=stall.call,
    )


def _troubled(facts: Facts, rank: int) -> bool:
    """Whether a rank complains about a call, or was aborted by a library that received another size than it expected."""
    signs = facts.liveness.activity(rank)
    return bool(signs.secondary_errors or signs.alarms) or any(facts.case.of(CollectiveMismatch, rank))


def _by_steps(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A rank outside the call, or in another one under its number, that already reported a later step than anyone else, and
    complains itself.
    """
    if stall.kind is StallKind.CYCLE:
        return None
    steps = {r: s.step for r, s in facts.liveness.by_rank.items() if s.step is not None}
    names_ = stall.named if stall.kind is StallKind.ABSENT else Ranks(steps)
    if stall.kind is StallKind.FULL:
        found = stall.mismatch
        names_ = found.minority if found is not None else Ranks()
    if len(steps) < 3:
        return None
    ahead = Ranks(r for r in names_ if r in steps and all(steps[r] > s for o, s in steps.items() if o != r))
    ahead = Ranks(r for r in ahead if _troubled(facts, r))
    if len(ahead) != 1 or len({s for r, s in steps.items() if r not in ahead}) != 1:
        return None
    rank = next(iter(ahead))
    signs = facts.liveness.activity(rank)
    evidence: list[Citation] = []
    if signs.step_event is not None:
        evidence.append(Line(signs.step_event, f"rank {rank} already finished step {signs.step}"))
    other = next(s for r, s in sorted(facts.liveness.by_rank.items()) if r != rank and s.step_event is not None)
    if other.step_event is not None:
        evidence.append(Line(other.step_event, f"rank {other.rank} and all others only finished step {other.step}"))
    evidence += [
        Line(e, f"rank {rank} waits too, in a call of the next step")
        for e in (signs.secondary_errors + signs.alarms)[:1]
    ]
    evidence.append(Waiting(stall.call))
    what = stall.what if stall.call is not None else "a collective of the step before"
    return Hypothesis(
        f"Rank {rank} skipped {what}: it is one step ahead of everybody",
        evidence,
        Confidence.HIGH if stall.call is not None else Confidence.MEDIUM,
        ranks=ahead,
        call=stall.call,
    )
