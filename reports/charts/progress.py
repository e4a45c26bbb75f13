"""The progress of ranks in six calls of their group: strips of cells, and a picture of all ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nccldoctor.model import Diagnosis, RankState
from nccldoctor.reports.charts import cells
from nccldoctor.reports.parts.rank_rows import Row

CELLS = 6

STATES = ("done", "queued", "waiting", "unknown", "never")
"""From harmless to odd: of several ranks in one cell the last one shows."""

BINS = 256
WIDTH, HEIGHT = 1024.0, 14.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One call: ``state`` is one of :data:`STATES`."""

    seq: int
    state: str


@dataclass(frozen=True, slots=True)
class ProgressPicture:
    """Ranks from left to right, ``step`` of them in one column; calls from top (older) to bottom (newer)."""

    width: float
    height: float
    paths: tuple[tuple[str, str], ...]
    ticks: tuple[tuple[float, str], ...]
    step: int
    text: str


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


def picture(diagnosis: Diagnosis, least: int) -> ProgressPicture | None:
    """The picture of a job of more than ``least`` ranks; None where it is smaller or no progress is known."""
    states = diagnosis.ranks
    shown = _windows(states)
    if len(states) <= least or not shown:
        return None
    rows = [_levels(state, shown.get(state.group)) for state in states]
    columns, step = cells.merged(rows, BINS, bytes(range(1, len(STATES) + 1)))
    width = WIDTH / len(columns)
    counts = {name: sum(level in row for row in rows) for level, name in enumerate(STATES)}
    marks = sorted({0, len(columns) // 4, len(columns) // 2, len(columns) * 3 // 4, len(columns) - 1})
    return ProgressPicture(
        width=WIDTH,
        height=CELLS * HEIGHT,
        paths=tuple((STATES[n], p) for n, p in cells.paths(cells.turned(columns), 0, 0, width, HEIGHT).items()),
        ticks=tuple((n * width, f"{states[n * step].rank:,}") for n in marks),
        step=step,
        text=", ".join(f"{counts[name]:,} ranks with a call {word}" for name, word in _WORDS if counts[name]),
    )


_WORDS = (
    ("waiting", "that they wait in"),
    ("never", "not issued"),
    ("queued", "queued behind"),
    ("unknown", "not known"),
)


def _levels(state: RankState, numbers: range | None) -> bytes:
    """One level for each of six calls of the group; a group that has issued fewer began with them."""
    if numbers is None or (state.completed is None and state.enqueued is None):
        return bytes([STATES.index("unknown")] * CELLS)
    calls = range(numbers.stop - CELLS, numbers.stop)
    return bytes(STATES.index(_state(state.completed, state.enqueued, seq)) for seq in calls)
