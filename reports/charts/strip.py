"""The last six calls of a rank's group: how far the rank came in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.model import RankState
from nccldoctor.reports.progress import Row

CELLS = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """One call: ``state`` is done, waiting, queued, never or unknown."""

    seq: int
    state: str


def strips(rows: Sequence[Row], states: Sequence[RankState] = ()) -> tuple[tuple[Cell, ...], ...]:
    """For each row the last calls of its group, ending with the last one that anybody in the group issued, in a row
    or among ``states``.

    Empty where a front is not known, or where the rank is thousands of calls away from the others.
    """
    ends: dict[str | None, int] = {}
    everyone: tuple[Row | RankState, ...] = (*rows, *states)
    for standing in everyone:
        front = max((n for n in (standing.completed, standing.enqueued) if n is not None), default=None)
        if front is not None:
            ends[standing.group] = max(ends.get(standing.group, front), front)
    return tuple(_strip(row, ends[row.group]) if row.group in ends else () for row in rows)


def _strip(row: Row, end: int) -> tuple[Cell, ...]:
    if row.completed is None and row.enqueued is None:
        return ()
    return tuple(Cell(seq, _state(row, seq)) for seq in range(max(end - CELLS + 1, 0), end + 1))


def _state(row: Row, seq: int) -> str:
    done, issued = row.completed, row.enqueued
    if done is not None and seq <= done:
        return "done"
    if issued is not None and seq > issued:
        return "never"
    if issued is None or done is None:
        return "unknown"
    return "waiting" if seq == done + 1 else "queued"
