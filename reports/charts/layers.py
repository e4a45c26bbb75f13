"""Where the boxes of a small directed graph go: columns from left to right, arrows along free rows.

Layered drawing after Sugiyama: edges that close a loop are set aside, the longest way to an end gives the column, a
place is kept in every column that a long edge crosses, two sweeps of barycentres order the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """``column`` and ``row`` of each node; ``via`` the rows that an edge takes through the columns between its ends.

    Rows are numbers with a fraction: columns with fewer places are centred. ``closing`` edges go back to the left.
    """

    column: tuple[int, ...]
    row: tuple[float, ...]
    via: dict[Edge, tuple[float, ...]]
    closing: tuple[Edge, ...]
    columns: int
    rows: int


def layout(nodes: int, edges: tuple[Edge, ...]) -> Layout:
    """A place for ``nodes`` nodes, numbered from 0, so that edges point right wherever they can."""
    closing = _closing(nodes, edges)
    forward = tuple(edge for edge in edges if edge not in closing)
    depth = _depths(nodes, forward)
    last = max(depth, default=0)
    column = [last - d for d in depth]
    places: list[list[int | Edge]] = [[] for _ in range(last + 1)]
    for node in range(nodes):
        places[column[node]].append(node)
    for edge in forward:
        for between in range(column[edge[0]] + 1, column[edge[1]]):
            places[between].append(edge)
    for _ in range(2):
        _sweep(places, column, forward)
    rows = max((len(p) for p in places), default=0)
    at = {
        (number, what): position + (rows - len(inside)) / 2
        for number, inside in enumerate(places)
        for position, what in enumerate(inside)
    }
    return Layout(
        column=tuple(column),
        row=tuple(at[column[node], node] for node in range(nodes)),
        via={e: tuple(at[c, e] for c in range(column[e[0]] + 1, column[e[1]])) for e in forward},
        closing=tuple(edge for edge in edges if edge in closing),
        columns=last + 1,
        rows=rows,
    )


def _closing(nodes: int, edges: tuple[Edge, ...]) -> frozenset[Edge]:
    """Returns the edges that lead back to a node on the path to their start.

    Without them the graph has no loop.
    """
    after: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for start, end in edges:
        after[start].append(end)
    on_path, done = set[int](), set[int]()
    closing: set[Edge] = set()

    def visit(node: int) -> None:
        on_path.add(node)
        for following in after[node]:
            if following in on_path:
                closing.add((node, following))
            elif following not in done:
                visit(following)
        on_path.remove(node)
        done.add(node)

    for node in range(nodes):
        if node not in done:
            visit(node)
    return frozenset(closing)


def _depths(nodes: int, forward: tuple[Edge, ...]) -> list[int]:
    """The longest way from each node to an end; the graph has no loop."""
    ends: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for start, end in forward:
        ends[start].append(end)
    depth = [0] * nodes
    for node in TopologicalSorter(ends).static_order():
        depth[node] = max((depth[end] + 1 for end in ends[node]), default=0)
    return depth


def _sweep(places: list[list[int | Edge]], column: list[int], forward: tuple[Edge, ...]) -> None:
    """Order each column by the mean position of what points into it, from left to right."""
    for number in range(1, len(places)):
        position = {what: place for place, what in enumerate(places[number - 1])}
        pulls: dict[int | Edge, list[int]] = {}
        for edge in forward:
            if not column[edge[0]] < number <= column[edge[1]]:
                continue
            what: int | Edge = edge[1] if column[edge[1]] == number else edge
            source: int | Edge = edge[0] if column[edge[0]] == number - 1 else edge
            pulls.setdefault(what, []).append(position[source])
        means = {what: sum(p) / len(p) for what, p in pulls.items()}
        places[number].sort(key=lambda what: means.get(what, float(len(places[number - 1]))))
