"""Circles in the graph of waits: calls that wait for each other, which nothing outside explains."""

from __future__ import annotations

from collections.abc import Mapping

from nccldoctor.first_waits import Key


def sink_cycles(edges: Mapping[Key, set[Key]], rooted: set[Key]) -> tuple[tuple[Key, ...], ...]:
    """Strongly connected calls that nothing else explains: circles from which no edge leads out and no root is reached."""
    out = []
    for part in components(edges):
        if len(part) < 2 and not any(k in edges[k] for k in part):
            continue
        leaves = any(target not in part for key in part for target in edges[key])
        if not leaves and not part & rooted:
            out.append(tuple(sorted(part)))
    return tuple(sorted(out))


def components(edges: Mapping[Key, set[Key]]) -> list[set[Key]]:
    """Strongly connected components (Tarjan's algorithm, without recursion)."""
    index: dict[Key, int] = {}
    low: dict[Key, int] = {}
    stack: list[Key] = []
    on: set[Key] = set()
    out: list[set[Key]] = []
    for start in sorted(edges):
        if start in index:
            continue
        work: list[tuple[Key, list[Key]]] = [(start, sorted(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            if rest:
                target = rest.pop()
                if target not in edges:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on.add(target)
                    work.append((target, sorted(edges[target])))
                elif target in on:
                    low[node] = min(low[node], index[target])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                part: set[Key] = set()
                while True:
                    top = stack.pop()
                    on.discard(top)
                    part.add(top)
                    if top == node:
                        break
                out.append(part)
    return out
