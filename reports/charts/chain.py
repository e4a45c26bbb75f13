"""The wait chain as a drawing: a box for ranks that stand alike, arrows to those they wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.model.standings import Involvement, Standing
from nccldoctor.reports.parts import standing_titles

BOX, HEIGHT = 168, 44
ACROSS, DOWN = 30, 14
"""Space between columns, and between boxes of a column."""

COLUMNS, ROWS = 3, 6
"""Columns at most: what is further away stands in the last. Boxes in a column at most: the rest share one."""

TOP = 8


@dataclass(frozen=True, slots=True)
class Box:
    """One box; ``involvement`` is its colour, ``key`` the ranks as text for the search."""

    x: int
    y: int
    involvement: Involvement
    title: str
    detail: str
    key: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line from the box that waits to the other one: an SVG path, and the points of its head."""

    path: str
    head: str
    involvement: Involvement


@dataclass(frozen=True, slots=True)
class ChainPicture:
    """The drawing with its size and the same in words."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int
    says: str


def chain_picture(standings: Sequence[Standing]) -> ChainPicture | None:
    """The drawing; None where nobody waits for anybody."""
    shown = [s for s in standings if s.distance is not None]
    if len(shown) < 2 or not any(s.distance for s in shown):
        return None
    columns: dict[int, list[Standing]] = defaultdict(list)
    for standing in shown:
        columns[min(standing.distance or 0, COLUMNS - 1)].append(standing)
    tallest = max(min(len(column), ROWS) for column in columns.values())
    height = TOP * 2 + tallest * (HEIGHT + DOWN) - DOWN
    boxes: list[tuple[Box, Standing]] = []
    for place, number in enumerate(sorted(columns)):
        boxes += _column(columns[number], place * (BOX + ACROSS), height)
    arrows = [a for here, standing in boxes for there, other in boxes if (a := _arrow(here, standing, there, other))]
    if not arrows:
        return None
    width = len(columns) * (BOX + ACROSS) - ACROSS
    return ChainPicture(tuple(box for box, _ in boxes), tuple(arrows), width, height, _waits_in_words(shown))


def _column(standings: Sequence[Standing], x: int, height: int) -> list[tuple[Box, Standing]]:
    drawn = list(standings[:ROWS])
    start = (height - len(drawn) * (HEIGHT + DOWN) + DOWN) // 2
    out = []
    for row, standing in enumerate(drawn):
        y = start + row * (HEIGHT + DOWN)
        title, detail = standing_titles.ranks_title(standing.ranks), standing_titles.place_title(standing)
        out.append((Box(x, y, standing.involvement, title, detail, str(standing.ranks)), standing))
    return out


def _arrow(here: Box, standing: Standing, there: Box, other: Standing) -> Arrow | None:
    """An arrow to the box that is waited for; along the lower edge where two wait for each other."""
    if not standing.waits_for & other.ranks or there.x == here.x:
        return None
    if there.x > here.x:
        y, turn = here.y + HEIGHT - 8, there.x - ACROSS // 2 + 4
        path = f"M{here.x + BOX} {y}H{turn}V{there.y + HEIGHT - 8}H{there.x - 7}"
        tip = there.y + HEIGHT - 8
        return Arrow(path, f"{there.x - 1},{tip} {there.x - 8},{tip - 4} {there.x - 8},{tip + 4}", standing.involvement)
    y, target, tip = here.y + HEIGHT // 2, there.y + HEIGHT // 2, there.x + BOX
    middle = tip + ACROSS // 2
    path = f"M{here.x} {y}H{middle}V{target}H{tip + 7}" if y != target else f"M{here.x} {y}H{tip + 7}"
    return Arrow(path, f"{tip + 1},{target} {tip + 8},{target - 4} {tip + 8},{target + 4}", standing.involvement)


def _waits_in_words(standings: Sequence[Standing]) -> str:
    waits = (
        f"{standing_titles.ranks_title(s.ranks)} wait{'s' if len(s.ranks) == 1 else ''} for {standing_titles.ranks_title(s.waits_for)}"
        for s in standings
        if s.waits_for
    )
    text = ". ".join(f"{says[:1].upper()}{says[1:]}" for says in waits)
    return f"{text}." if text else ""
