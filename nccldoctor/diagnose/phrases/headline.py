"""A headline as a value: who did what, and a detail.

*Probably* joins the verb where what the sentence states is not sure. A sentence that is too long says less: the reports show hosts,
places in the program and whole messages right below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model import Confidence, ConfidenceIn
from nccldoctor.words.lists import and_list
from nccldoctor.words.sentences import sentence

ROOM = 90
"""Characters of a headline where it can be said in so many: two lines of the page."""

_MANY = {"is": "are", "was": "were", "has": "have"}
_HOST = re.compile(r"(?<!local )(\b[Rr]anks? \d[\d, -]*) \((?:\d+ hosts|pid \d+|[^\s():]+)(?:, [^()]{1,300})?\)")
_PLACE = re.compile(r"(?:, (?:called )?in [^\s()]{1,100})? \([^()]{1,300}:\d+\)")


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
    sentence holds at every confidence. ``basis`` is what the sentence states. ``briefs`` are shorter details, the fullest first.
    """

    who: str
    did: str
    detail: str = ""
    be: str = ""
    hedge: str = "probably"
    basis: Basis = Basis.RANKS_AND_CLASS
    briefs: tuple[str, ...] = ()

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
        """The fullest sentence that fits: first the hosts go, then places in the program, then the detail gets shorter."""
        words = " ".join(filter(None, (self.who, self.be, hedge, self.did)))
        bare = _HOST.sub(r"\1", words)
        places = set(re.findall(r"(\S+) (\([^()]+:\d+\))", f"{words}: {self.detail}"))
        are_needed = len({function for function, _ in places}) < len(places)  # at main (a.py:3), and at main (a.py:9)
        texts = (bare, self.detail, *self.briefs)
        short, *details = (text if are_needed else _PLACE.sub("", text) for text in texts)
        forms = [(words, self.detail), (bare, _HOST.sub(r"\1", self.detail)), (short, self.detail)]
        forms += [(short, detail) for detail in details if self.detail]
        told = [sentence(f"{start}: {detail}" if detail else start) for start, detail in forms]
        least = min(told, key=len)
        end = least.rfind(". ", 0, ROOM) + 1 or least.find(". ") + 1 or len(least)  # one sentence at least
        return next((text for text in told if len(text) <= ROOM), least[:end])


def with_sentence(text: str, more: str) -> str:
    """A headline with one more sentence behind it, where both fit; the hosts make room."""
    both = [f"{start} {more}" for start in (text, _HOST.sub(r"\1", text))]
    return next((told for told in both if len(told) <= ROOM), text)


def whole(text: str) -> Headline:
    """A headline that holds at every confidence."""
    return Headline(text.removesuffix("."), "", hedge="")


def joined(headlines: Sequence[Headline], who: str) -> Headline | None:
    """One headline for several ranks that did the same; None where they did not. ``who`` are all of them.

    Example: rank 0 and rank 4 each *never reached ALLREDUCE #7*: ``Ranks 0, 4 never reached ALLREDUCE #7.``
    """
    first = headlines[0]
    if not first.did or len({(h.did, h.be, h.hedge, h.basis) for h in headlines}) > 1:
        return None
    is_alike = all(h.detail == first.detail for h in headlines)
    told = replace(first, who=who, be=_MANY.get(first.be, first.be))
    return told if is_alike else replace(told, detail="", briefs=())


def several(headlines: Sequence[Headline]) -> Headline:
    """One headline for several independent hangs, of which three are told: ``2 independent hangs: …; …``."""
    more = [f"{len(headlines) - 3} more"] if len(headlines) > 3 else []
    told = "; ".join((*(h.short for h in headlines[:3] if h.short), *more))
    return Headline("", f"{len(headlines)} independent hangs", told, basis=_basis(headlines))


def together(headlines: Sequence[Headline]) -> Headline:
    """One headline for several ranks of one stall that did different things, three of which are told."""
    more = [f"{len(headlines) - 3} more ranks did the like"] if len(headlines) > 3 else []
    return Headline("", and_list([*(h.short for h in headlines[:3]), *more]), basis=_basis(headlines))


def _basis(headlines: Sequence[Headline]) -> Basis:
    """What several headlines state together: their classes where any of them states one."""
    return Basis.RANKS if all(h.basis is Basis.RANKS for h in headlines) else Basis.RANKS_AND_CLASS
