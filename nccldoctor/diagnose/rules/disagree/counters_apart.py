"""A rank waits in a call that another member of its group counts as completed.

What it means: no rank can complete such a call alone. The two made different calls with that number, because one of them skipped or
added some before, or the GPU of the waiting rank stopped.
How we know: by the counters of two watchdogs. Rank 3 waits in ALLREDUCE #18, and rank 0 counts #18 as completed and waits in #20.
What would refute it: dumps in which both ranks recorded the same calls up to that number.
"""

from __future__ import annotations

from msgspec.structs import replace

from nccldoctor.align.descriptions import stalled_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import headline_of, say
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.watchdog_diffs import EARLY
from nccldoctor.events import CollectiveTimeout, WorkStatus
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import call_title


@rule(
    CauseClass.MISSED_CALL,
    refuted_by=say("refuted.same-counted", call="that number"),
    before=CauseClass.DTYPE_MISMATCH,
)
def judge(facts: Facts, _stall: ObservedStall) -> Hypothesis | None:
    """Two ranks that are out of step, by the counters of their watchdogs alone."""
    if facts.progress.recorded_ranks:
        return None
    newest = {e.rank: e for e in facts.case.of(CollectiveTimeout) if e.rank is not None and e.op is not None}
    lines = {rank: line for rank, line in newest.items() if line.op not in EARLY}
    for rank, keys in sorted(facts.wait_graph.waits_in.items()):
        call = facts.wait_graph.calls[keys[0]] if keys else None
        line = lines.get(rank)
        if call is None or line is None or line.seq != call.seq or rank not in call.inside:
            continue
        ahead = Ranks(r for r in call.completed if r in lines and group_of(facts.case, lines[r]) == call.group)
        front = facts.progress.by_group_rank.get((call.group, rank))
        has_issued_more = front is not None and front.enqueued > call.seq
        if ahead and not (has_issued_more and not call.unknown):  # else its device may merely stand still
            return _out_of_step(facts, call, line, [lines[r] for r in ahead], has_issued_more)
    return None


def _out_of_step(
    facts: Facts, call: StuckCall, line: CollectiveTimeout, others: list[CollectiveTimeout], has_issued_more: bool
) -> Hypothesis:
    ahead, own = Ranks(e.rank for e in others if e.rank is not None), Ranks([line.rank or 0])
    counters = [e for e in facts.case.of(WorkStatus) if e.rank in ahead][:1]
    stalled = stalled_of(facts, call)
    assert stalled is not None
    title, other = call_title(line.op, call.seq), others[0]
    return Hypothesis(
        headline_of("disagree.counted-apart", own=line.rank or 0, call=title, ahead=ahead, may_be_gpu=has_issued_more),
        [
            Line(line, say("disagree.still-in", rank=line.rank, call=title)),
            Line(other, say("disagree.already-in", rank=other.rank, call=call_title(other.op, other.seq))),
            *(Line(e, say("disagree.counts-as-finished", rank=e.rank, seq=e.last_completed)) for e in counters),
        ],
        (Doubt.at_most(Confidence.LOW, say("disagree.only-counters")),),
        suspects=own | ahead,
        stalled=replace(stalled, entered=stalled.entered | call.completed),
    )
