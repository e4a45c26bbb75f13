"""Shares among all files what close looks may cost and how many events are kept.

Lines of progress, joins on trial and events would otherwise cost the same in each of ten thousand files as in one. The shares depend
on the number of files alone, so that the same input is read in the same way whichever file a thread takes first.
"""

from __future__ import annotations

from msgspec import Struct

SAMPLED_IN_ALL, SAMPLED_AT_LEAST, SAMPLED_AT_MOST = 4_000, 8, 1_000
"""Lines of progress looked at in one region of all texts, and of each: of thousands of ranks the last steps of each tell enough."""

TRIALS_IN_ALL, TRIALS_AT_LEAST, TRIALS_AT_MOST = 20_000, 40, 600
"""Lines read on trial, joined or in pieces, some 0.2 ms each. Each successful join earns more."""

ROOM_IN_ALL, ROOM_AT_LEAST, ROOM_AT_MOST = 64_000, 500, 4_000
"""Events kept of all texts together, and of each (see ``retention.py``)."""

MENDED_IN_ALL, MENDED_AT_LEAST, MENDED_AT_MOST = 128 << 20, 1 << 20, 16 << 20
"""Bytes of a file that is searched for broken lines; a larger one is read as it is."""


class Effort(Struct, frozen=True):
    """What one file may cost.

    ``sampled`` lines of progress in each region of it, half as many in a small file of one rank (see ``sampling.py``); ``trials`` of
    joining broken lines, none where it holds more than ``mended`` bytes; ``room`` for the other events that are kept.
    """

    sampled: int = SAMPLED_AT_MOST
    trials: int = TRIALS_AT_MOST
    mended: int = MENDED_AT_MOST
    room: int = ROOM_AT_MOST


def shared_by(files: int) -> Effort:
    """What each of so many texts may cost."""
    files = max(1, files)
    return Effort(
        sampled=min(SAMPLED_AT_MOST, max(SAMPLED_AT_LEAST, SAMPLED_IN_ALL // files)),
        trials=min(TRIALS_AT_MOST, max(TRIALS_AT_LEAST, TRIALS_IN_ALL // files)),
        mended=min(MENDED_AT_MOST, max(MENDED_AT_LEAST, MENDED_IN_ALL // files)),
        room=min(ROOM_AT_MOST, max(ROOM_AT_LEAST, ROOM_IN_ALL // files)),
    )
