"""What a rule hands back: a conclusion about one stall, with its evidence, before it is numbered and weighed against others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.model import CauseClass, Confidence, Evidence, Stalled
from nccldoctor.model.ranks import Ranks

MOST_QUOTES = 12
"""Pieces of evidence that a finding keeps; the rest would say the same again."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A rule's conclusion. ``ceiling`` is the confidence it may reach if its evidence comes from independent observers; ``victims``
    are those who wait where no call tells, in the set-up of a group.
    """

    cause: CauseClass
    headline: str
    evidence: tuple[Evidence, ...]
    ceiling: Confidence
    refuted_by: str
    ranks: Ranks = Ranks()
    suspects: Ranks = Ranks()
    call: StuckCall | None = None
    stalled: Stalled | None = None
    victims: Ranks = Ranks()


Rule = Callable[[Facts, Stall], Hypothesis | None]
"""Looks at one stall and concludes something, or nothing."""
