"""A rank waits in a call that another member of its group counts as completed.

What it means: no rank can complete such a call alone. The two made different calls with that number, because one of them skipped or
added some before, or the GPU of the waiting rank stopped.
How we know: by the counters of two watchdogs. Rank 3 waits in ALLREDUCE #18, and ranks 0-2 count #18 as completed and wait in #20:
rank 3 is out of step. Of two ranks either may be.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.align.descriptions import stalled_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Hypothesis, Line
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.watchdog_diffs import EARLY
from nccldoctor.events import CollectiveTimeout, WorkStatus
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import call_title


@rule(
    CauseClass.MISSED_CALL, refuted_by=say("refuted.same-counted", call="that number"), before=CauseClass.DTYPE_MISMATCH
)
def judge(facts: Facts, _stall: ObservedStall) -> Hypothesis | None:
    """Ranks that are out of step, by the counters of their watchdogs alone."""
    if facts.progress.recorded_ranks:
        return None
    lines = {e.rank: e for e in facts.case.of(CollectiveTimeout) if e.rank is not None and e.op is not None}
    for rank, keys in sorted(facts.wait_graph.waits_in.items()):
        call = facts.wait_graph.calls[keys[0]] if keys else None
        line = lines.get(rank)
        if call is None or line is None or line.op in EARLY or line.seq != call.seq or rank not in call.inside:
            continue
        own = Ranks(r for r in call.inside if r in lines and lines[r].seq == call.seq)
        ahead = Ranks(r for r in call.completed if r in lines and group_of(facts.case, lines[r]) == call.group)
        front = facts.progress.by_group_rank.get((call.group, rank))
        may_be_gpu = front is not None and front.enqueued > call.seq and len(own) <= len(ahead)
        if ahead and not (may_be_gpu and not call.unknown):  # else its device may merely stand still
            return _out_of_step(facts, call, [lines[r] for r in own], [lines[r] for r in ahead], may_be_gpu)
    return None


def _out_of_step(
    facts: Facts,
    call: StuckCall,
    inside: Sequence[CollectiveTimeout],
    others: Sequence[CollectiveTimeout],
    may_be_gpu: bool,
) -> Hypothesis:
    """The smaller side, where the other is twice as large and all members were heard; else any of them."""
    own, ahead = (Ranks(e.rank for e in side if e.rank is not None) for side in (inside, others))
    odd = min(own, ahead, key=len) if 2 * min(len(own), len(ahead)) <= max(len(own), len(ahead)) else Ranks()
    odd = odd if not call.unknown else Ranks()
    counters = [e for e in facts.case.of(WorkStatus) if e.rank in ahead][:1]
    stalled = stalled_of(facts, call)
    assert stalled is not None
    line, other = inside[0], others[0]
    title = call_title(line.op, call.seq)
    return Hypothesis(
        headline_of("disagree.counted-apart", own=own, call=title, ahead=ahead, odd=odd, may_be_gpu=may_be_gpu),
        [
            Line(line, say("disagree.still-in", rank=line.rank, call=title)),
            Line(other, say("disagree.already-in", rank=other.rank, call=call_title(other.op, other.seq))),
            *(Line(e, say("disagree.counts-as-finished", rank=e.rank, seq=e.last_completed)) for e in counters),
        ],
        (doubt_of("only-counters"),),
        ranks=odd,
        suspects=Ranks() if odd else own | ahead,
        stalled=replace(stalled, entered=stalled.entered | call.completed),
    )
