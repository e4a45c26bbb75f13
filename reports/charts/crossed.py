"""The calls of two ranks, each in its own order; lines join equal calls and cross where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.model.figures import CallDiff, IssuedCall
from nccldoctor.reports.charts.text_width import fitting
from nccldoctor.words import names

WIDTH, BOX, ROW, HEIGHT, TOP = 780, 320, 30, 22, 26

BEFORE, AFTER = 2, 3
"""Rows before the first difference and behind it."""


@dataclass(frozen=True, slots=True)
class CallBox:
    """One call of one rank; ``differs`` where the other rank issued it elsewhere or not at all."""

    x: int
    y: int
    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Joint:
    """A line between equal calls; ``crosses`` where both ranks issued them in another order."""

    path: str
    crosses: bool


@dataclass(frozen=True, slots=True)
class CrossedCalls:
    """The drawing: the rank at the head of each column, boxes and lines."""

    left: int
    right: int
    boxes: tuple[CallBox, ...]
    joints: tuple[Joint, ...]
    height: int
    says: str


def crossed_calls(diff: CallDiff) -> CrossedCalls:
    """The drawing of the calls around the first difference."""
    first = next((n for n, row in enumerate(diff.rows) if row.kind != "same"), 0)
    rows = diff.rows[max(first - BEFORE, 0) : first + AFTER + 1]
    left = [row.left for row in rows if row.left is not None]
    right = [row.right for row in rows if row.right is not None]
    places = {call.key: n for n, call in enumerate(right)}
    pairs = [(n, places[call.key]) for n, call in enumerate(left) if call.key in places]
    crossing = {a for a in pairs for b in pairs if (a[0] - b[0]) * (a[1] - b[1]) < 0}
    boxes = _boxes(left, 0, {n for n, _ in pairs} - {n for n, _ in crossing})
    boxes += _boxes(right, WIDTH - BOX, {n for _, n in pairs} - {n for _, n in crossing})
    joints = tuple(Joint(_path(a, b), (a, b) in crossing) for a, b in pairs)
    height = TOP + max(len(left), len(right)) * ROW
    told = (
        f"rank {rank}: " + ", ".join(_call_text(call) for call in calls)
        for rank, calls in ((diff.left, left), (diff.right, right))
    )
    return CrossedCalls(diff.left, diff.right, tuple(boxes), joints, height, "; ".join(told))


def _boxes(calls: Sequence[IssuedCall], x: int, agreed: set[int]) -> list[CallBox]:
    return [
        CallBox(x, TOP + n * ROW, fitting(_call_text(c), 12.5, BOX - 20), n not in agreed) for n, c in enumerate(calls)
    ]


def _call_text(call: IssuedCall) -> str:
    return f"{names.call_title(call.op, call.seq)} · {names.group_title(call.group)}" + (
        "" if call.done else " · waiting"
    )


def _path(a: int, b: int) -> str:
    y1, y2 = TOP + a * ROW + HEIGHT // 2, TOP + b * ROW + HEIGHT // 2
    return f"M{BOX} {y1}H{BOX + 24}L{WIDTH - BOX - 24} {y2}H{WIDTH - BOX}"
