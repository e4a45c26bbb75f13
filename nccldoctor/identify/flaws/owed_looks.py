"""Finds the ranks that still owe capture the newest look. The files were read before they had answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from nccldoctor.events import CaptureNotice, Event, ProcessState, Stack
from nccldoctor.model import Gap
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.times import instant


class OwedLook(Struct, frozen=True):
    """The stacks that ``ranks`` owe to a look. ``asker`` asked for it at ``asked``; ranks that run answer until ``due``."""

    asker: int
    asked: datetime
    due: datetime
    ranks: Ranks


def owed_look(events: Sequence[Event], world: Ranks) -> OwedLook | None:
    """The newest look, where some ranks have not answered it; None without one, or after the end of the job.

    A rank answers by its stack, or by a state that says why there is none: a signal stopped it.
    """
    asked = [e for e in events if isinstance(e, CaptureNotice) and e.look is not None and e.time is not None]
    newest = max((e.look or "" for e in asked), default="")
    first = next((e for e in asked if e.look == newest), None)
    if first is None or first.time is None or first.rank is None or any(e.is_end_of_process for e in events):
        return None
    answered = {e.rank for e in events if isinstance(e, Stack) and newest in e.place.path.split("/")}
    answered |= {e.rank for e in events if isinstance(e, ProcessState) and e.state in ("stopped", "gone", "zombie")}
    owing = world - Ranks(rank for rank in answered if rank is not None)
    return (
        OwedLook(first.rank, first.time, first.time + timedelta(seconds=first.within_s or 0), owing) if owing else None
    )


def owed_look_gaps(events: Sequence[Event], world: Iterable[int]) -> Iterator[Gap]:
    """A gap that names the ranks, who asked them, and when all have answered."""
    owed = owed_look(events, Ranks(world))
    if owed is not None:
        why = (
            f"{ranks_phrase(owed.ranks, 4)} had not written stacks yet when the files were read. "
            f"Rank {owed.asker} asked at {instant(owed.asked)}; answers are due by {instant(owed.due)}"
        )
        yield Gap("newest look", why, owed.ranks)
