"""A rank skipped a call, so that it is out of step with its peers.

What it means: a branch, an exception that was swallowed, a loop that ended early: this rank is in a later phase while
its peers still wait for it.
How we know: its calls match its peers' when shifted by one; or it is missing from the call, and in its own earlier steps this call
always came at that point; or its step counter is ahead of all its peers'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nccldoctor.align.descriptions import describe_entry, describe_group, describe_row, in_group, stalled_of
from nccldoctor.align.divergence.departures import Departure, Way
from nccldoctor.align.divergence.step_counters import StepCount, comparable_counts, only_rank_ahead, ranks_past_loop
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Citation, Dump, Entry, Hypothesis, Line, Waiting, row_of_number
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import nccl_counter_diffs
from nccldoctor.diagnose.signs.call_order import (
    find_unusual_call,
    has_one_call_fewer,
    left_out_batches,
    show_order_break,
)
from nccldoctor.diagnose.signs.issue_order import Change, OrderChange
from nccldoctor.events import CollectiveMismatch, Phase
from nccldoctor.model import CauseClass, Doubt
from nccldoctor.model.ranks import Ranks


@rule(CauseClass.MISSED_CALL, refuted_by="that rank had an entry for the call")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a rank skipped a call. By aligned calls, its own order, its steps, or counts of NCCL's own observers."""
    return (
        moved_calls(facts, stall, Way.MISSED)
        or _left_own_order(facts, stall)
        or _unusual_call(facts, stall)
        or _one_step_ahead(facts, stall)
        or _left_the_loop(facts, stall)
        or nccl_counter_diffs.find_skip(facts, stall)
        or nccl_counter_diffs.by_shift(facts, 1)
        or _left_out_a_batch(facts, stall)
    )


def moved_calls(facts: Facts, stall: ObservedStall, way: Way) -> Hypothesis | None:
    """Ranks whose calls in a group equal their peers' when moved: calls missed, or added.

    Example: peers issued A #7, B #8, C #9, and rank 3 issued A #7, C #8, D #9: rank 3 missed B.
    """
    found = [item for item in stall.departures if item.way is way]
    if stall.mismatch is None or not found or any(item.way not in (way, Way.REPLACED) for item in stall.departures):
        return None
    first = min(found, key=lambda item: (item.seq, item.rank))
    ranks = Ranks(item.rank for item in found)
    citations: list[Citation] = []
    for item in found[:3]:
        own, length = describe_entry(facts, item.row), item.length or None
        says = say("disagree.fits-when-shifted", rank=item.rank, call=own, count=item.count, length=length)
        citations.append(Entry(item.row, says))
        citations.append(Entry(item.peer_row, say("disagree.peers-called", call=describe_entry(facts, item.peer_row))))
    whole = (
        len(stall.mismatch.rows) >= len(facts.case.groups[first.group].members) and len(stall.mismatch.majority) >= 2
    )
    kinds = {(item.group, item.seq, item.count) for item in found}
    has_missed = way is Way.MISSED  # then its peers recorded the call, else it alone
    call = describe_row(facts, first.peer_row if has_missed else first.row)
    key = "disagree.skipped" if has_missed else "disagree.added"
    refuted = "refuted.peer-recorded-it" if has_missed else "refuted.peer-made-it-too"
    # the first call of the group that does not complete, from the departure on
    group = first.group
    fronts = (p for p in facts.progress.by_group_rank.values() if p.group == group)
    pending = [p for p in fronts if p.pending is not None and p.pending >= first.seq]
    seq = min((p.pending for p in pending if p.pending is not None), default=first.seq)
    row = next((p.row for p in pending if p.pending == seq and p.row >= 0), first.peer_row)
    return Hypothesis(
        headline_of(key, who=who(facts.case, ranks), ranks=ranks, call=call, several=len(kinds) > 1, count=first.count),
        citations + [Waiting(stuck, 2) for stuck in stall.calls[:1]],
        [
            *departure_doubts(found),
            *([] if whole else [doubt_of("not-all-compared")]),
        ],
        ranks=ranks,
        refuted_by=say(refuted, ranks=ranks, call=call),
        stalled=stalled_of(facts, facts.wait_graph.collective(group, seq, facts.case.groups[group].members, row)),
    )


