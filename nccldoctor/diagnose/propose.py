"""Asks every rule about a stall and keeps all that they propose, the best explanation first.

The order is that of the contract's table *Which class*: a record of the cause (an Xid, a kill) comes before a record of the call (another
size), that before absence that is shown, and that before absence that is inferred. Why an order, and no sum of weights:
``docs/diagnosis.md``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nccldoctor.align.descriptions import describe
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall
from nccldoctor.diagnose.confidence import weighed
from nccldoctor.diagnose.hypothesis import Conclusion
from nccldoctor.diagnose.nccl_counters_check import check_counters
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.rules import load

_LOG = logging.getLogger("nccldoctor")


@dataclass(frozen=True, slots=True)
class Proposals:
    """All hypotheses about one stall that hold, the best first. There is always one: *undetermined* holds everywhere."""

    stall: Stall
    ranked: tuple[Conclusion, ...]

    @property
    def best(self) -> Conclusion:
        """The hypothesis that explains the stall."""
        return self.ranked[0]

    @property
    def others(self) -> tuple[Conclusion, ...]:
        """The hypotheses that lost, each one once: other ranks, or another class for the same ranks."""
        seen = {(self.best.cause, self.best.ranks)}
        kept = []
        for conclusion in self.ranked[1:]:
            if (conclusion.cause, conclusion.ranks) not in seen:
                seen.add((conclusion.cause, conclusion.ranks))
                kept.append(conclusion)
        return tuple(kept)


def propose(facts: Facts, stall: Stall) -> Proposals:
    """What all rules propose for one stall."""
    about = f"stall ({stall.kind}, ranks {stall.ranks}, {describe(facts, stall.call)})"
    observed = ObservedStall.of(facts, stall)
    ranked = tuple(_held(facts, observed, about))
    _LOG.debug("%s: %s explains it: %s", about, ranked[0].cause, ranked[0].headline.sure)
    return Proposals(stall, ranked)


def _held(facts: Facts, stall: ObservedStall, about: str) -> Iterator[Conclusion]:
    for rule in load():
        conclusion = rule.conclude(facts, stall)
        if conclusion is None:
            _LOG.debug("%s: %s is not proposed, its rule does not hold", about, rule.cause)
            continue
        checked = check_counters(facts, conclusion)
        yield replace(checked, doubts=weighed(facts, checked))
