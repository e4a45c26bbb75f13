"""The wait-for graph: calls and the ranks they wait for, left to right, to the ranks that wait for nobody.

A call is a box (its waiting ranks are inside), needed ranks are a box, an arrow says *needs*. Needed ranks that wait themselves
point on to their own call: ranks 0-2 wait in ALLREDUCE #18 for rank 3, rank 3 waits in SEND #4 for rank 7. More than twelve
boxes fold into fewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nccldoctor.model import Link
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts.layers import Edge, Layout, layout
from nccldoctor.reports.charts.text_width import fitting
from nccldoctor.words import names
from nccldoctor.words.sanitize import line

BOXES = 12
WIDTH, HEIGHT, GAP, STEP, EDGE = 204, 78, 108, 106, 10
"""Of a box, the gap between columns, the step from row to row, the margin; in units of the drawing."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of three lines cut to its width, whole in ``full``; ``kind`` is call, culprit, suspect, rank or more."""

    kind: str
    title: str
    middle: str
    detail: str
    full: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow: ``kind`` is plain, culprit or cycle; ``path`` is SVG path data."""

    kind: str
    path: str
    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """The drawing in numbers; ``cycle`` where ranks wait for each other in a ring; ``text`` says it in words."""

    width: int
    height: int
    columns: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    cycle: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Node:
    kind: str
    title: str
    middle: str
    detail: str
    inside: Ranks
    needs: Ranks
    waits: bool = False


def wait_graph(chain: tuple[Link, ...], culprits: Ranks, suspects: Ranks) -> WaitGraph | None:
    """The drawing of a chain; None where no rank waits for another."""
    if not chain:
        return None
    nodes, edges = _graph(chain, culprits, suspects)
    placed = layout(len(nodes), tuple(edges))
    loop = set(placed.closing)
    return WaitGraph(
        width=2 * EDGE + placed.columns * WIDTH + (placed.columns - 1) * GAP,
        height=2 * EDGE + (placed.rows - 1) * STEP + HEIGHT + (44 if loop else 0),
        columns=placed.columns,
        boxes=tuple(_box(node, placed, number) for number, node in enumerate(nodes)),
        arrows=tuple(_arrow(edge, edges[edge], nodes, placed) for edge in edges),
        cycle=bool(loop),
        text="; ".join(in_words(link, suspects) for link in chain[:BOXES]),
    )


def in_words(link: Link, suspects: Ranks) -> str:
    """Writes a link as text: ``ranks 0, 2 wait in ALLREDUCE #18 of dp_0 for rank 4``.

    For suspects it ends in ``for one or more of ranks 4-5``.
    """
    verb = "waits" if len(link.waiting) == 1 else "wait"
    of = f" of {names.group_title(link.group)}" if link.group else ""
    some = "one or more of " if len(link.for_) > 1 and link.for_ <= suspects else ""
    needs = f" for {some}{names.ranks_phrase(link.for_)}" if link.for_ else "; nobody is shown to be missing"
    call = names.call_title(link.op, link.seq)
    return f"{names.ranks_phrase(link.waiting)} {verb} in {call}{of}{needs}"


def _graph(chain: tuple[Link, ...], culprits: Ranks, suspects: Ranks) -> tuple[list[_Node], dict[Edge, Ranks]]:
    """Boxes, and arrows with the ranks needed: as many classes of ranks as twelve boxes allow."""
    links = list(chain)
    for fine, merged in ((True, False), (False, False), (False, True)):
        shown = _merged(links, culprits) if merged else links
        calls = [_call_node(link) for link in shown]
        targets = _targets(shown, culprits, suspects, fine)
        if len(calls) + len(targets) <= BOXES:
            break
    calls, targets = _nearest(calls, targets)
    nodes = calls + targets
    edges: dict[Edge, Ranks] = {}
    for number, node in enumerate(nodes):
        for other, target in enumerate(nodes):
            if number < len(calls) <= other and node.needs & target.inside:
                edges[number, other] = node.needs & target.inside
            elif number >= len(calls) > other and node.waits and node.inside & target.inside:
                edges[number, other] = Ranks()
    return nodes, edges


def _call_node(link: Link) -> _Node:
    detail = _fitting_ranks("{} inside", link.waiting, 12, WIDTH - 16)
    call = names.call_title(link.op, link.seq)
    return _Node("call", call, names.group_title(link.group) or "group not known", detail, link.waiting, link.for_)


def _fitting_ranks(text: str, ranks: Ranks, size: float, width: float) -> str:
    """``text`` with the ranks where they fit, else with their count: a rank cut short is another rank."""
    phrases = [names.ranks_phrase(ranks, spans) for spans in (4, 3, 2, 1)]
    texts = [text.format(p) for p in (*phrases, f"{len(ranks):,} ranks" if len(ranks) > 1 else str(ranks))]
    return next((shown for shown in texts if fitting(shown, size, width) == shown), fitting(texts[-1], size, width))


def _targets(links: Iterable[Link], culprits: Ranks, suspects: Ranks, fine: bool) -> list[_Node]:
    """The ranks waited for, by role and by the calls they wait in; ``fine``: also by who needs them."""
    links = list(links)
    classes: dict[tuple[object, ...], list[int]] = {}
    waits: dict[int, list[int]] = {}
    needed: dict[int, list[int]] = {}
    for number, link in enumerate(links):
        for rank in link.waiting:
            waits.setdefault(rank, []).append(number)
        for rank in link.for_:
            needed.setdefault(rank, []).append(number)
    for rank in sorted(needed):
        kind = "culprit" if rank in culprits else "suspect" if rank in suspects else "rank"
        within = tuple(waits.get(rank, ()))
        key = (kind, within, tuple(needed[rank]) if fine else ())
        classes.setdefault(key, []).append(rank)
    return [_target_node(str(key[0]), Ranks(ranks), bool(key[1])) for key, ranks in classes.items()]


def _target_node(kind: str, ranks: Ranks, waiting: bool) -> _Node:
    role = {"culprit": "look here", "suspect": "suspect"}.get(kind, "needed")
    outside = "the chain ends here" if kind == "culprit" else "not seen to wait"
    state = "waits in another call" if waiting else outside
    return _Node(kind, _fitting_ranks("{}", ranks, 13.5, WIDTH - 16), role, state, ranks, Ranks(), waiting)


def _merged(links: list[Link], culprits: Ranks) -> list[Link]:
    """One link for calls that need the same ranks; those that need no culprit come last."""
    classes: dict[Ranks, list[Link]] = {}
    for link in links:
        classes.setdefault(link.for_, []).append(link)
    out = []
    for needs, members in classes.items():
        waiting = Ranks(rank for link in members for rank in link.waiting)
        first = members[0]
        group = first.group if len(members) == 1 else _and_others(first.group, len(members) - 1)
        out.append(Link(waiting, needs, group, first.op, first.seq))
    return sorted(out, key=lambda link: not link.for_ & culprits)


def _and_others(group: str, count: int) -> str:
    """``dp_0 and 3 other calls``: the group of the first call, cut to a box, and the count of others."""
    tail = f" and {count:,} other call{'' if count == 1 else 's'}"
    return (fitting(line(group, 60), 12, WIDTH - 16 - 0.6 * 12 * len(tail)) + tail).strip()


def _nearest(calls: list[_Node], targets: list[_Node]) -> tuple[list[_Node], list[_Node]]:
    """At most twelve boxes: the first calls and needed ranks, the others as one box each."""
    room = BOXES - 1
    if len(calls) + len(targets) <= BOXES:
        return calls, targets
    targets = sorted(targets, key=lambda node: ("culprit", "suspect", "rank").index(node.kind))
    kept, rest = targets[: room // 2], targets[room // 2 :]
    if rest:
        ranks = Ranks(rank for node in rest for rank in node.inside)
        kept.append(_Node("more", f"{len(ranks):,} more ranks", "folded here", "see the JSON", ranks, Ranks()))
    calls_kept, calls_rest = calls[: room - len(kept)], calls[room - len(kept) :]
    if calls_rest:
        waiting = Ranks(rank for node in calls_rest for rank in node.inside)
        needs = Ranks(rank for node in calls_rest for rank in node.needs)
        detail = f"{len(waiting):,} ranks inside"
        calls_kept.append(_Node("more", f"{len(calls_rest):,} more calls", "folded here", detail, waiting, needs))
    return calls_kept, kept


def _x(placed: Layout, node: int) -> float:
    return EDGE + placed.column[node] * (WIDTH + GAP)


def _y(row: float) -> float:
    return EDGE + row * STEP


def _box(node: _Node, placed: Layout, number: int) -> Box:
    return Box(
        kind=node.kind,
        title=_cut_call(node.title),
        middle=_cut_group(node.middle),
        detail=fitting(node.detail, 12, WIDTH - 16),
        full=f"{node.title}, {node.middle}: {node.detail}",
        x=_x(placed, number),
        y=_y(placed.row[number]),
    )


def _cut_call(text: str) -> str:
    """The name of a call cut to a box, its number whole."""
    op, mark, number = text.rpartition(" #")
    whole = fitting(text, 13.5, WIDTH - 16)
    if whole == text or not mark:
        return whole
    return fitting(op, 13.5, WIDTH - 16 - 0.56 * 13.5 * len(mark + number)) + mark + number


def _cut_group(text: str) -> str:
    """The name of a group cut to a box, its end whole, because names of groups differ at the end."""
    head, tail = text[:-5], text[-5:]
    cut = fitting(text, 12, WIDTH - 16)
    return cut if cut == text else fitting(head, 12, WIDTH - 16 - 40) + tail


def _arrow(edge: Edge, needs: Ranks, nodes: list[_Node], placed: Layout) -> Arrow:
    start, end = edge
    label = _fitting_ranks("needs {}", needs, 11.5, GAP - 10) if needs else "stuck behind"
    x1, y1 = _x(placed, start) + WIDTH, _y(placed.row[start]) + HEIGHT / 2
    x2, y2 = _x(placed, end), _y(placed.row[end]) + HEIGHT / 2
    if edge in placed.closing:
        low = EDGE + (placed.rows - 1) * STEP + HEIGHT + 22
        path = f"M{x1 - WIDTH / 2:g} {y1 + HEIGHT / 2:g}V{low:g}H{x2 + WIDTH / 2:g}V{y2 + HEIGHT / 2 + 5:g}"
        return Arrow("cycle", path, "and round again: a cycle", (x1 + x2) / 2, low + 14)
    alone = sum(other[0] == start for other in placed.via) == 1
    path, at = f"M{x1:g} {y1:g}", y1
    for step, row in enumerate((*placed.via[edge], placed.row[end])):
        target = _y(row) + HEIGHT / 2
        turn = x1 + step * (WIDTH + GAP) + (GAP - 16 if alone else 16)
        path += f"H{turn:g}V{target:g}" if target != at else ""
        at = target
    kind = "culprit" if nodes[end].kind == "culprit" else "plain"
    x, y = (x1 + GAP / 2 - 5, y1) if alone else (x2 - GAP / 2 + 3, y2)
    return Arrow(kind, f"{path}H{x2 - 5:g}", label, x, y - 8)
