"""What a rule is, and what it hands back: a conclusion about one stall, before it is weighed against others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, written
from nccldoctor.model import CauseClass, Confidence, Evidence, Stalled
from nccldoctor.model.ranks import Ranks

MOST_QUOTES = 12
"""Pieces of evidence that a finding keeps; the rest would say the same again."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a rule concludes about one stall. ``ceiling`` is the confidence it may reach if independent observers agree.

    ``ranks`` are named as culprits, ``suspects`` may be; ``victims`` are ranks that wait without a stuck call to name, as in the set-up
    of a group. ``refuted_by`` and ``cause`` are those of the rule where they are not given.
    """

    headline: str
    citations: Sequence[Citation]
    ceiling: Confidence
    ranks: Ranks = Ranks()
    suspects: Ranks = Ranks()
    call: StuckCall | None = None
    stalled: Stalled | None = None
    victims: Ranks = Ranks()
    refuted_by: str = ""
    cause: CauseClass | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion(Hypothesis):
    """A hypothesis whose rule held: its class is settled and its citations are written out."""

    cause: CauseClass
    evidence: tuple[Evidence, ...]


Judge = Callable[[Facts, Stall], Hypothesis | None]
"""Looks at one stall; returns a hypothesis, or None where the rule does not hold."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to explain a stall. It is asked before the built-in rule of class ``before``."""

    cause: CauseClass
    judge: Judge
    refuted_by: str
    before: CauseClass
    explanation: str

    def conclude(self, facts: Facts, stall: Stall) -> Conclusion | None:
        """The conclusion, or None where the rule does not hold or nothing shows what it says."""
        hypothesis = self.judge(facts, stall)
        evidence = written(facts, hypothesis.citations) if hypothesis is not None else ()
        if hypothesis is None or not evidence:
            return None
        values = {field.name: getattr(hypothesis, field.name) for field in fields(hypothesis)}
        values |= {"cause": hypothesis.cause or self.cause, "refuted_by": hypothesis.refuted_by or self.refuted_by}
        return Conclusion(**values, evidence=evidence)


RULES: list[Rule] = []
"""All rules that were imported, unordered; see :func:`nccldoctor.diagnose.rules.load`."""


def rule(cause: CauseClass, *, refuted_by: str, before: CauseClass | None = None) -> Callable[[Judge], Judge]:
    """Register a ``judge`` function. The docstring of its module is what ``nccldoctor explain CLASS`` prints.

    ``refuted_by`` ends the sentence *this would be refuted by …* of every finding, unless a hypothesis has one of its own.

    A plug-in that recognises a broken switch, say, writes ``@rule(CauseClass.NETWORK, refuted_by="a ping", before=CauseClass.HARDWARE)``.
    """

    def register(judge: Judge) -> Judge:
        explanation = inspect.getdoc(inspect.getmodule(judge)) or ""
        RULES.append(Rule(cause, judge, refuted_by, before or cause, explanation))
        return judge

    return register
