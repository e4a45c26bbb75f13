"""A rank did not send, or receive, what its peer waits for.

What it means: one end of a send and receive is not there, and its owner has gone on.
How we know: the peer's entry waits; the owner recorded none for it, and its own earlier order shows that one always came there. Nobody is
named if both ends may be it.
What would refute it: the other end's entry, or an owner that has not come so far yet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Dump, Entry, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import show_inside_function
from nccldoctor.diagnose.signs.call_order import OrderBreak, has_one_transfer_fewer
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase

TRANSFERS = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
"""Functions of ``torch.distributed`` that send or receive."""


@rule(CauseClass.UNMATCHED_P2P, refuted_by="the other end's entry, or an owner that has not come so far yet")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a send or a receive lacks its other end.

    Either a circle holds such a transfer, or ranks wait in one that no dump recorded.
    """
    if stall.kind is StallKind.HIDDEN:
        return _unrecorded(facts, stall)
    one_ended = stall.one_ended if stall.kind is StallKind.CYCLE else ()
    if not one_ended:
        return None
    breaks = stall.transfer_breaks
    short = {
        rank: call
        for call in one_ended
        for rank in call.missing | call.queued
        if has_one_transfer_fewer(facts, call, rank)
    }
    if len(short) == 1:  # a count decides where the rank's own past misleads, because the calls before differ
        breaks = [b for b in breaks if b.rank in short]
    ranks = Ranks(b.rank for b in breaks) or Ranks(short)
    culprit = ranks if len(ranks) == 1 else Ranks()
    first = breaks[0].call if breaks else short[min(short)] if short else one_ended[0]
    doubts = [] if culprit else [Doubt.at_most(Confidence.LOW, "either end may be the one that went on")]
    if not breaks:
        doubts.append(Doubt("only the count of transfers differs", cause=Confidence.MEDIUM))
    if facts.case.groups[first.group].learned == "assumed":
        doubts.append(Doubt.at_most(Confidence.MEDIUM, "no source lists the members of the group"))
    return Hypothesis(
        _headline(first, culprit),
        _citations(one_ended, short, breaks),
        doubts,
        ranks=culprit,
        suspects=Ranks() if culprit else Ranks(r for call in one_ended for r in call.missing | call.queued),
        call=first,
    )


def _headline(call: StuckCall, culprit: Ranks) -> str:
    sender, receiver = call.pair or (-1, -1)
    if not culprit:
        return f"One end of the send from rank {sender} to rank {receiver} is missing"
    end = f"send to rank {receiver}" if receiver not in culprit else f"receive from rank {sender}"
    return f"{ranks_phrase(culprit).capitalize()} never posted its {end} and went on"


def _citations(
    one_ended: Sequence[StuckCall], short: Collection[int], breaks: Sequence[OrderBreak]
) -> Sequence[Citation]:
    citations: list[Citation] = [
        Dump(rank, f"rank {rank} posted one transfer fewer than each rank of its stage") for rank in short
    ]
    for item in breaks[:3]:
        end = "send" if item.call.pair is not None and item.call.pair[0] == item.rank else "receive"
        citations.append(Entry(item.row, f"rank {item.rank} issued this where its {end} was due"))
        citations.append(Entry(item.expected, item.source))
    waiting = [call for call in one_ended[:3] if call.row >= 0 and call.inside]
    return citations + [Entry(call.row, f"rank {min(call.inside)} waits for the other end") for call in waiting]


def _unrecorded(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks that a stack or a traceback shows in a send or a receive without a record."""
    inside = [show_inside_function(facts, rank, TRANSFERS) for rank in list(stall.ranks)[:4]]
    lines = [line for line in inside if line is not None]
    if not lines:
        return None
    where = "in a send or a receive that the recorder does not note; which end is missing is not known"
    return Hypothesis(
        f"All waiting ends at {ranks_phrase(stall.ranks)}, {where}",
        [*lines, Waiting(stall.call)],
        (
            Doubt.at_most(
                Confidence.LOW,
                "the recorder notes no sends and receives of this backend: which end is missing stays open",
            ),
        ),
        suspects=stall.ranks,
        call=stall.call,
        refuted_by="a stack of the other end, or its own list of transfers",
    )
