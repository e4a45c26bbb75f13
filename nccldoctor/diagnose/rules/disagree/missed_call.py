"""A rank skipped a call, so that it is out of step with its peers.

What it means: a branch, an exception that was swallowed, a loop that ended early: this rank is in a later phase while
its peers still wait for it.
How we know: its calls equal its peers' when moved by one; or it is missing from the call and its own recorded order shows that this call
always came there before; or its step counter is ahead of everybody's.
What would refute it: a record of the call on that rank, or the same order of calls on its peers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nccldoctor.align.descriptions import stalled_of
from nccldoctor.align.divergence.departures import Departure, Way
from nccldoctor.align.divergence.step_counters import StepCount, comparable_counts, only_rank_ahead, ranks_past_loop
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Dump, Entry, Line, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import nccl_counter_diffs
from nccldoctor.diagnose.signs.call_order import find_unusual_call, has_one_call_fewer
from nccldoctor.diagnose.signs.issue_order import Change, OrderChange
from nccldoctor.events import CollectiveMismatch, Note, Phase
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb

REFUTED = "a record of the call on that rank, or the same order of calls on its peers"

_DID = {
    Way.MISSED: "skipped {place}",
    Way.ADDED: "issued one call too many at {place}",
    Way.REPLACED: "issued another call in the place of {place}",
}


@rule(CauseClass.MISSED_CALL, refuted_by=REFUTED)
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a rank skipped a call.

    By alignment of recorded calls, by the rank's own order, by its steps, or by the counts of NCCL's own observers.
    """
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
        citations.append(Entry(item.row, f"rank {item.rank} issued this as #{item.seq}{_fit_words(item)}"))
        citations.append(Entry(item.peer_row, f"its peers issued this as #{item.seq}"))
    whole = (
        len(stall.mismatch.rows) >= len(facts.case.groups[first.group].members) and len(stall.mismatch.majority) >= 2
    )
    return Hypothesis(
        departure_headline(facts, ranks, first),
        citations + [Waiting(call, 2) for call in stall.calls[:1]],
        [
            *departure_doubts(found),
            *([] if whole else [Doubt.at_most(Confidence.MEDIUM, "some members recorded no such call")]),
        ],
        ranks=ranks,
        refuted_by=REFUTED,
        stalled=stalled_of(facts, _first_pending(facts, first)),
    )


def _fit_words(item: Departure) -> str:
    if not item.length:
        return ""
    return f"; the next {item.length} calls fit its peers' when moved by {'one' if item.count == 1 else item.count}"


def departure_doubts(found: Sequence[Departure]) -> list[Doubt]:
    """A doubt for each way beside the likeliest one that fits as well: it leaves the ranks sure."""
    ways = dict.fromkeys(way for item in found for way in item.rivals)
    place = f"#{found[0].seq}" if found else ""
    return [
        Doubt(f"the calls fit as well if it {_DID[way].format(place=place)}", cause=Confidence.MEDIUM) for way in ways
    ]


def departure_headline(facts: Facts, ranks: Ranks, found: Departure) -> str:
    """What ranks did; where several ways fit, that they are out of step, and the likeliest way first."""
    who, place = ranks_phrase(ranks).capitalize(), f"#{found.seq} of {facts.case.groups[found.group].label}"
    did = {way: did.format(place=place) for way, did in _DID.items()}
    if not found.rivals:
        return f"{who} {did[found.way]}: from there its calls are off by {'one' if found.count == 1 else found.count}"
    others = " or ".join(did[way] for way in found.rivals)
    return (
        f"{who} {verb(ranks, 'is', 'are')} out of step: {verb(ranks, 'it', 'they')} {did[found.way]}, or else {others}"
    )


def _first_pending(facts: Facts, found: Departure) -> StuckCall:
    """The first call of the group that does not complete, from the departure on."""
    group = found.group
    pending = [
        p
        for p in facts.progress.by_group_rank.values()
        if p.group == group and p.pending is not None and p.pending >= found.seq
    ]
    seq = min((p.pending for p in pending if p.pending is not None), default=found.seq)
    key = ("collective", group, seq, 0)
    if key in facts.wait_graph.calls:
        return facts.wait_graph.calls[key]
    row = next((p.row for p in pending if p.pending == seq and p.row >= 0), found.peer_row)
    nobody = Ranks()
    return StuckCall(key, group, seq, facts.case.groups[group].members, nobody, nobody, nobody, nobody, row=row)


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
    citations: list[Citation] = []
    for item in breaks[:3]:
        citations.append(Entry(item.row, f"rank {item.rank} issued this where {stall.texts[item.call.key]} was due"))
        citations.append(Entry(item.expected, item.source))
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} skipped {stall.texts[call.key]} and went on; the others still wait in it",
        [*citations, Waiting(call)],
        () if len(ranks) == 1 else (Doubt.at_most(Confidence.MEDIUM, "several ranks left their order at once"),),
        ranks=ranks,
        call=call,
    )


