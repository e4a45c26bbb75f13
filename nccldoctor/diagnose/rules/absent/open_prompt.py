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
from nccldoctor.diagnose.registry import rule
from nccldoctor.events import Note
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb


@rule(CauseClass.NOT_ARRIVED, refuted_by="a later step of the rank, or an answer to the prompt")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The few ranks whose prompt is open, where nobody complains or fails."""
    if stall.kind is not StallKind.NOTHING or facts.liveness.first_alarm is not None or facts.failures:
        return None
    prompts = [e for e in stall.health.troubles if isinstance(e, Note) and e.is_prompt and e.rank is not None]
    ranks = Ranks(e.rank for e in prompts if e.rank is not None)
    if not 0 < 2 * len(ranks) < len(facts.case.world):
        return None
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} {verb(ranks, 'stands', 'stand')} at a prompt that nobody answers",
        [Line(e, f"rank {e.rank} waits for input, and nothing of it follows") for e in prompts[:3]],
        [Doubt.at_most(Confidence.LOW, "no dump and no stack shows that the others wait")],
        ranks=ranks,
    )
