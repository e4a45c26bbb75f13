"""All ranks of a large job in one picture: where each stands in the last six calls of its group."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Diagnosis, RankState
from nccldoctor.reports.charts import cells
from nccldoctor.reports.charts.strip import CELLS

STATES = ("done", "queued", "waiting", "unknown", "never")
"""From harmless to odd: of several ranks in one cell the last one shows."""

BINS = 256
WIDTH, HEIGHT = 1024.0, 14.0


@dataclass(frozen=True, slots=True)
class FrontPicture:
    """Ranks from left to right, ``step`` of them in one column; calls from top (older) to bottom (newest)."""

    width: float
    height: float
    paths: tuple[tuple[str, str], ...]
    ticks: tuple[tuple[float, str], ...]
    step: int
    text: str


def picture(diagnosis: Diagnosis, least: int) -> FrontPicture | None:
    """The picture of a job of more than ``least`` ranks; None for a smaller one, or where no front is known."""
    states = diagnosis.ranks
    ends: dict[str | None, int] = {}
    for state in states:
        front = max((n for n in (state.completed, state.enqueued) if n is not None), default=None)
        if front is not None:
            ends[state.group] = max(ends.get(state.group, front), front)
    if len(states) <= least or not ends:
        return None
    rows = [_levels(state, ends.get(state.group)) for state in states]
    few, step = cells.merged(rows, BINS, bytes(range(1, len(STATES) + 1)))
    width = WIDTH / len(few)
    counts = {name: sum(level in row for row in rows) for level, name in enumerate(STATES)}
    marks = sorted({0, len(few) // 4, len(few) // 2, len(few) * 3 // 4, len(few) - 1})
    return FrontPicture(
        width=WIDTH,
        height=CELLS * HEIGHT,
        paths=tuple((STATES[n], p) for n, p in cells.paths(cells.turned(few), 0, 0, width, HEIGHT).items()),
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


def _levels(state: RankState, end: int | None) -> bytes:
    """One level for each of the last calls of the group."""
    done, issued = state.completed, state.enqueued
    if end is None or (done is None and issued is None):
        return bytes([STATES.index("unknown")] * CELLS)
    return bytes(STATES.index(_standing(done, issued, seq)) for seq in range(end - CELLS + 1, end + 1))


def _standing(done: int | None, issued: int | None, seq: int) -> str:
    if seq < 0 or (done is not None and seq <= done):
        return "done"
    if issued is not None and seq > issued:
        return "never"
    if issued is None or done is None:
        return "unknown"
    return "waiting" if seq == done + 1 else "queued"
