"""A rank issued one call more than its peers, so that it is out of step with them.

What it means: a branch on local data adds a collective on this rank alone; everything after it is off by one.
How we know: its calls in the group equal its peers' when moved by one, the other way than for a missed call.
What would refute it: a record of the same call on its peers.
"""

from __future__ import annotations

from nccldoctor.align.descriptions import describe
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Citation, Entry, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.rules.missed_call import shifted_calls
from nccldoctor.diagnose.signs import nccl_counter_diffs
from nccldoctor.diagnose.signs.call_order import pending_row, ranks_one_call_ahead
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks, names

CAUSE = CauseClass.EXTRA_CALL


@rule(CAUSE, refuted_by="a record of the same call on its peers")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """By alignment of streams in the group, else by counting at the next call in another group, else by NCCL's own lines."""
    found = shifted_calls(facts, stall, missed=False) or _by_count(facts, stall)
    return found or nccl_counter_diffs.by_shift(facts, -1)


def _by_count(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A circle in which one rank has issued one call more of a group than its peers had at the same later call."""
    if stall.kind is not StallKind.CYCLE:
        return None
    found = [(o.rank, o.row, o.call) for o in stall.order_breaks if o.surplus == 1 and o.call.pair is None]
    where = "before " + describe(facts, found[0][2]) if found else ""
    found = found or [
        (rank, pending_row(facts, call, rank), call) for rank, call in ranks_one_call_ahead(facts, stall.calls)
    ]
    if not found:
        return None
    call = found[0][2]
    known = facts.case.groups[call.group].learned != "assumed"
    evidence: list[Citation] = [
        Entry(row, f"rank {rank} issued this call, and no peer did") for rank, row, _ in found[:3]
    ]
    evidence.append(Waiting(call))
    ranks = Ranks(rank for rank, _, _ in found)
    return Hypothesis(
        f"{names(ranks).capitalize()} issued one call too many"
        + (f" {where}" if where else f": {describe(facts, call)}"),
        evidence,
        Confidence.HIGH if len(ranks) == 1 and known else Confidence.MEDIUM,
        ranks=ranks,
        call=call,
    )
