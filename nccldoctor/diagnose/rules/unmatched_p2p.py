"""A rank did not send, or receive, what its peer waits for.

What it means: one end of a send and receive is not there, and its owner has gone on.
How we know: the peer's entry waits; the owner recorded none for it, and its own earlier order shows that one always came there. Nobody is
named if both ends may be it.
What would refute it: the other end's entry, or an owner that has not come so far yet.
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Dump, Entry, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import show_inside_function
from nccldoctor.diagnose.signs.call_order import OrderBreak, blamed, transfers_short, usual
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks, names

CAUSE = CauseClass.UNMATCHED_P2P

TRANSFERS = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
"""Functions of ``torch.distributed`` that send or receive."""


@rule(CAUSE, refuted_by="the other end's entry, or an owner that has not come so far yet")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A circle that holds a send or a receive whose other end is missing; or ranks that wait in one that nobody recorded."""
    if stall.kind is StallKind.HIDDEN:
        return _unrecorded(facts, stall)
    if stall.kind is not StallKind.CYCLE:
        return None
    open_ = [c for c in stall.calls if c.pair is not None and c.missing]
    if not open_ and not any(c.missing for c in stall.calls):
        open_ = [
            c for c in stall.calls if c.pair is not None and c.queued
        ]  # all are posted, and wait behind each other
    if not open_:
        return None
    fewer = {r: call for call in open_ for r in call.missing | call.queued if transfers_short(facts, call, r)}
    found = [o for o in blamed(facts, tuple(open_)) if o.call.pair is not None]
    if len(fewer) == 1:
        found = [
            o for o in found if o.rank in fewer
        ]  # its own past may mislead where the calls before differ, a count does not
    ranks = Ranks(o.rank for o in found) or Ranks(fewer)
    first = found[0].call if found else fewer[min(fewer)] if fewer else open_[0]
    evidence: list[Citation] = []
    for rank in fewer:
        counted = Dump(rank, f"rank {rank} posted one transfer fewer than each rank of its stage")
        evidence.append(counted)
    for item in found[:3]:
        evidence.append(Entry(item.row, f"rank {item.rank} issued this where its {_end(item)} was due"))
        evidence.append(Entry(item.expected, usual(item)))
    for call in open_[:3]:
        evidence += (
            [Entry(call.row, f"rank {min(call.inside)} waits for the other end")]
            if call.row >= 0 and call.inside
            else []
        )
    if not evidence:
        return None
    sender, receiver = first.pair or (-1, -1)
    named = ranks if len(ranks) == 1 else Ranks()
    what = f"send to rank {receiver}" if receiver not in named else f"receive from rank {sender}"
    who = (
        f"{names(named).capitalize()} never posted its {what} and went on"
        if named
        else f"One end of the send from rank {sender} to rank {receiver} is missing"
    )
    assumed = facts.case.groups[first.group].learned == "assumed"
    ceiling = Confidence.MEDIUM if assumed else Confidence.HIGH
    return Hypothesis(
        who,
        evidence,
        (ceiling if found else Confidence.MEDIUM) if named else Confidence.LOW,
        ranks=named,
        suspects=Ranks() if named else Ranks(r for c in open_ for r in c.missing | c.queued),
        call=_root(open_, first),
    )


def _unrecorded(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Gloo notes no sends and receives: stacks and tracebacks tell that the ranks at the end of all waiting are in one."""
    evidence: list[Citation] = [
        e for r in list(stall.ranks)[:4] if (e := show_inside_function(facts, r, TRANSFERS)) is not None
    ]
    if not evidence:
        return None
    evidence.append(Waiting(stall.call))
    return Hypothesis(
        f"All waiting ends at {names(stall.ranks)}, in a send or a receive that the recorder does not note; "
        "which end is missing cannot be told",
        evidence,
        Confidence.LOW,
        suspects=stall.ranks,
        call=stall.call,
        refuted_by="a stack of the other end, or its own list of transfers",
    )


def _end(item: OrderBreak) -> str:
    return "send" if item.call.pair is not None and item.call.pair[0] == item.rank else "receive"


def _root(open_: list[StuckCall], first: StuckCall) -> StuckCall:
    return next((c for c in open_ if c.key == first.key), first)
