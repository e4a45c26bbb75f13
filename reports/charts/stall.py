"""The stall to scale: a bar for ranks that stand alike, from the first arrival to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import Mark
from nccldoctor.model.standings import Involvement, Standing
from nccldoctor.reports.parts import standing_titles
from nccldoctor.words import numbers, times

LEFT, RIGHT, WIDTH = 150, 14, 1096
TOP, ROW, BAR = 32, 26, 16
ROWS = 10
SHORTEST = 0.02
"""Seconds of a stall that is worth a drawing: what is shorter is the noise of clocks."""

FLAGS = {
    "trouble": "fault",
    "dump": "dumps written",
    "stack": "stacks taken",
    "timeout": "first timeout",
    "exception": "exception",
    "exit": "first exit",
}
"""Kinds of marks that become a flag, with its label."""

CLOSEST = 240
"""Pixels between two flags: nearer marks share one."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: its label, and its bar in pixels, with the text on it. ``end`` is where the processes ended, None where unknown."""

    label: str
    detail: str
    involvement: Involvement
    y: int
    x: float
    width: float
    text: str
    key: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A moment: a vertical line with a label; ``anchor`` says on which side of it the label stands."""

    x: float
    label: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class StallPicture:
    """The drawing; ``subtitle`` says what second 0 is, ``says`` the same in words."""

    bars: tuple[Bar, ...]
    flags: tuple[Flag, ...]
    ticks: tuple[Tick, ...]
    height: int
    subtitle: str
    says: str


def stall_picture(diagnosis: Diagnosis) -> StallPicture | None:
    """The drawing; None where no time is known after the stall began."""
    rows = [s for s in diagnosis.standings if s.distance is not None][:ROWS]
    waiting = [s.since for s in rows if s.distance and s.call is not None and s.since is not None]
    if not waiting:
        return None
    start = min(waiting)
    marks = _marks(diagnosis, start)
    end = max([s.until for s in rows if s.until is not None] + [mark.at for mark in marks], default=start)
    if end - start < SHORTEST:
        return None
    scale = (WIDTH - LEFT - RIGHT) / (end - start)
    bars = tuple(_bar(standing, number, start, end, scale) for number, standing in enumerate(rows))
    height = TOP + len(rows) * ROW + 26
    first = min(
        (s for s in rows if s.call is not None and s.since is not None and s.distance), key=lambda s: s.since or 0.0
    )
    subtitle = (
        f"Time since {standing_titles.ranks_title(first.ranks)} entered {standing_titles.waited_title(first.call)}."
    )
    return StallPicture(
        bars, _flags(marks, start, scale), _axis(end - start, scale), height, subtitle, _words(rows, start)
    )


def _marks(diagnosis: Diagnosis, start: float) -> list[Mark]:
    """The first mark of each kind from the start on, in order of time."""
    if diagnosis.timeline is None:
        return []
    marks = sorted((m for row in diagnosis.timeline.rows for m in row.marks if m.at >= start), key=lambda m: m.at)
    firsts: dict[str, Mark] = {}
    for mark in marks:
        if mark.kind in FLAGS:
            firsts.setdefault(mark.kind, mark)
    return list(firsts.values())


def _bar(standing: Standing, number: int, start: float, end: float, scale: float) -> Bar:
    since = start if standing.since is None else max(standing.since, start)
    until = end if standing.until is None else min(max(standing.until, since), end)
    return Bar(
        label=standing_titles.ranks_title(standing.ranks),
        detail=numbers.plural(len(standing.hosts), "host") if len(standing.hosts) > 1 else "".join(standing.hosts),
        involvement=standing.involvement,
        y=TOP + number * ROW,
        x=LEFT + (since - start) * scale,
        width=max((until - since) * scale, 2.0),
        text=_bar_text(standing),
        key=str(standing.ranks),
    )


def _bar_text(standing: Standing) -> str:
    place = standing_titles.place_title(standing)
    return f"{place}, waits for {standing_titles.ranks_title(standing.waits_for)}" if standing.waits_for else place


def _flags(marks: Sequence[Mark], start: float, scale: float) -> tuple[Flag, ...]:
    """One flag a moment; marks that stand close together share one, which names the first two of them."""
    moments: list[list[Mark]] = []
    for mark in marks:
        if moments and (mark.at - moments[-1][0].at) * scale < CLOSEST:
            moments[-1].append(mark)
        else:
            moments.append([mark])
    return tuple(_flag(moment, start, scale) for moment in moments)


def _flag(moment: Sequence[Mark], start: float, scale: float) -> Flag:
    x = LEFT + (moment[0].at - start) * scale
    label = ", ".join(FLAGS[mark.kind] for mark in moment[:2]) + (" …" if len(moment) > 2 else "")
    text = f"{label} · {times.duration((moment[0].at - start) * 1e3)}"
    return Flag(x, text, "end" if x > WIDTH - CLOSEST else "start")


def _axis(seconds: float, scale: float) -> tuple[Tick, ...]:
    """About six ticks at round seconds, minutes or hours."""
    steps = (
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.5,
        1,
        2,
        5,
        10,
        20,
        30,
        60,
        120,
        300,
        600,
        1200,
        1800,
        3600,
        7200,
        14400,
        43200,
    )
    step = next((s for s in steps if seconds / s <= 7), 86400)
    count = int(seconds / step)
    return tuple(
        Tick(LEFT + n * step * scale, "0" if n == 0 else times.duration(n * step * 1e3)) for n in range(count + 1)
    )


def _words(rows: Sequence[Standing], start: float) -> str:
    told = (
        f"{standing_titles.ranks_title(s.ranks)}: {_bar_text(s)}"
        + (f", until {times.duration((s.until - start) * 1e3)}" if s.until is not None else "")
        for s in rows
    )
    return "; ".join(told) + "."