_ALSO = {Way.MISSED: "also-skipped", Way.ADDED: "also-added", Way.REPLACED: "also-replaced"}


def departure_doubts(found: Sequence[Departure]) -> list[Doubt]:
    """A doubt for each way beside the likeliest one that fits as well: it leaves the ranks sure."""
    doubts = []
    for way in dict.fromkeys(way for item in found for way in item.rivals):
        items = [item for item in found if way in item.rivals]
        number = f"#{items[0].seq}" if len({item.seq for item in items}) == 1 else ""
        doubts.append(doubt_of(_ALSO[way], ranks=Ranks(item.rank for item in items), number=number))
    return doubts


def _left_own_order(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A circle in which one rank left its own earlier order by going past the call."""
    if stall.kind is not StallKind.CYCLE:
        return None
    breaks = [b for b in stall.order_breaks if b.call.pair is None and b.is_skip]
    fewer = [change for change in stall.issue_orders.departed.values() if change.change is Change.FEWER]
    if fewer:
        return _fewer_than_peers(facts, stall, fewer)
    if not breaks:
        return _one_call_fewer(facts, stall)
    ranks = Ranks(b.rank for b in breaks)
    call = breaks[0].call
    left_out = [e for e in left_out_batches(facts) if e.rank in ranks]
    citations: list[Citation] = [entry for item in breaks[:3] for entry in show_order_break(facts, item)]
    citations += [Line(e, say("disagree.skipped-batch", rank=e.rank)) for e in left_out[:2]]
    return Hypothesis(
        headline_of("disagree.left-behind", who=who(facts.case, ranks), ranks=ranks, call=stall.texts(call.key)),
        [*citations, Waiting(call)],
        () if len(ranks) == 1 else (doubt_of("several-at-once"),),
        ranks=ranks,
        call=call,
        refuted_by=say("refuted.peer-recorded-it", ranks=ranks, call=stall.texts(call.key)),
    )


def _fewer_than_peers(facts: Facts, stall: ObservedStall, changes: Sequence[OrderChange]) -> Hypothesis:
    """Concludes a skipped call from the number of calls of one group before each later call of another.

    Example: before BARRIER #5 ranks 1 and 3 issued 17 calls of dp, and rank 2 issued 16.
    """
    ranks, first = Ranks(change.rank for change in changes), changes[0]
    citations: list[Citation] = []
    for change in changes[:3]:
        issued, due = describe_row(facts, change.row), describe_row(facts, change.expected)
        citations.append(Entry(change.row, say("disagree.called-instead", rank=change.rank, call=issued, due=due)))
        citations.append(Entry(change.expected, say("disagree.peers-called-there", peers=change.witnesses, call=due)))
    call = next((c for c in stall.calls if c.group == first.group and first.rank in c.missing | c.queued), None)
    others, group = Ranks(change.rank for change in changes if change.rival), describe_group(facts, first.group)
    return Hypothesis(
        headline_of("disagree.skipped-in-group", who=who(facts.case, ranks), ranks=ranks, group=group),
        [*citations, *([Waiting(call)] if call is not None else [])],
        [doubt_of("fits-extra-elsewhere", ranks=others)] if others else [],
        ranks=ranks,
        call=call or stall.calls[0],
    )


def _one_call_fewer(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes a skipped call when one rank of a circle issued one fewer than all others of its role.

    The count is taken at the same later call. Example: before BROADCAST #7 of tp, rank 0 issued 39 calls of dp, and
    ranks 1-3 issued 40.
    """
    calls = [call for call in stall.calls if call.pair is None]
    short = {r: call for call in calls for r in call.missing | call.queued if has_one_call_fewer(facts, call, r)}
    if len(short) != 1:
        return None
    ((rank, call),) = short.items()
    count = facts.progress.by_group_rank[call.group, rank].enqueued
    group = describe_group(facts, call.group)
    says = say("disagree.had-called", rank=rank, count=count, group=group, peers=count + 1)
    return Hypothesis(
        headline_of("disagree.one-call-fewer", who=who(facts.case, Ranks([rank])), group=group),
        [Dump(rank, says, row_of_number(facts, call.group, rank, count)), Waiting(call)],
        (doubt_of("only-the-count", rank=rank),),
        ranks=Ranks([rank]),
        call=call,
    )


def _unusual_call(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A minority inside a call that no peer issued; the peers finished what stood there and went on."""
    call = stall.call
    if stall.kind is not StallKind.FULL or call is None or call.pair is not None:
        return None
    if len(call.inside) >= len(call.completed):
        return None
    unusual = {rank: places for rank in call.inside if (places := find_unusual_call(facts, call, rank)) is not None}
    if len(unusual) < len(call.inside):
        return None
    citations: list[Citation] = []
    for rank, (row, due) in list(unusual.items())[:3]:
        citations.append(Entry(row, say("disagree.no-peer-called", rank=rank, call=describe_entry(facts, row))))
        citations.append(Entry(due, say("disagree.called-earlier", rank=rank, call=describe_entry(facts, due))))
    peer, ranks = min(call.completed), Ranks(unusual)
    number = in_group(facts, call.group, f"#{call.seq}")
    return Hypothesis(
        headline_of("disagree.left-order", who=who(facts.case, ranks), ranks=ranks, number=number),
        [*citations, Dump(peer, say("disagree.finished-number", rank=peer, number=number))],
        (doubt_of("next-calls-unknown", ranks=ranks),),
        ranks=ranks,
        call=call,
    )


def _outside(stall: ObservedStall) -> Ranks:
    """Ranks outside the call, or in another one under its number."""
    return stall.named if stall.kind is StallKind.ABSENT else stall.mismatch.minority if stall.mismatch else Ranks()


def _one_step_ahead(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A rank that already reported a later step than anyone else, and complains itself.

    Example: rank 3 logged step 41 and gave up on a call, all others logged step 40 and wait in ALLREDUCE #18: rank 3 skipped it.
    """
    if stall.kind is StallKind.CYCLE:
        return None
    candidates = _outside(stall) if stall.kind in (StallKind.ABSENT, StallKind.FULL) else facts.case.world
    for counts in comparable_counts(facts.liveness.by_rank):
        rank = only_rank_ahead(counts)
        own = facts.liveness.activity(rank) if rank is not None and rank in candidates else None
        # it gave up on a call, or a library aborted it over a wrong size
        if (
            rank is not None
            and own
            and (own.secondary_errors or own.alarms or any(facts.case.of(CollectiveMismatch, rank)))
        ):
            return _step_ahead(facts, stall, rank, counts)
    return None


def _step_ahead(facts: Facts, stall: ObservedStall, rank: int, counts: Mapping[int, StepCount]) -> Hypothesis:
    own, peer = counts[rank].newest, min(r for r in counts if r != rank)
    behind = counts[peer].newest
    is_every_step = counts[rank].cadence == 1 or counts[peer].cadence == 1
    done = "disagree.finished-step" if is_every_step else "disagree.logged-step"
    last = "disagree.only-finished-step" if is_every_step else "disagree.last-logged-step"
    citations: list[Citation] = [
        Line(own, say(done, rank=rank, step=own.step)),
        Line(behind, say(last, rank=peer, step=behind.step)),
    ]
    left_out = [e for e in left_out_batches(facts) if e.rank == rank][:1]
    activity = facts.liveness.activity(rank)
    complaints = (activity.secondary_errors + activity.alarms)[:1] if not left_out else ()
    citations += [Line(e, say("disagree.skipped-batch", rank=rank)) for e in left_out]
    citations += [Line(e, say("disagree.stuck-later", rank=rank, step=own.step)) for e in complaints]
    unknown = doubt_of("skipped-call-unnamed")
    steps, name = ((own.step or 0), (behind.step or 0)), who(facts.case, Ranks([rank]))
    ahead = max(steps[0] - steps[1], 1)
    is_counted = is_every_step or own.epoch != behind.epoch
    refuted_by = say("refuted.peer-recorded-it", ranks=Ranks([rank]), call=stall.what) if stall.call is not None else ""
    return Hypothesis(
        headline_of("disagree.steps-ahead", who=name, call=stall.what, steps=ahead)
        if is_counted
        else headline_of("disagree.logged-ahead", who=name, call=stall.what, step=steps[0], peers=steps[1]),
        [*citations, Waiting(stall.call)],
        [] if stall.call is not None else [unknown],
        ranks=Ranks([rank]),
        call=stall.call,
        refuted_by=refuted_by,
    )


def _left_the_loop(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that ranks left the loop early, and others wait for them. Their last line says that the epoch, or the work, is over."""
    if stall.kind not in (StallKind.ABSENT, StallKind.FULL):
        return None
    done = ranks_past_loop(facts.liveness.by_rank)
    ranks = Ranks(rank for rank in _outside(stall) if rank in done)
    if not ranks or Ranks(done) - ranks:
        return None
    # where no other rank ever reported the end of an epoch, the others may merely print none
    printed = {phase.rank for phase in facts.case.of(Phase) if phase.what == "epoch-end"}
    alone = all(done[r].what == "epoch-end" for r in ranks) and printed <= {
        r for r in done if done[r].what == "epoch-end"
    }
    citations: list[Citation] = [Line(done[r], say("disagree.reported-end-of-loop", rank=r)) for r in ranks]
    citations += [citation for rank in list(ranks)[:2] for citation in stall.outside(rank)]
    return Hypothesis(
        headline_of("disagree.left-loop", who=who(facts.case, ranks), ranks=ranks, call=stall.what),
        [*citations, Waiting(stall.call)],
        [doubt_of("no-other-epoch-end")] if alone else [],
        ranks=ranks,
        call=stall.call,
    )


def _left_out_a_batch(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The one rank that left out a batch, where lines alone tell of the job and all ranks gave up.

    Example: rank 2 warns that it skips batch 6, and 15 s later ranks 0-3 give up in gloo calls. Without the calls of that batch, rank 2 is
    behind or ahead of its peers.
    """
    skipped = left_out_batches(facts)
    ranks = Ranks(e.rank for e in skipped if e.rank is not None)
    is_by_lines = stall.kind in (StallKind.NOTHING, StallKind.CRASH) and not facts.progress.recorded_ranks
    closed = Ranks(r for r in facts.liveness.exited if any(e.was_closed for e in facts.liveness.activity(r).exits))
    has_waited = bool(facts.ledger.waiting - ranks) and not facts.ledger.open - ranks - closed
    if not is_by_lines or len(ranks) != 1 or any(e.rank is None for e in skipped) or not has_waited or facts.failures:
        return None
    others = [e for r in facts.case.world - ranks for e in facts.liveness.activity(r).secondary_errors[:1]]
    citations = [Line(e, say("disagree.skipped-batch", rank=e.rank)) for e in skipped[:2]]
    citations += [Line(e, say("disagree.failed-in-call", rank=e.rank)) for e in others[:3]]
    return Hypothesis(
        headline_of("disagree.left-out-batch", who=who(facts.case, ranks)),
        citations,
        (doubt_of("next-call-unnamed"),),
        ranks=ranks,
        refuted_by=say("refuted.same-after-batch"),
    )
