"""Six calls of a rank's group, the last ones or those around the call that stalls: how far the rank came in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nccldoctor.model import RankState
from nccldoctor.reports.parts.rank_rows import Row

CELLS = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """One call: ``state`` is done, waiting, queued, never or unknown."""

    seq: int
    state: str


def strips(rows: Sequence[Row], states: Sequence[RankState] = ()) -> tuple[tuple[Cell, ...], ...]:
    """For each row six calls of its group; empty where no front of the rank is known."""
    shown = windows((*rows, *states))
    return tuple(_strip(row, shown[row.group]) if row.group in shown else () for row in rows)


def windows(everyone: Iterable[Row | RankState]) -> dict[str | None, range]:
    """The numbers shown of each group: the last that anybody issued; where a device lags behind its host by more, those
    from the last call on that most of the waiting ranks finished.
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


def _strip(row: Row, numbers: range) -> tuple[Cell, ...]:
    if row.completed is None and row.enqueued is None:
        return ()
    return tuple(Cell(seq, _state(row, seq)) for seq in numbers)


def _state(row: Row, seq: int) -> str:
    done, issued = row.completed, row.enqueued
    if done is not None and seq <= done:
        return "done"
    if issued is not None and seq > issued:
        return "never"
    if issued is None or done is None:
        return "unknown"
    return "waiting" if seq == done + 1 else "queued"
