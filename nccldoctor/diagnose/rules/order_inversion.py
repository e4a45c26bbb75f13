"""A rank issues two groups' collectives in another order than its peers: each waits for the other.

What it means: two calls on different groups, in opposite order on different ranks; a circle in the wait-for graph.
How we know: the circle, and one rank that issued them against its own earlier order, else against the majority's.
What would refute it: the same order on all ranks that are in both groups.
"""

from __future__ import annotations

from nccldoctor.align.call_sequences import KIND_MASK
from nccldoctor.align.descriptions import describe
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Entry, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import traceback_diffs
from nccldoctor.diagnose.signs.call_order import OrderBreak
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks, names
from nccldoctor.model.recorded_calls import COMPLETED

CAUSE = CauseClass.ORDER_INVERSION
REFUTED = "the same order of both calls on all ranks that are in both groups"


@rule(CAUSE, refuted_by=REFUTED)
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Who left its own order, else who stands against the majority."""
    if stall.kind is not StallKind.CYCLE or any(c.pair is not None for c in stall.calls):
        return traceback_diffs.judge(facts, stall, other_group=True)
    found = [
        o for o in stall.order_breaks if o.surplus == 0 or (o.surplus is None and (o.issued_later or not o.went_past))
    ]
    if found:
        return _draft(facts, stall, found)
    odd, call = _against_majority(facts, stall)
    evidence: list[Citation] = [Waiting(c, 2) for c in stall.calls[:3]]
    what = " and ".join(describe(facts, c) for c in stall.calls[:2])
    who = (
        f"{names(odd).capitalize()} issued them in another order than the majority"
        if odd
        else "the order of issue differs between ranks"
    )
    return Hypothesis(
        f"{what} wait for each other: {who}",
        evidence,
        Confidence.MEDIUM if odd else Confidence.LOW,
        ranks=odd,
        suspects=Ranks() if odd else stall.ranks,
        call=call,
    )


def _draft(facts: Facts, stall: ObservedStall, found: list[OrderBreak]) -> Hypothesis:
    swapped = [o for o in found if o.issued_later] or found
    ranks = Ranks(o.rank for o in swapped)
    first = swapped[0]
    evidence: list[Citation] = []
    for item in swapped[:3]:
        evidence.append(
            Entry(item.row, f"rank {item.rank} issued this first, where {describe(facts, item.call)} was due")
        )
        evidence.append(Entry(item.expected, item.source))
    evidence += [Waiting(call, 2) for call in stall.calls[:3]]
    other = next((c for c in stall.calls if c.key != first.call.key and first.rank in c.inside), None)
    # A rank that stopped behind the one call may have skipped the other as well as put it off.
    shown = first.is_conclusive and (first.issued_later or first.surplus == 0)
    against = f" before {describe(facts, first.call)}"
    return Hypothesis(
        f"{names(ranks).capitalize()} issued {describe(facts, other)}{against}, the others the other way round: both wait for each other",
        evidence,
        Confidence.HIGH if len(ranks) == 1 and shown else Confidence.MEDIUM,
        ranks=ranks,
        call=first.call,
    )


def _against_majority(facts: Facts, stall: ObservedStall) -> tuple[Ranks, StuckCall]:
    """Who issued two calls of the circle in another order than most ranks issued theirs; sister groups of one role count alike."""
    for first in stall.calls:
        for second in stall.calls:
            if first.key >= second.key:
                continue
            told = [r for r in facts.case.world if _keeps_finished(facts, r)]
            orders = {r: o for r in told if (o := _order(facts, first, second, r)) is not None}
            for odd, missed in ((True, second), (False, first)):
                few = Ranks(r for r, o in orders.items() if o is odd)
                if few and 3 * len(few) <= len(orders) and few & stall.ranks:
                    return few & stall.ranks, missed
    return Ranks(), stall.calls[0]


def _keeps_finished(facts: Facts, rank: int) -> bool:
    """Whether a dump holds finished calls: in one of active calls alone, what is not there may have been issued and finished."""
    return bool((facts.case.calls.state[facts.sequences.rows(rank)] == COMPLETED).any())


def _order(facts: Facts, first: StuckCall, second: StuckCall, rank: int) -> bool | None:
    """Whether a rank issued its call of the kind and number of ``first`` before that of ``second``; None where it
    issued neither or it is not recorded.
    """
    a, b = _place(facts, first, rank), _place(facts, second, rank)
    if a is None and b is None:
        return None
    if a is None or b is None:
        return b is None
    return a < b


def _place(facts: Facts, call: StuckCall, rank: int) -> int | None:
    """Where a rank issued the call itself, or its like in a sister group under the same number."""
    if call.row < 0:
        return None
    calls, labels = facts.case.calls, facts.sequences.labels
    kind = int(labels[call.row]) & KIND_MASK
    rows = facts.sequences.rows(rank)
    found = rows[(calls.seq[rows] == call.seq) & ((labels[rows] & KIND_MASK) == kind)]
    return int(found[0]) if len(found) else None
