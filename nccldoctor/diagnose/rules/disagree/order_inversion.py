"""A rank issues two groups' collectives in another order than its peers: each waits for the other.

What it means: two calls on different groups, in opposite order on different ranks; a circle in the wait-for graph.
How we know: the circle, and one rank that issued them against its own earlier order, else against the majority's.
What would refute it: the same order on all ranks that are in both groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.align.call_sequences import KIND_MASK
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Entry, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import traceback_diffs
from nccldoctor.diagnose.signs.call_order import OrderBreak
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED
from nccldoctor.words.names import ranks_phrase


@rule(CauseClass.ORDER_INVERSION, refuted_by="the same order of both calls on all ranks that are in both groups")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The rank that left its own order, else the minority against the majority."""
    if stall.kind is not StallKind.CYCLE or any(call.pair is not None for call in stall.calls):
        return traceback_diffs.judge(facts, stall, other_group=True)
    reordered = [b for b in stall.order_breaks if b.is_reorder]
    if reordered:
        return _left_own_order(stall, [b for b in reordered if b.issued_later] or reordered)
    odd, call = _against_majority(facts, stall)
    what = " and ".join(stall.texts[call.key] for call in stall.calls[:2])
    who = "the order of issue differs between ranks"
    if odd:
        who = f"{ranks_phrase(odd).capitalize()} issued them in another order than the majority"
    return Hypothesis(
        f"{what} wait for each other: {who}",
        [Waiting(call, 2) for call in stall.calls[:3]],
        (
            Doubt.at_most(Confidence.MEDIUM, "its own past steps do not show which order is the usual one")
            if odd
            else Doubt.at_most(Confidence.LOW, "as many ranks issued them in either order"),
        ),
        ranks=odd,
        suspects=Ranks() if odd else stall.ranks,
        call=call,
    )


def _left_own_order(stall: ObservedStall, breaks: Sequence[OrderBreak]) -> Hypothesis:
    ranks = Ranks(b.rank for b in breaks)
    first = breaks[0]
    citations: list[Citation] = []
    for item in breaks[:3]:
        due = stall.texts[item.call.key]
        citations.append(Entry(item.row, f"rank {item.rank} issued this first, where {due} was due"))
        citations.append(Entry(item.expected, item.source))
    other = next((call for call in stall.calls if call.key != first.call.key and first.rank in call.inside), None)
    what = stall.texts[other.key] if other is not None else "a collective"
    # A rank that stopped behind the one call may have skipped the other as well as put it off.
    is_shown = first.is_conclusive and (first.issued_later or first.surplus == 0)
    doubts = (
        []
        if is_shown
        else [Doubt.at_most(Confidence.MEDIUM, "it may have skipped the other call as well as put it off")]
    )
    if len(ranks) > 1:
        doubts.append(Doubt.at_most(Confidence.MEDIUM, "several ranks left their order at once"))
    order = f"{what} before {stall.texts[first.call.key]}, the others the other way round"
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} issued {order}: both wait for each other",
        citations + [Waiting(call, 2) for call in stall.calls[:3]],
        doubts,
        ranks=ranks,
        call=first.call,
    )


def _against_majority(facts: Facts, stall: ObservedStall) -> tuple[Ranks, StuckCall]:
    """Returns the ranks that issued two calls against the order of most ranks, and the call delayed.

    Sister groups of one role count alike. Example: 7 of 8 ranks issued ALLREDUCE of dp before BROADCAST of tp, rank 3
    the other way round: rank 3 delayed the ALLREDUCE.
    """
    complete = [rank for rank in facts.case.world if _has_finished_calls(facts, rank)]
    for first in stall.calls:
        for second in stall.calls:
            if first.key >= second.key:
                continue
            orders = {r: order for r in complete if (order := _is_first(facts, first, second, r)) is not None}
            for is_odd, put_off in ((True, second), (False, first)):
                few = Ranks(rank for rank, order in orders.items() if order is is_odd)
                if few and 3 * len(few) <= len(orders) and few & stall.ranks:
                    return few & stall.ranks, put_off
    return Ranks(), stall.calls[0]


def _has_finished_calls(facts: Facts, rank: int) -> bool:
    """True when the rank's dump holds finished calls.

    A dump of active calls alone does not show the order of all that was issued.
    """
    return bool((facts.case.calls.state[facts.sequences.rows(rank)] == COMPLETED).any())


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
