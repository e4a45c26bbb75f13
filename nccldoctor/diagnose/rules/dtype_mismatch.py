"""A rank issued another dtype than its peers at the same place in the sequence.

What it means: one call differs and the calls around it fit, or the history is too short to tell a shift from a difference.
How we know: recorder entries of the members under one sequence number; the minority differs, a tie names nobody. Without dumps, the
lines of watchdogs or of a wrapper that compared both ends.
What would refute it: equal entries of all members under that number, or streams that fit when moved by one call.
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.rules.mismatch import judged
from nccldoctor.model import CauseClass

CAUSE = CauseClass.DTYPE_MISMATCH


def judge(facts: Facts, stall: Stall) -> Hypothesis | None:
    """Who issued another dtype."""
    return judged(facts, stall, CAUSE, "dtype")
