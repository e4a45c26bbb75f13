"""Hypotheses: the conclusions that rules return about one stall, before they are weighed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation
from nccldoctor.model import CauseClass, Confidence, Evidence, Stalled
from nccldoctor.model.ranks import Ranks

MOST_QUOTES = 12
"""Pieces of evidence that a finding keeps; the rest would say the same again."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The conclusion of a rule about one stall. ``ceiling`` is the confidence it may reach if independent observers agree.

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
