"""A rank did not send, or receive, what its peer waits for.

How we know: the peer's entry waits; the owner recorded none for it, and in its own earlier steps one always came at that point. We name no
rank if either end could be it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Dump, Entry, Hypothesis, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import show_inside_function
from nccldoctor.diagnose.signs.call_order import OrderBreak, find_order_breaks, has_one_transfer_fewer, show_order_break
from nccldoctor.diagnose.signs.silence import doubts_of_odd_dumps
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase

TRANSFERS = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
"""Functions of ``torch.distributed`` that send or receive."""


@rule(CauseClass.UNMATCHED_P2P, refuted_by=say("refuted.other-end-recorded", end="other end"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a send or a receive lacks its other end.

    Either a circle holds such a transfer, or ranks wait in one that no dump recorded.
    """
    if stall.kind is StallKind.HIDDEN:
        return _unrecorded(facts, stall)
    transfers = [call for call in stall.calls if call.pair is not None and stall.kind is StallKind.CYCLE]
    # ends that are queued behind another call count only where no call of the stall lacks anybody
    has_missing = any(call.missing for call in stall.calls)
    one_ended = tuple(call for call in transfers if (call.missing if has_missing else call.queued))
    if not one_ended:
        return None
    breaks = [item for item in find_order_breaks(facts, one_ended) if item.call.pair is not None]
    absent = [(rank, call) for call in one_ended for rank in call.missing | call.queued]
    short = {rank: call for rank, call in absent if has_one_transfer_fewer(facts, call, rank)}
    if len(short) == 1:  # a count decides where the rank's own past misleads, because the calls before differ
        breaks = [b for b in breaks if b.rank in short]
    ranks = Ranks(b.rank for b in breaks) or Ranks(short)
    culprit = ranks if len(ranks) == 1 else Ranks()
    first = breaks[0].call if breaks else short[min(short)] if short else one_ended[0]
    sender, receiver = first.pair or (-1, -1)
    doubts = (
        doubts_of_odd_dumps(facts, culprit) if culprit else [doubt_of("either-end", sender=sender, receiver=receiver)]
    )
    if not breaks:
        doubts.append(doubt_of("only-transfer-count"))
    if facts.case.groups[first.group].learned == "assumed":
        doubts.append(doubt_of("members-assumed"))
    return Hypothesis(
        _missing_end(facts, stall, first, culprit),
        _citations(facts, one_ended, short, breaks),
        doubts,
        ranks=culprit,
        suspects=Ranks() if culprit else Ranks(r for call in one_ended for r in call.missing | call.queued),
        call=first,
        refuted_by=say(
            "refuted.other-end-recorded", ranks=culprit or Ranks(first.pair or ()), end=_end_of(first, culprit)
        ),
    )


def _missing_end(facts: Facts, stall: ObservedStall, call: StuckCall, culprit: Ranks) -> Headline:
    sender, receiver = call.pair or (-1, -1)
    if not culprit:
        return headline_of("disagree.one-end-missing", sender=sender, receiver=receiver)
    peer, named, end = sender if receiver in culprit else receiver, who(facts.case, culprit), _end_of(call, culprit)
    if culprit & call.queued:
        return headline_of("disagree.posted-behind", who=named, end=end, peer=peer)
    since = stall.details.since if stall.details is not None and stall.call is call else None
    return headline_of("disagree.never-posted", who=named, end=end, peer=peer, since=since)


def _end_of(call: StuckCall, culprit: Ranks) -> str:
    """The end of a transfer that a rank owes: RECV of its receiver, else SEND."""
    receiver = call.pair[1] if call.pair is not None else -1
    return "RECV" if receiver in culprit else "SEND"


def _citations(
    facts: Facts, one_ended: Sequence[StuckCall], short: Collection[int], breaks: Sequence[OrderBreak]
) -> Sequence[Citation]:
    citations: list[Citation] = [Dump(rank, say("disagree.one-transfer-fewer", rank=rank)) for rank in short]
    citations += [entry for item in breaks[:3] for entry in show_order_break(facts, item)]
    for call in one_ended[:3]:
        if call.row >= 0 and call.inside and call.pair is not None:
            rank = min(call.inside)
            end, peer = ("RECV", call.pair[0]) if rank == call.pair[1] else ("SEND", call.pair[1])
            citations.append(Entry(call.row, say("disagree.waits-for-other-end", rank=rank, end=end, peer=peer)))
    return citations


def _unrecorded(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks that a stack or a traceback shows in a send or a receive without a record."""
    inside = [show_inside_function(facts, rank, TRANSFERS) for rank in list(stall.ranks)[:4]]
    lines = [line for line in inside if line is not None]
    if not lines:
        return None
    return Hypothesis(
        headline_of("disagree.in-hidden-transfer", who=ranks_phrase(stall.ranks), ranks=stall.ranks),
        [*lines, Waiting(stall.call)],
        (doubt_of("transfers-unrecorded"),),
        suspects=stall.ranks,
        call=stall.call,
        refuted_by=say("refuted.other-end-seen"),
    )
