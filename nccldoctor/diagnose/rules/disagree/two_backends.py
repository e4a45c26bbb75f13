"""A rank waits in a call of another backend, its peers in this one: one deadlock over two groups.

What it means: some ranks ask all others over gloo whether a value is finite, and the others reduce gradients over NCCL.
How we know: counters show that the rank never issued the call of its peers, and its own traceback ends in a gloo call.
"""

from __future__ import annotations

from nccldoctor.align.descriptions import timeouts_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.stack_activity import is_waiting
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.traceback_diffs import final_traceback, own_place
from nccldoctor.events import ExceptionRaised
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.roles import role_of


@rule(CauseClass.ORDER_INVERSION, refuted_by=say("refuted.began-after-timeouts"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that the absent ranks wait for their peers in a call of another group; the few are named."""
    call, absent = stall.call, stall.named
    if stall.kind is not StallKind.ABSENT or call is None or next(timeouts_of(facts, call), None) is None:
        return None
    waits = {rank: error for rank in absent if (error := _last_wait(facts, rank)) is not None}
    members = absent | call.inside
    odd = next((side for side in (absent, call.inside) if 2 * len(side) < len(members)), Ranks())
    if not absent or absent - waits.keys():
        return None
    some, elsewhere = list(absent)[:3], own_place(waits[min(absent)])
    here, there = (stall.what, elsewhere) if odd == call.inside else (elsewhere, stall.what)
    return Hypothesis(
        headline_of("disagree.two-backends", odd=odd or absent, here=here, there=there),
        [
            *(
                Line(waits[r], say("disagree.waited-at", rank=r, frame=own_place(waits[r]), code=waits[r].code[:80]))
                for r in some
            ),
            *(citation for rank in some[:2] for citation in stall.outside(rank)),
            Waiting(call),
        ],
        (doubt_of("reached-it-later", absent=absent, proven=odd == absent <= stall.proven_absent, odd=odd),),
        ranks=odd,
        suspects=Ranks() if odd else members,
        call=call,
    )


def _last_wait(facts: Facts, rank: int) -> ExceptionRaised | None:
    """The traceback with which a rank gave up in some call: gloo's, else one that ends inside a collective."""
    said = facts.liveness.activity(rank).secondary_errors
    raised = (e for e in said if isinstance(e, ExceptionRaised) and e.frame and is_waiting(e.frames))
    inside = (e for e in raised if (role := role_of(e.message)) is not None and role.what == "closed")
    return final_traceback(facts, rank) or next(inside, None)
