"""Asks every rule about a stall and keeps all that they propose, the best explanation first.

The order is that of the contract's table *Which class*: a record of the cause (an Xid, a kill) comes before a record of the call (another
size), that before absence that is shown, and that before absence that is inferred. Why an order, and no sum of weights:
``docs/diagnosis.md``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.descriptions import describe
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall
from nccldoctor.attempts import Broken, attempt
from nccldoctor.diagnose.confidence import strongest_first, weighed
from nccldoctor.diagnose.hypothesis import Conclusion
from nccldoctor.diagnose.nccl_counters_check import check_counters
from nccldoctor.diagnose.observations import ObservedJob, ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.diagnose.registry import Rule
from nccldoctor.diagnose.rules import load
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.sanitize import line

_LOG = logging.getLogger("nccldoctor")


class Proposals(Struct, frozen=True):
    """All hypotheses about a stall that hold, the best first; *undetermined* holds everywhere. ``broken`` are the rules that failed."""

    stall: Stall
    ranked: tuple[Conclusion, ...]
    broken: tuple[Broken, ...] = ()

    @property
    def best(self) -> Conclusion:
        """The hypothesis that explains the stall."""
        return self.ranked[0]

    @property
    def others(self) -> tuple[Conclusion, ...]:
        """The hypotheses that lost, each one once: other ranks, or another class for the same ranks."""
        each: dict[tuple[CauseClass, Ranks], Conclusion] = {}
        for conclusion in self.ranked:
            each.setdefault((conclusion.cause, conclusion.ranks), conclusion)
        return tuple(each.values())[1:]


def propose(job: ObservedJob, stall: Stall) -> Proposals:
    """What all rules propose for one stall of a job."""
    facts = job.facts
    about = f"stall ({stall.kind}, ranks {stall.ranks}, {describe(facts, stall.call)})"
    observed = ObservedStall.of(job, stall)
    asked = [(rule, attempt(f"the rule {rule.cause}", partial(_concluded, rule, facts, observed))) for rule in load()]
    ranked: list[Conclusion] = []
    broken: list[Broken] = []
    for rule, answer in asked:
        if isinstance(answer, Broken):
            broken.append(answer)
        elif answer is None:
            _LOG.debug("%s: %s is not proposed, its rule does not hold", about, rule.cause)
        elif not (broken and answer.cause is CauseClass.NONE):  # health is proved by all rules, or not at all
            ranked.append(_doubted(answer, broken))
    _LOG.debug("%s: %s explains it: %s", about, ranked[0].cause, line(ranked[0].headline.sure))
    return Proposals(stall, tuple(ranked), tuple(broken))


def _concluded(rule: Rule, facts: Facts, stall: ObservedStall) -> Conclusion | None:
    conclusion = rule.conclude(facts, stall)
    if conclusion is None:
        return None
    checked = check_counters(facts, conclusion)
    return replace(checked, doubts=weighed(facts, checked))


def _doubted(conclusion: Conclusion, broken: Sequence[Broken]) -> Conclusion:
    """A conclusion, less sure where a rule that comes before its own failed: that one may have explained the stall."""
    if not broken:
        return conclusion
    doubt = doubt_of("not-checked", parts=[each.what for each in broken])
    return replace(conclusion, doubts=strongest_first((*conclusion.doubts, doubt)))