def _fewer_than_peers(facts: Facts, stall: ObservedStall, changes: Sequence[OrderChange]) -> Hypothesis:
    """Concludes a skipped call from the number of calls of one group before each later call of another.

    Example: before BARRIER #5 ranks 1 and 3 issued 17 calls of dp, and rank 2 issued 16.
    """
    ranks, first = Ranks(change.rank for change in changes), changes[0]
    citations: list[Citation] = []
    for change in changes[:3]:
        citations.append(Entry(change.row, f"rank {change.rank} issued this first"))
        citations.append(
            Entry(change.expected, f"{ranks_phrase(change.witnesses)} issued this there, behind the same calls")
        )
    call = next((c for c in stall.calls if c.group == first.group and first.rank in c.missing | c.queued), None)
    others = [change for change in changes if change.rival]
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} skipped a call of {facts.case.groups[first.group].label} and went on: at each later call of "
        "another group its peers have issued more of them",
        [*citations, *([Waiting(call)] if call is not None else [])],
        [Doubt("the calls fit as well if it issued a call of another group too often", cause=Confidence.MEDIUM)]
        if others
        else [],
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
    says = (
        f"rank {rank} had issued {count:,} calls of that group by its newest call, everybody of its kind {count + 1:,}"
    )
    skipped = f"Rank {rank} skipped a call of {facts.case.groups[call.group].label}"
    return Hypothesis(
        f"{skipped}: it issued one fewer than all others by the same later call",
        [Dump(rank, says), Waiting(call)],
        (Doubt.at_most(Confidence.MEDIUM, "only the count of calls differs, and no entry shows which one it skipped"),),
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
    unusual = {rank: find_unusual_call(facts, call, rank) for rank in call.inside}
    if None in unusual.values():
        return None
    citations: list[Citation] = []
    for rank, places in list(unusual.items())[:3]:
        row, due = places or (-1, -1)
        citations.append(Entry(row, f"rank {rank} issued this, which no peer did"))
        citations.append(Entry(due, f"an earlier step of rank {rank}: what always came there"))
    peer = min(call.completed)
    left = f"left the order of calls before #{call.seq} of {facts.case.groups[call.group].label}"
    return Hypothesis(
        f"{ranks_phrase(unusual).capitalize()} {left}, and the others went on without it",
        [*citations, Dump(peer, f"rank {peer} finished #{call.seq} and went on")],
        (Doubt.at_most(Confidence.MEDIUM, "its next calls are not known: it may have skipped calls or added one"),),
        ranks=Ranks(unusual),
        call=call,
    )


def _candidates(stall: ObservedStall) -> Ranks:
    """Ranks outside the call, or in another one under its number."""
    if stall.kind is StallKind.ABSENT:
        return stall.named
    return stall.mismatch.minority if stall.kind is StallKind.FULL and stall.mismatch is not None else Ranks()


def _one_step_ahead(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A rank that already reported a later step than anyone else, and complains itself.

    Example: rank 3 logged step 41 and gave up on a call, all others logged step 40 and wait in ALLREDUCE #18: rank 3 skipped it.
    """
    if stall.kind is StallKind.CYCLE:
        return None
    candidates = _candidates(stall) if stall.kind in (StallKind.ABSENT, StallKind.FULL) else facts.case.world
    for counts in comparable_counts(facts.liveness.by_rank):
        rank = only_rank_ahead(counts)
        if rank in candidates and rank is not None and _has_complained(facts, rank):
            return _step_ahead(facts, stall, rank, counts)
    return None


def _step_ahead(facts: Facts, stall: ObservedStall, rank: int, counts: Mapping[int, StepCount]) -> Hypothesis:
    own, peer = counts[rank].newest, min(r for r in counts if r != rank)
    behind = counts[peer].newest
    citations: list[Citation] = [
        Line(own, f"rank {rank} already finished step {own.step}"),
        Line(behind, f"rank {peer} and all others only finished step {behind.step}"),
    ]
    activity = facts.liveness.activity(rank)
    complaints = (activity.secondary_errors + activity.alarms)[:1]
    citations += [Line(e, f"rank {rank} waits too, in a call of the next step") for e in complaints]
    what = stall.what if stall.call is not None else "a collective of the step before"
    unknown = Doubt.at_most(Confidence.MEDIUM, "no line and no dump names the call")
    return Hypothesis(
        f"Rank {rank} skipped {what}: it is one step ahead of everybody",
        [*citations, Waiting(stall.call)],
        [] if stall.call is not None else [unknown],
        ranks=Ranks([rank]),
        call=stall.call,
    )


def _has_complained(facts: Facts, rank: int) -> bool:
    """True when a rank gave up on a call, or a library aborted the rank over a wrong size."""
    activity = facts.liveness.activity(rank)
    return bool(activity.secondary_errors or activity.alarms) or any(facts.case.of(CollectiveMismatch, rank))


def _left_the_loop(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that ranks left the loop early: they report its end while the others wait for them.

    The last line of such a rank says that its epoch, or its work, is over.
    """
    if stall.kind not in (StallKind.ABSENT, StallKind.FULL):
        return None
    done = ranks_past_loop(facts.liveness.by_rank)
    ranks = Ranks(rank for rank in _candidates(stall) if rank in done)
    if not ranks or Ranks(done) - ranks:
        return None
    alone = all(done[r].what == "epoch-end" and _has_printed_alone(facts, r, done) for r in ranks)
    citations: list[Citation] = [Line(done[r], f"rank {r} says that it is done with the loop") for r in ranks]
    citations += [citation for rank in list(ranks)[:2] for citation in stall.outside[rank]]
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} left the loop early: {stall.what} was never issued there",
        [*citations, Waiting(stall.call)],
        [Doubt("no other rank ever printed the end of an epoch", cause=Confidence.MEDIUM)] if alone else [],
        ranks=ranks,
        call=stall.call,
    )


