"""Hypotheses: the conclusions that rules propose about one stall, before they compete."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Doubt, Evidence, Stalled
from nccldoctor.model.ranks import Ranks

MOST_QUOTES = 12
"""Pieces of evidence that a finding keeps; the rest would say the same again."""


class Hypothesis(Struct, frozen=True):
    """The conclusion of a rule about one stall, with what keeps it from being sure.

    ``ranks`` are named as culprits, ``suspects`` may be; ``victims`` are ranks that wait without a stuck call to name, as in the set-up
    of a group. ``refuted_by`` and ``cause`` are those of the rule where they are not given. A headline that is plain text holds at every
    confidence.
    """

    headline: Headline | str
    citations: Sequence[Citation]
    doubts: Sequence[Doubt]
    ranks: Ranks = Ranks()
    suspects: Ranks = Ranks()
    call: StuckCall | None = None
    stalled: Stalled | None = None
    victims: Ranks = Ranks()
    refuted_by: str = ""
    cause: CauseClass | None = None


class Conclusion(Hypothesis, frozen=True, kw_only=True):
    """A hypothesis whose rule held: its class is settled and its citations are written out."""

    headline: Headline
    doubts: tuple[Doubt, ...]
    cause: CauseClass
    evidence: tuple[Evidence, ...]

    @property
    def confidence_in(self) -> ConfidenceIn:
        """The confidence that its doubts leave in its ranks and in its class."""
        ranks = Confidence.lowest(doubt.ranks for doubt in self.doubts)
        return ConfidenceIn(ranks, Confidence.lowest(doubt.cause for doubt in self.doubts))

    @property
    def confidence(self) -> Confidence:
        """The lower of the two."""
        return self.confidence_in.lower
