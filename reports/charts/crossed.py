"""The calls of two ranks side by side: lines join equal calls, and cross where the order differs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from msgspec import Struct

from nccldoctor.model.figures import CallDiff, CallDiffRow, IssuedCall
from nccldoctor.reports.charts.text_width import fitting, width_of
from nccldoctor.words import names

WIDTH, BOX, ROW, HEIGHT, TOP = 612, 258, 34, 26, 28

BEFORE, AFTER = 2, 3
"""Rows before the first difference and behind it."""

TITLE, SMALL = 12.5, 11.0
"""Sizes of the call, and of its group and its state."""


class CallBox(Struct, frozen=True):
    """One call of one rank, or an empty slot. It ``differs`` where the other rank issued it elsewhere or not at all."""

    x: int
    y: int
    title: str
    group: str
    state: str
    differs: bool
    is_empty: bool = False


class Joint(Struct, frozen=True):
    """A line between equal calls; ``crosses`` where both ranks issued them in another order."""

    path: str
    crosses: bool


class CrossedCalls(Struct, frozen=True):
    """The drawing: a peer on the left and a culprit on the right, boxes and lines."""

    left: int
    right: int
    boxes: tuple[CallBox, ...]
    joints: tuple[Joint, ...]
    seqs: frozenset[int | None]
    height: int
    says: str

    @property
    def is_swapped(self) -> bool:
        """True where two calls stand in opposite order."""
        return any(joint.crosses for joint in self.joints)


def crossed_calls(diff: CallDiff) -> CrossedCalls:
    """The drawing of the calls around the first difference; the culprit's stand on the right."""
    first = next((n for n, row in enumerate(diff.rows) if row.kind != "same"), 0)
    rows = diff.rows[max(first - BEFORE, 0) : first + AFTER + 1]
    peer, culprit = _placed(rows)
    places = {call.key: n for n, call in culprit if call is not None}
    pairs = [(n, places[call.key]) for n, call in peer if call is not None and call.key in places]
    crossing = {a for a in pairs for b in pairs if (a[0] - b[0]) * (a[1] - b[1]) < 0}
    if not crossing:
        pairs = [(n, n) for n, row in enumerate(rows) if row.kind == "same"]
        peer, culprit = [(n, row.right) for n, row in enumerate(rows)], [(n, row.left) for n, row in enumerate(rows)]
    agreed = [(a, b) for a, b in pairs if (a, b) not in crossing]
    boxes = (*_boxes(peer, 0, {a for a, _ in agreed}), *_boxes(culprit, WIDTH - BOX, {b for _, b in agreed}))
    joints = tuple(Joint(_path(a, b), (a, b) in crossing) for a, b in pairs)
    calls = [call for _, call in (*peer, *culprit) if call is not None]
    told = (
        f"Rank {rank}: " + ", ".join(_title(call) for _, call in side if call is not None) + "."
        for rank, side in ((diff.right, peer), (diff.left, culprit))
    )
    height = TOP + max(n for n, _ in (*peer, *culprit)) * ROW + HEIGHT + 2
    return CrossedCalls(diff.right, diff.left, boxes, joints, frozenset(c.seq for c in calls), height, " ".join(told))


_Placed = list[tuple[int, IssuedCall | None]]


def _placed(rows: Sequence[CallDiffRow]) -> tuple[_Placed, _Placed]:
    """The calls of both sides, each in its own order."""
    peer = [row.right for row in rows if row.right is not None]
    culprit = [row.left for row in rows if row.left is not None]
    return list(enumerate(peer)), list(enumerate(culprit))


def _boxes(calls: _Placed, x: int, agreed: set[int]) -> Iterator[CallBox]:
    states = _states([call for _, call in calls])
    for (place, call), state in zip(calls, states, strict=True):
        y = TOP + place * ROW
        if call is None:
            yield CallBox(x, y, "no call", "", "", differs=True, is_empty=True)
            continue
        title = fitting(_title(call), TITLE, BOX - 20 - width_of(state, SMALL))
        room = BOX - 34 - width_of(title, TITLE) - width_of(state, SMALL)
        group = names.group_title(call.group)
        shown = group if width_of(group, SMALL) <= room else ""
        yield CallBox(x, y, title, shown, state, place not in agreed)


def _states(calls: Sequence[IssuedCall | None]) -> Iterator[str]:
    """*done*, *waiting* for the first call that did not complete, *queued* for those behind it."""
    queued = itertools.chain(["waiting"], itertools.repeat("queued"))
    for call in calls:
        yield "" if call is None else "done" if call.done else next(queued)


def _title(call: IssuedCall) -> str:
    return names.call_title(call.op, call.seq)


def _path(a: int, b: int) -> str:
    y1, y2 = TOP + a * ROW + HEIGHT // 2, TOP + b * ROW + HEIGHT // 2
    return f"M{BOX} {y1}H{BOX + 10}L{WIDTH - BOX - 10} {y2}H{WIDTH - BOX}"