def _has_printed_alone(facts: Facts, rank: int, done: Mapping[int, Phase]) -> bool:
    """True when no rank but these ever reported the end of an epoch: the others may merely print none."""
    own = Ranks(r for r in done if done[r].what == done[rank].what)
    return not any(p.rank not in own for p in facts.case.of(Phase) if p.what == done[rank].what)


def _left_out_a_batch(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The one rank that left out a batch, where lines alone tell of the job and all ranks gave up.

    Example: rank 2 warns that it skips batch 6, and 15 s later ranks 0-3 give up in gloo calls. Without the calls of that batch, rank 2 is
    behind or ahead of its peers.
    """
    skipped = [e for e in facts.case.of(Note) if e.what == "batch-skipped" and not _has_given_up_before(facts, e)]
    ranks = Ranks(e.rank for e in skipped if e.rank is not None)
    is_by_lines = stall.kind in (StallKind.NOTHING, StallKind.CRASH) and not facts.progress.recorded_ranks
    closed = Ranks(r for r in facts.liveness.exited if any(e.was_closed for e in facts.liveness.activity(r).exits))
    has_waited = bool(facts.ledger.waiting - ranks) and not facts.ledger.open - ranks - closed
    if not is_by_lines or len(ranks) != 1 or any(e.rank is None for e in skipped) or not has_waited or facts.failures:
        return None
    others = [e for r in facts.case.world - ranks for e in facts.liveness.activity(r).secondary_errors[:1]]
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} left out a batch, and no other rank did: it skipped the calls of that batch",
        [
            *(Line(e, f"rank {e.rank} goes on without a batch") for e in skipped[:2]),
            *(Line(e, f"rank {e.rank} gave up on a call") for e in others[:3]),
        ],
        (Doubt.at_most(Confidence.MEDIUM, "no line shows which call came next on each rank"),),
        ranks=ranks,
        refuted_by="the same calls on all ranks after that batch",
    )


def _has_given_up_before(facts: Facts, note: Note) -> bool:
    """True when the rank had given up before the note, or the first alarm came before it."""
    own = facts.liveness.activity(note.rank).secondary_errors if note.rank is not None else ()
    before = (e.place.source == note.place.source and (e.place.line or 0) < (note.place.line or 0) for e in own)
    return facts.liveness.is_after_alarm(note) or any(before)
