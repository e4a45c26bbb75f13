"""A rank made one call more than its peers, so that it is out of step with them.

How we know: its calls in the group match its peers' when shifted by one, the other way than for a skipped call.
"""

from __future__ import annotations

from nccldoctor.align.descriptions import describe_group, describe_row
from nccldoctor.align.divergence.departures import Way
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Entry, Hypothesis, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.rules.disagree.missed_call import moved_calls
from nccldoctor.diagnose.signs import nccl_counter_diffs
from nccldoctor.diagnose.signs.call_order import ranks_one_call_ahead
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks


@rule(CauseClass.EXTRA_CALL, refuted_by=say("refuted.peer-made-it-too"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a rank issued a call too many.

    By alignment of calls in the group, else by counting at the next call in another group, else by NCCL's own lines.
    """
    hypothesis = moved_calls(facts, stall, Way.ADDED) or _one_call_more(facts, stall)
    return hypothesis or nccl_counter_diffs.by_shift(facts, -1)


def _one_call_more(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes an added call when one rank of a circle issued one call of a group more than its peers.

    Both counts are taken at the same later call. Example: before BROADCAST #7 of tp, rank 0 issued 19 calls of dp and
    its peers 18.
    """
    if stall.kind is not StallKind.CYCLE:
        return None
    breaks = [b for b in stall.order_breaks if b.surplus == 1 and b.call.pair is None]
    extra = [(b.rank, b.row, b.call) for b in breaks] or ranks_one_call_ahead(facts, stall.calls)
    if not extra:
        return None
    call = extra[0][2]
    ranks = Ranks(rank for rank, _, _ in extra)
    doubts = []
    if len(ranks) > 1:
        doubts.append(doubt_of("several-ahead"))
    if facts.case.groups[call.group].learned == "assumed":
        doubts.append(doubt_of("members-assumed"))
    says = "disagree.no-peer-called" if breaks else "disagree.called"
    entries = [Entry(row, say(says, rank=rank, call=describe_row(facts, row))) for rank, row, _ in extra[:3]]
    before, group = stall.texts(call.key) if breaks else "", describe_group(facts, call.group)
    return Hypothesis(
        headline_of("disagree.one-call-more", who=who(facts.case, ranks), ranks=ranks, group=group, before=before),
        [*entries, Waiting(call)],
        doubts,
        ranks=ranks,
        call=call,
    )
