"""A rank issued one call more than its peers, so that it is out of step with them.

What it means: a branch on local data adds a collective on this rank alone; everything after it is off by one.
How we know: its calls in the group equal its peers' when moved by one, the other way than for a missed call.
What would refute it: a record of the same call on its peers.
"""

from __future__ import annotations

from nccldoctor.align import Facts
from nccldoctor.draft import Draft, describe, names, recorded, waiting_evidence
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.ranks import Ranks
from nccldoctor.rules.missed_call import by_shift
from nccldoctor.rules.steps import blamed
from nccldoctor.stalls import Stall, StallKind

CAUSE = CauseClass.EXTRA_CALL


def judge(facts: Facts, stall: Stall) -> Draft | None:
    """By alignment of streams in the group, else by counting at the next call in another group."""
    return by_shift(facts, stall, missed=False, cause=CAUSE) or _by_count(facts, stall)


def _by_count(facts: Facts, stall: Stall) -> Draft | None:
    """A circle in which one rank has issued one call more of a group than its peers had at the same later call."""
    if stall.kind is not StallKind.CYCLE:
        return None
    found = [o for o in blamed(facts, stall.calls) if o.surplus == 1 and o.call.pair is None]
    if not found:
        return None
    first = found[0]
    evidence = [recorded(facts, o.row, f"rank {o.rank} issued this call, and no peer did") for o in found[:3]]
    evidence += waiting_evidence(facts, first.call)
    ranks = Ranks(o.rank for o in found)
    return Draft(
        CAUSE,
        f"{names(ranks).capitalize()} issued one call too many before {describe(facts, first.call)}",
        tuple(evidence),
        Confidence.HIGH if len(ranks) == 1 else Confidence.MEDIUM,
        "a record of the same call on its peers",
        ranks=ranks,
        call=first.call,
    )
