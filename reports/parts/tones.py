"""The tone in which pictures draw ranks: how they are involved, and whether they are a crowd."""

from __future__ import annotations

from enum import StrEnum

from nccldoctor.model.standings import Involvement, Standing

CROWD = 32
"""Ranks that wait alike from which on they are a crowd: too many to look at one by one."""


class Tone(StrEnum):
    """A colour and a hatch of pictures, worst first, with its word.

    A *crowd* waits too, directly or behind others. It is grey, so that the few ranks that matter stand out.
    """

    CULPRIT = "culprit"
    SUSPECT = "suspect"
    WAITING = "waiting"
    BLOCKED = "blocked"
    CROWD = "waiting crowd"
    UNINVOLVED = "not involved"
    UNKNOWN = "unknown"

    @property
    def is_blamed(self) -> bool:
        """True for ranks that an engineer has to look at."""
        return self in (Tone.CULPRIT, Tone.SUSPECT)


def tone_of(standing: Standing) -> Tone:
    """The tone of ranks that stand alike."""
    is_waiting = standing.involvement in (Involvement.WAITING, Involvement.BLOCKED)
    return Tone.CROWD if is_waiting and len(standing.ranks) >= CROWD else Tone[standing.involvement.name]


def worst(tones: list[Tone]) -> Tone:
    """The tone of a box or cell that holds several."""
    return min(tones, key=list(Tone).index)
