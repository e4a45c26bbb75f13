"""What a rule is, and what it hands back: a conclusion about one stall, before it is weighed against others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation
from nccldoctor.model import CauseClass, Confidence, Evidence, Stalled
from nccldoctor.model.ranks import Ranks

MOST_QUOTES = 12
"""Pieces of evidence that a finding keeps; the rest would say the same again."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A rule's conclusion. ``ceiling`` is the confidence it may reach if its evidence comes from independent observers.

    ``victims`` are ranks that wait without a stuck call to name, as in the set-up of a group. ``evidence`` are the ``citations`` as
    they are quoted: it is empty until a rule has held.
    """

    cause: CauseClass
    headline: str
    citations: tuple[Citation, ...]
    ceiling: Confidence
    refuted_by: str
    ranks: Ranks = Ranks()
    suspects: Ranks = Ranks()
    call: StuckCall | None = None
    stalled: Stalled | None = None
    victims: Ranks = Ranks()
    evidence: tuple[Evidence, ...] = ()


Judge = Callable[[Facts, Stall], Hypothesis | None]
"""Looks at one stall; returns a hypothesis, or None where the rule does not hold."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to explain a stall. It is asked before the first rule of class ``before``, the class it concludes if not said otherwise."""

    cause: CauseClass
    judge: Judge
    before: CauseClass
    explanation: str


RULES: list[Rule] = []
"""All rules that were imported, unordered; see :func:`nccldoctor.diagnose.rules.load`."""


def rule(cause: CauseClass, *, before: CauseClass | None = None) -> Callable[[Judge], Judge]:
    """Register a ``judge`` function. The docstring of its module is what ``nccldoctor explain CLASS`` prints.

    A plug-in that recognises a broken switch, say, writes ``@rule(CauseClass.NETWORK, before=CauseClass.HARDWARE)``.
    """

    def register(judge: Judge) -> Judge:
        RULES.append(Rule(cause, judge, before or cause, inspect.getdoc(inspect.getmodule(judge)) or ""))
        return judge

    return register
