"""The sides of a mismatch: ``rank 3 called BROADCAST, ranks 0-2 called ALLREDUCE``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from msgspec.structs import replace

from nccldoctor.diagnose.phrases.headline import Headline, whole
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list

Side = tuple[Ranks, str]
"""Ranks that agree, and the value that they share."""

MOST = 4
"""Sides that a headline names."""


def each_side(sides: Sequence[Side], did: str) -> str:
    """What each side did, and how many ranks more differ."""
    told = [say("disagree.side", ranks=ranks, did=did, value=value) for ranks, value in sides[:MOST]]
    more = sum(len(ranks) for ranks, _ in sides[MOST:])
    return ", ".join([*told, *([say("disagree.more-sides", more=more)] if more else [])])


def sized_sides(sides: Sequence[tuple[Ranks, int]], did: str = "sent", frames: Sequence[str] = ()) -> str:
    """``rank 3 sent 512 elements, ranks 0-2 sent 1,024``.

    ``frames`` are the places of the sides, where they differ: ``rank 3 sent 1 element in evaluate (train.py:21)``.
    """
    values = [say("disagree.elements", count=count) if n == 0 else f"{count:,}" for n, (_, count) in enumerate(sides)]
    places = zip_longest(values, frames, fillvalue="")
    told = [say("disagree.side-at", value=value, frame=frame) for value, frame in places]
    return each_side([(ranks, value) for (ranks, _), value in zip(sides, told, strict=True)], did)


def at_places(headline: Headline | str, places: Sequence[str]) -> Headline:
    """The headline, and where in a framework the ranks were: ``…; rank 3 was in evaluate of the Trainer.``"""
    found = whole(headline.removesuffix(".")) if isinstance(headline, str) else headline
    where = and_list(places)
    if found.detail:
        return replace(found, detail=f"{found.detail}; {where}")
    return replace(found, did=f"{found.did}; {where}") if found.did else replace(found, who=f"{found.who}; {where}")
