"""A rank stands at a prompt that nobody answers.

What it means: a breakpoint or a question of the program stopped one rank, and the others wait for it in their next call.
How we know: the prompt of a debugger, or a question, is the last thing that the rank wrote, and no step of it follows.
What would refute it: a later step of the rank, or an answer to the prompt.
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
from nccldoctor.events import Note
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks


@rule(CauseClass.NOT_ARRIVED, refuted_by=say("refuted.answered-prompt"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The few ranks whose prompt is open, where nobody complains or fails."""
    if stall.kind is not StallKind.NOTHING or facts.liveness.first_alarm is not None or facts.failures:
        return None
    prompts = [e for e in stall.job.health.troubles if isinstance(e, Note) and e.is_prompt and e.rank is not None]
    ranks = Ranks(e.rank for e in prompts if e.rank is not None)
    if not 0 < 2 * len(ranks) < len(facts.case.world):
        return None
    return Hypothesis(
        headline_of("absent.at-prompt", who=who(facts.case, ranks), ranks=ranks),
        [Line(e, say("absent.waits-for-input", rank=e.rank)) for e in prompts[:3]],
        [Doubt.at_most(Confidence.LOW, say("doubts.no-proof-of-wait"))],
        ranks=ranks,
    )
