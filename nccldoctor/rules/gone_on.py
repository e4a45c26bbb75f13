"""A rank that is counted behind in one communicator, and ahead of its peers, or going on, in another: it went past the call."""

from __future__ import annotations

from nccldoctor.align import Facts
from nccldoctor.counted import cited, counted, issued, usual
from nccldoctor.draft import Draft, describe, names
from nccldoctor.launches import Launches
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.ranks import Ranks
from nccldoctor.rules.compared_counts import unlike
from nccldoctor.stalls import Stall, StallKind
from nccldoctor.waits import StuckCall

REFUTED = "a record of the call on that rank, or calls that it issued in another order"


def gone_on(facts: Facts, stall: Stall, cause: CauseClass) -> Draft | None:
    """By the counts of NCCL's own observers alone. Launches do not wait, so that a mere swap of two calls leaves equal counts."""
    if stall.kind is StallKind.CYCLE:
        found = [pair for call in stall.calls for pair in _skipped(facts, stall, call)]
    elif stall.kind is StallKind.ABSENT and stall.call is not None:
        found = [(stall.call, rank) for rank in stall.shown if _goes_on(facts, stall.call, rank)]
    else:
        return None
    if len({rank for _, rank in found}) != 1 or unlike(facts):
        return None
    call, rank = found[0]
    one, other = counted(facts, call), _elsewhere(facts, call, rank)
    if one is None or other is None or rank not in one.said:
        return None
    what = describe(facts, call)
    return Draft(
        cause,
        f"{names([rank]).capitalize()} skipped {what} and went on in communicator ({other.comm})",
        (
            cited(one.said[rank], one, f"rank {rank} had issued #{one.last[rank]} as its last call, not {what}"),
            cited(
                other.said[rank], other, f"rank {rank} had issued #{other.last[rank]} of communicator ({other.comm})"
            ),
            *issued(facts, call, what, 2),
        ),
        Confidence.MEDIUM,
        REFUTED,
        ranks=Ranks([rank]),
        call=call,
    )


def _skipped(facts: Facts, stall: Stall, call: StuckCall) -> list[tuple[StuckCall, int]]:
    """The rank that went past a call which most other members are in: the one that is missing from it, or the one that it waits for
    itself in a pair. Both look alike: other pairs tell which of the two is out of step.
    """
    if counted(facts, call) is None or len(call.inside) < 2 or len(call.inside) <= len(call.missing):
        return []
    out = []
    for rank in call.missing:
        held = next((other for other in stall.calls if other is not call and rank in other.inside), None)
        if held is None:
            continue
        pair = counted(facts, held)
        often = usual(facts, pair) if pair is not None else None
        mine, theirs = _totals(facts, held, held.inside), _totals(facts, held, held.missing)
        if len(held.missing) > len(held.inside) or (often is not None and min(mine, default=0) > often):
            out.append((call, rank))
        elif often is not None and len(held.missing) == 1 and max(theirs, default=often) < often:
            out.append((held, min(held.missing)))
    return out


def _totals(facts: Facts, call: StuckCall, ranks: Ranks) -> list[int]:
    one = counted(facts, call)
    return [one.totals[r] for r in ranks if r in one.totals] if one is not None else []


def _goes_on(facts: Facts, call: StuckCall, rank: int) -> bool:
    one = counted(facts, call)
    return one is not None and rank not in one.rose and any(rank in other.rose for other in facts.case.launches)


def _elsewhere(facts: Facts, call: StuckCall, rank: int) -> Launches | None:
    """The other communicator in which the rank is ahead, or was seen to go on."""
    others = [o for o in facts.case.launches if o.group != call.group and rank in o.said]
    return next((o for o in others if rank in o.rose or (o.behind and rank not in o.behind)), None)
