"""The decorator that makes a function a rule, and the registry of rules."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import asdict, replace

from nccldoctor.align.exits import last_trouble
from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.hypothesis import Conclusion, Hypothesis, quote, written
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.headline import whole
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.model import CauseClass

Judge = Callable[[Facts, ObservedStall], Hypothesis | None]
"""Looks at one stall; returns a hypothesis, or None where the rule does not hold."""


class Rule(Struct, frozen=True):
    """A way to explain a stall. It is asked before the built-in rule of class ``before``."""

    cause: CauseClass
    judge: Judge
    refuted_by: str
    before: CauseClass

    def conclude(self, facts: Facts, stall: ObservedStall) -> Conclusion | None:
        """The conclusion, or None where the rule does not hold or nothing shows what it says."""
        hypothesis = self.judge(facts, stall)
        evidence = written(facts, hypothesis.citations) if hypothesis is not None else ()
        if hypothesis is None or not evidence:
            return None
        # told where no rule cites them, and no proof
        shown = {item.where for item in evidence}
        last = (
            last_trouble(facts.case, facts.liveness, rank) for rank in list(hypothesis.ranks or hypothesis.suspects)[:3]
        )
        new = [event for event in last if event is not None and event.place not in shown]
        evidence += tuple(replace(quote(e, say("absent.last-trouble", rank=e.rank)), observer="") for e in new)
        values = asdict(hypothesis)
        headline = hypothesis.headline
        values |= {
            "headline": whole(headline) if isinstance(headline, str) else headline,
            "doubts": tuple(hypothesis.doubts),
            "cause": hypothesis.cause or self.cause,
            "refuted_by": hypothesis.refuted_by or self.refuted_by,
        }
        return Conclusion(**values, evidence=evidence)


RULES: list[Rule] = []
"""All rules that were imported, unordered; see :func:`nccldoctor.diagnose.rules.load`."""


def rule(cause: CauseClass, *, refuted_by: str, before: CauseClass | None = None) -> Callable[[Judge], Judge]:
    """Register a ``judge`` function.

    ``refuted_by`` ends the sentence *this would be refuted by …* of every finding, unless a hypothesis has one of its own.

    A plug-in that recognises a broken switch, say, writes ``@rule(CauseClass.NETWORK, refuted_by="a ping", before=CauseClass.HARDWARE)``.
    """

    def register(judge: Judge) -> Judge:
        RULES.append(Rule(cause, judge, refuted_by, before or cause))
        return judge

    return register
