"""A tool that times all ranks says which are slower than the others.

What it means: a slow device or host; the job is as fast as its slowest rank. Nothing is stuck.
How we know: the straggler detection of NVRx, or the check of the nodes by DLRover, compared the ranks; nobody complains of a call.
Example: NVRx finds the kernels of rank 5 slower than those of ranks 0-4, 6 and 7.
What would refute it: a later report of that tool without the rank.
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.log_endings import has_clean_end
from nccldoctor.events import SlowReport
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks


@rule(CauseClass.STRAGGLER, refuted_by=say("refuted.not-reported-again"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The ranks of the newest report, where nobody gave up or failed."""
    reports = list(facts.case.of(SlowReport))
    if not reports or has_clean_end(facts):
        return None
    if facts.liveness.first_alarm is not None or facts.failures or stall.kind is StallKind.CRASH:
        return None
    newest = reports[-1]
    ranks = newest.slow if newest.of == "rank" else Ranks()
    if stall.kind is StallKind.ABSENT and not (ranks and stall.ranks <= ranks):
        return None
    named = who(facts.case, ranks) if ranks else say("slow.node-name", nodes=newest.slow)
    return Hypothesis(
        headline_of("slow.reported-slower", who=named, slow=newest.slow, by=newest.by),
        [Line(newest, say("slow.compared-all", by=newest.by))],
        (Doubt.at_most(Confidence.MEDIUM, say("slow.one-tool")),),
        ranks=ranks & facts.case.world if facts.case.world else ranks,
    )
