"""A headline as a value: who did what, and a detail.

*Probably* joins the verb where what the sentence states is not sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from nccldoctor.model import Confidence, ConfidenceIn
from nccldoctor.words.lists import and_list
from nccldoctor.words.sentences import sentence

_MANY = {"is": "are", "was": "were", "has": "have"}


class Basis(StrEnum):
    """What a headline states, and so which confidence it follows.

    *Rank 5 never reached ALLREDUCE #18* holds whether the rank is busy, frozen or dead: it states the rank alone. *Rank 5 died* states
    the class too.
    """

    RANKS = "ranks"
    RANKS_AND_CLASS = "ranks and class"


class Headline(Struct, frozen=True):
    """Who did what, with a detail: ``rank 5 (node2)``, ``was``, ``killed by SIGKILL before ALLREDUCE #18``.

    ``be`` is the auxiliary before which nothing may stand; ``hedge`` is what says that the verdict may be wrong, and "" where the
    sentence holds at every confidence. ``basis`` is what the sentence states.
    """

    who: str
    did: str
    detail: str = ""
    be: str = ""
    hedge: str = "probably"
    basis: Basis = Basis.RANKS_AND_CLASS

    @property
    def sure(self) -> str:
        """``Rank 5 (node2) was killed by SIGKILL before ALLREDUCE #18.``"""
        return self._sentence("")

    @property
    def unsure(self) -> str:
        """``Rank 5 (node2) was probably killed by SIGKILL before ALLREDUCE #18.``"""
        return self._sentence(self.hedge)

    @property
    def short(self) -> str:
        """The headline without its detail and its full stop, as a part of another sentence."""
        return " ".join(filter(None, (self.who, self.be, self.did)))

    def said(self, confidence_in: ConfidenceIn) -> str:
        """The sentence, hedged where the confidence in what it states is medium or below."""
        stated = confidence_in.ranks if self.basis is Basis.RANKS else confidence_in.lower
        return self.sure if stated is Confidence.HIGH else self.unsure

    def _sentence(self, hedge: str) -> str:
        words = " ".join(filter(None, (self.who, self.be, hedge, self.did)))
        return sentence(f"{words}: {self.detail}" if self.detail else words)


def whole(text: str) -> Headline:
    """A headline that holds at every confidence."""
    return Headline(text.removesuffix("."), "", hedge="")


def joined(headlines: Sequence[Headline], who: str) -> Headline | None:
    """One headline for several ranks that did the same; None where they did not. ``who`` are all of them.

    Example: rank 0 and rank 4 each *never reached ALLREDUCE #7*: ``Ranks 0, 4 never reached ALLREDUCE #7.``
    """
    first = headlines[0]
    if any((h.did, h.be, h.hedge, h.basis) != (first.did, first.be, first.hedge, first.basis) for h in headlines):
        return None
    if not first.did:
        return None
    detail = first.detail if all(h.detail == first.detail for h in headlines) else ""
    return Headline(who, first.did, detail, _MANY.get(first.be, first.be), first.hedge, first.basis)


def several(headlines: Sequence[Headline], most: int = 3) -> Headline:
    """One headline for several independent hangs, of which each is told: ``2 independent hangs: …; …``."""
    more = f"{len(headlines) - most} more" if len(headlines) > most else ""
    told = "; ".join(filter(None, (*(h.short for h in headlines[:most]), more)))
    return Headline("", f"{len(headlines)} independent hangs", told, basis=_basis(headlines))


def together(headlines: Sequence[Headline], most: int = 3) -> Headline:
    """One headline for several ranks of one stall that did different things."""
    more = [f"{len(headlines) - most} more ranks did the like"] if len(headlines) > most else []
    return Headline("", and_list([*(h.short for h in headlines[:most]), *more]), basis=_basis(headlines))


def _basis(headlines: Sequence[Headline]) -> Basis:
    """What several headlines state together: their classes where any of them states one."""
    return Basis.RANKS if all(h.basis is Basis.RANKS for h in headlines) else Basis.RANKS_AND_CLASS
