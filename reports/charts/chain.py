"""The wait chain as a drawing: a box for ranks that stand alike, arrows to those they wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Standing
from nccldoctor.reports.charts.text_width import fitting, width_of
from nccldoctor.reports.parts import standing_titles
from nccldoctor.reports.parts.tones import Tone, tone_of, worst
from nccldoctor.words import names, numbers
from nccldoctor.words.sentences import capitalized

WIDTH = 612
"""Of the whole drawing; fewer columns make wider boxes, up to :data:`WIDEST`."""

WIDEST, ACROSS, DOWN = 220, 34, 12
"""Space between columns, and between boxes of a column."""

TALL, LOW = 58, 44
"""The height of boxes, with and without the name of a group."""

COLUMNS, BOXES = 4, 8
"""At most: what is further away stands in the last column, and the longest column folds until all boxes fit."""

TOP = 8

SMALL = 10.5


class Box(Struct, frozen=True):
    """One box with its colour; ``key`` holds the ranks as text for the search."""

    x: int
    y: int
    tone: Tone
    title: str
    details: tuple[str, ...]
    key: str


class Arrow(Struct, frozen=True):
    """A line from the box that waits to the other one: an SVG path, and the points of its head.

    ``is_recorded`` is false where a stack shows the wait and no record for whom.
    """

    path: str
    head: str
    tone: Tone
    is_recorded: bool


class ChainPicture(Struct, frozen=True):
    """The drawing with its size and the same in words."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    box_width: int
    box_height: int
    width: int
    height: int
    says: str


class _Node(Struct, frozen=True):
    """Ranks that share a box."""

    ranks: Ranks
    waits_for: Ranks
    tone: Tone
    column: int
    details: tuple[str, ...]


def chain_picture(standings: Sequence[Standing]) -> ChainPicture | None:
    """The drawing; None where nobody waits for anybody."""
    chained = [(min(s.distance, COLUMNS - 1), s) for s in standings if s.distance is not None]
    nodes = _few_boxes([_Node(s.ranks, s.waits_for, tone_of(s), column, _details(s)) for column, s in chained])
    if len({node.column for node in nodes}) < 2:
        return None
    columns: dict[int, list[_Node]] = defaultdict(list)
    for node in nodes:
        columns[node.column].append(node)
    size = min((WIDTH - ACROSS * (len(columns) - 1)) // len(columns), WIDEST)
    tall = TALL if any(len(node.details) > 1 for node in nodes) else LOW
    height = TOP * 2 + max(map(len, columns.values())) * (tall + DOWN) - DOWN
    step = tall + DOWN
    placed = [
        (
            _box_of(node, place * (size + ACROSS), (height - len(inside) * step + DOWN) // 2 + row * step, size - 18),
            node,
        )
        for place, (_, inside) in enumerate(sorted(columns.items()))
        for row, node in enumerate(inside)
    ]
    arrows = [
        arrow
        for here, node in placed
        for there, other in placed
        if (arrow := _arrow(here, node, there, other, size, tall)) is not None
    ]
    width = len(columns) * (size + ACROSS) - ACROSS
    boxes = tuple(box for box, _ in placed)
    waits = (
        f"{standing_titles.ranks_title(s.ranks)} {names.verb(s.ranks, 'waits', 'wait')} for {standing_titles.ranks_title(s.waits_for)}"
        for s in standings
        if s.waits_for
    )
    text = ". ".join(f"{capitalized(says)}" for says in waits)
    return ChainPicture(boxes, tuple(arrows), size, tall, width, height, f"{text}." if text else "") if arrows else None


def _details(standing: Standing) -> tuple[str, ...]:
    """The call and its group; of the default group, which all ranks share, the call alone."""
    call = standing.call
    if call is None:
        return (standing_titles.place_title(standing),)
    kind = names.kind_name(call.kind)
    group = names.group_title(call.groups[0]) if len(call.groups) == 1 else kind
    title = names.call_title(call.op, call.seq)
    return (title, group) if group and kind != "default group" else (title,)


def _few_boxes(nodes: list[_Node]) -> list[_Node]:
    """At most :data:`BOXES` boxes: two of a long column share one, rather two that wait for the same."""
    while len(nodes) > BOXES:
        columns: dict[int, list[_Node]] = defaultdict(list)
        for node in nodes:
            columns[node.column].append(node)
        by_length = sorted(columns.values(), key=lambda c: (len(c), c[0].column), reverse=True)
        pairs = [pair for column in by_length for pair in combinations(column[::-1], 2)]
        last, before = next((pair for pair in pairs if pair[0].waits_for & pair[1].waits_for), pairs[0])
        first = before.details[0] if before.details[0] == last.details[0] else "in several calls"
        calls = before.details if before.details == last.details else (first,)
        tone = worst([before.tone, last.tone])
        ranks = before.ranks | last.ranks
        merged = _Node(ranks, (before.waits_for | last.waits_for) - ranks, tone, before.column, calls)
        nodes = [merged if node is before else node for node in nodes if node is not last]
    return nodes


def _box_of(node: _Node, x: int, y: int, room: int) -> Box:
    title = standing_titles.ranks_title(node.ranks)
    title = title if width_of(title, 13) <= room else numbers.plural(len(node.ranks), "rank")
    details = tuple(_cut(detail, room) for detail in node.details)
    return Box(x, y, node.tone, title, details, str(node.ranks))


def _cut(detail: str, room: int) -> str:
    """The text in its box; of a call the number stays whole."""
    name, mark, number = detail.rpartition(" #")
    if not mark or width_of(detail, SMALL) <= room:
        return fitting(detail, SMALL, room)
    return fitting(name, SMALL, room - width_of(mark + number, SMALL)) + mark + number


def _arrow(here: Box, node: _Node, there: Box, other: _Node, width: int, height: int) -> Arrow | None:
    """An arrow to the box that is waited for; along the lower edge where two wait for each other."""
    is_recorded = bool(node.waits_for)
    is_unnamed = not is_recorded and node.column == 1 and other.column == 0
    if here is there or not (node.waits_for & other.ranks or is_unnamed):
        return None
    if there.x == here.x:
        x, start, tip, back = here.x + width // 2, here.y + height, there.y, -7
        if there.y < here.y:
            start, tip, back = here.y, there.y + height, 7
        return Arrow(
            f"M{x} {start}V{tip + back}", f"{x},{tip} {x - 4},{tip + back} {x + 4},{tip + back}", node.tone, is_recorded
        )
    if there.x > here.x:
        y, turn = here.y + height - 8, there.x - ACROSS // 2 + 5
        tip = there.y + height - 8
        path = f"M{here.x + width} {y}H{turn}V{tip}H{there.x - 7}"
        head = f"{there.x - 1},{tip} {there.x - 8},{tip - 4} {there.x - 8},{tip + 4}"
        return Arrow(path, head, node.tone, is_recorded)
    y, target, tip = here.y + height // 2, there.y + height // 2, there.x + width
    middle = tip + ACROSS // 2
    path = f"M{here.x} {y}H{middle}V{target}H{tip + 7}" if y != target else f"M{here.x} {y}H{tip + 7}"
    head = f"{tip + 1},{target} {tip + 8},{target - 4} {tip + 8},{target + 4}"
    return Arrow(path, head, node.tone, is_recorded)
