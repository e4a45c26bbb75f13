"""A rank makes two groups' collectives in a different order from its peers: a deadlock.

How we know: the cycle in the wait-for graph, and one rank that made them against its own earlier order, or against most ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.align.call_sequences import KIND_MASK
from nccldoctor.align.descriptions import describe_row
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import traceback_diffs
from nccldoctor.diagnose.signs.call_order import OrderBreak, show_order_break
from nccldoctor.model import CauseClass, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED
from nccldoctor.words.names import ranks_phrase, verb


@rule(CauseClass.ORDER_INVERSION, refuted_by=say("refuted.same-order", calls=["both calls"]))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The rank that left its own order, else the minority against the majority."""
    if stall.kind is not StallKind.CYCLE or any(call.pair is not None for call in stall.calls):
        return traceback_diffs.judge(facts, stall, other_group=True)
    reordered = [b for b in stall.order_breaks if b.is_reorder]
    if reordered:
        return _left_own_order(facts, stall, [b for b in reordered if b.issued_later] or reordered)
    odd, call, other = _against_majority(facts, stall)
    calls = [stall.texts(call.key) for call in stall.calls]
    first, second = stall.texts(other.key), stall.texts(call.key)
    return Hypothesis(
        headline_of("disagree.deadlock", rank=ranks_phrase(odd), first=first, second=second, peers="most other ranks")
        if odd
        else headline_of("disagree.orders-differ", calls=calls[:3]),
        [Waiting(call, 2) for call in stall.calls[:3]],
        (doubt_of("usual-order-unknown", ranks=odd),),
        ranks=odd,
        suspects=Ranks() if odd else stall.ranks,
        call=call,
        refuted_by=say("refuted.same-order", calls=calls[:3]),
    )


def _left_own_order(facts: Facts, stall: ObservedStall, breaks: Sequence[OrderBreak]) -> Hypothesis:
    ranks = Ranks(b.rank for b in breaks)
    first = breaks[0]
    citations: list[Citation] = [entry for item in breaks[:3] for entry in show_order_break(facts, item)]
    other = next((call for call in stall.calls if call.key != first.call.key and first.rank in call.inside), None)
    due = stall.texts(first.call.key)
    instead = stall.texts(other.key) if other is not None else describe_row(facts, first.row)
    # A rank that stopped behind the one call may have skipped the other as well as put it off: it left its own order either way.
    is_shown = first.is_conclusive and (first.issued_later or first.surplus == 0)
    doubts: list[Doubt] = []
    if not is_shown:
        by_past = all(item.by_past for item in breaks)
        doubts.append(doubt_of("may-have-skipped", ranks=ranks, call=due, past=by_past))
    if len(ranks) > 1:
        doubts.append(doubt_of("several-at-once"))
    peers = verb(ranks, "its peers", "their peers") if len(stall.calls) == 2 else "other ranks"
    key = "disagree.deadlock" if first.issued_later else "disagree.deadlock-without"
    return Hypothesis(
        headline_of(key, rank=ranks_phrase(ranks), first=instead, second=due, peers=peers),
        citations + [Waiting(call, 2) for call in stall.calls[:3]],
        doubts,
        ranks=ranks,
        call=first.call,
        refuted_by=say("refuted.same-order", calls=[instead, due]),
    )


def _against_majority(facts: Facts, stall: ObservedStall) -> tuple[Ranks, StuckCall, StuckCall]:
    """Returns the ranks that issued two calls against the order of most ranks, the call delayed and the other one.

    Sister groups of one role count alike. Example: 7 of 8 ranks issued ALLREDUCE of dp before BROADCAST of tp, rank 3
    the other way round: rank 3 delayed the ALLREDUCE.
    """
    states = facts.case.calls.state  # a dump of active calls alone does not show the order of all that was issued
    complete = [rank for rank in facts.case.world if (states[facts.sequences.rows(rank)] == COMPLETED).any()]
    for first, second in ((one, other) for one in stall.calls for other in stall.calls if one.key < other.key):
        orders = {r: order for r in complete if (order := _is_first(facts, first, second, r)) is not None}
        for is_odd, put_off, other in ((True, second, first), (False, first, second)):
            few = Ranks(rank for rank, order in orders.items() if order is is_odd)
            if few and 3 * len(few) <= len(orders) and few & stall.ranks:
                return few & stall.ranks, put_off, other
    return Ranks(), stall.calls[0], stall.calls[0]


def _is_first(facts: Facts, first: StuckCall, second: StuckCall, rank: int) -> bool | None:
    """True when a rank issued its call of the kind of ``first`` before that of ``second``.

    The calls are of the same kind and number. None where neither is recorded.
    """
    place, other = _row_of_kind(facts, first, rank), _row_of_kind(facts, second, rank)
    if place is None or other is None:
        return None if place is other else other is None
    return place < other


def _row_of_kind(facts: Facts, call: StuckCall, rank: int) -> int | None:
    """The row of the call itself, or of the same call in a sister group under the same number."""
    if call.row < 0:
        return None
    calls, labels = facts.case.calls, facts.sequences.labels
    rows = facts.sequences.rows(rank)
    same = rows[(calls.seq[rows] == call.seq) & ((labels[rows] & KIND_MASK) == (int(labels[call.row]) & KIND_MASK))]
    return int(same[0]) if len(same) else None
