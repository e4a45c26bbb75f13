"""A row of a track: one thing that a rank did, and between which times it began to."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model import Place


class TrackRow(Struct, frozen=True):
    """One thing that a rank did, as ``inspect --tracks`` and ``incident.tracks`` show it.

    ``doing`` is the kind, ``what`` says it in words; ``group`` and ``seq`` are those of a call that hangs. It began not before ``earliest``
    and not after ``latest``, in seconds on the job's clock (infinite: unknown), by what ``known_by`` names. ``where`` is the line or the
    recorder entry that shows it; None in the row that says why nothing is known of a rank.
    """

    rank: int
    doing: str
    what: str
    group: str | None
    seq: int | None
    earliest: float
    latest: float
    known_by: str
    where: Place | None
