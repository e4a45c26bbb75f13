"""The progress of ranks in six calls of their group: strips of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from nccldoctor.model import RankState
from nccldoctor.reports.parts.rank_rows import Row

CELLS = 6

STATES = ("done", "queued", "waiting", "unknown", "never")
"""From harmless to odd: of several ranks in one cell the last one shows."""


class Cell(Struct, frozen=True):
    """One call: ``state`` is one of :data:`STATES`."""

    seq: int
    state: str


def strips(rows: Sequence[Row], states: Sequence[RankState] = ()) -> tuple[tuple[Cell, ...], ...]:
    """Six calls of its group for each row; empty where the progress of the ranks is not known."""
    shown = _windows((*rows, *states))
    return tuple(
        tuple(Cell(seq, _state(row.completed, row.enqueued, seq)) for seq in shown[row.group])
        if row.completed is not None or row.enqueued is not None
        else ()
        for row in rows
    )


def _windows(everyone: Iterable[Row | RankState]) -> dict[str | None, range]:
    """The sequence numbers shown of each group: the last six, or those around the call that stalls.

    Where hosts enqueued up to #30 and most waiting ranks completed #12, the strip shows #12 to #17.
    """
    ends: dict[str | None, int] = {}
    stuck: dict[str | None, Counter[int]] = {}
    for standing in everyone:
        done, issued = standing.completed, standing.enqueued
        front = max((n for n in (done, issued) if n is not None), default=None)
        if front is not None:
            ends[standing.group] = max(ends.get(standing.group, front), front)
        if done is not None and issued is not None and done < issued:
            stuck.setdefault(standing.group, Counter())[done] += 1
    return {group: _window(end, stuck.get(group, Counter())) for group, end in ends.items()}


def _window(end: int, stuck: Counter[int]) -> range:
    last = max(end - CELLS + 1, 0)
    first = min(stuck, key=lambda seq: (-stuck[seq], seq), default=last)
    begin = min(last, max(first, 1))
    return range(begin, min(begin + CELLS, end + 1))


def _state(done: int | None, issued: int | None, seq: int) -> str:
    if seq < 0 or (done is not None and seq <= done):
        return "done"
    if issued is not None and seq > issued:
        return "never"
    if issued is None or done is None:
        return "unknown"
    return "waiting" if seq == done + 1 else "queued"
