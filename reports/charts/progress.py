"""All ranks of a large job in one picture: where each stands in six calls of its group."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Diagnosis, RankState
from nccldoctor.reports.charts import cells
from nccldoctor.reports.charts.strip import CELLS, windows

STATES = ("done", "queued", "waiting", "unknown", "never")
"""From harmless to odd: of several ranks in one cell the last one shows."""

BINS = 256
WIDTH, HEIGHT = 1024.0, 14.0


@dataclass(frozen=True, slots=True)
class ProgressPicture:
    """Ranks from left to right, ``step`` of them in one column; calls from top (older) to bottom (newer)."""

    width: float
    height: float
    paths: tuple[tuple[str, str], ...]
    ticks: tuple[tuple[float, str], ...]
    step: int
    text: str


def picture(diagnosis: Diagnosis, least: int) -> ProgressPicture | None:
    """The picture of a job of more than ``least`` ranks; None for a smaller one, or where no front is known."""
    states = diagnosis.ranks
    shown = windows(states)
    if len(states) <= least or not shown:
        return None
    rows = [_levels(state, shown.get(state.group)) for state in states]
    few, step = cells.merged(rows, BINS, bytes(range(1, len(STATES) + 1)))
    width = WIDTH / len(few)
    counts = {name: sum(level in row for row in rows) for level, name in enumerate(STATES)}
    marks = sorted({0, len(few) // 4, len(few) // 2, len(few) * 3 // 4, len(few) - 1})
    return ProgressPicture(
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


def _levels(state: RankState, numbers: range | None) -> bytes:
    """One level for each of six calls of the group; one that has issued fewer began with them."""
    done, issued = state.completed, state.enqueued
    if numbers is None or (done is None and issued is None):
        return bytes([STATES.index("unknown")] * CELLS)
    return bytes(STATES.index(_standing(done, issued, seq)) for seq in range(numbers.stop - CELLS, numbers.stop))


def _standing(done: int | None, issued: int | None, seq: int) -> str:
    if seq < 0 or (done is not None and seq <= done):
        return "done"
    if issued is not None and seq > issued:
        return "never"
    if issued is None or done is None:
        return "unknown"
    return "waiting" if seq == done + 1 else "queued"
