"""Pictures of many cells: rows merged so that the worst shows, and one SVG path for each colour."""

from __future__ import annotations

from collections.abc import Sequence


def merged(rows: Sequence[bytes], most: int, severity: bytes) -> tuple[list[bytes], int]:
    """At most ``most`` rows, each the worst of ``step`` neighbours; returns the rows and ``step``. ``severity`` ranks the
    levels.

    A single odd cell never vanishes: what is worse than its neighbours stays.
    """
    step = max(-(-len(rows) // most), 1)
    if step == 1:
        return list(rows), 1
    rank = bytes(severity[level] if level < len(severity) else 0 for level in range(256))
    back = {severity[level]: level for level in range(len(severity))}
    out = []
    for start in range(0, len(rows), step):
        worst = [
            max(column) for column in zip(*(row.translate(rank) for row in rows[start : start + step]), strict=True)
        ]
        out.append(bytes(back[value] for value in worst))
    return out, step


def turned(rows: Sequence[bytes]) -> list[bytes]:
    """Columns as rows."""
    return [bytes(column) for column in zip(*rows, strict=True)]


def paths(rows: Sequence[bytes], x: float, y: float, width: float, height: float, gap: float = 0.0) -> dict[int, str]:
    """SVG path data by level: a rectangle for each run of equal cells, with a ``gap`` for each cell."""
    out: dict[int, list[str]] = {}
    for number, row in enumerate(rows):
        top = y + number * height
        start = 0
        for end in range(1, len(row) + 1):
            if end < len(row) and row[end] == row[start] and not gap:
                continue
            span = (end - start) * width - gap
            out.setdefault(row[start], []).append(
                f"M{x + start * width:g} {top:g}h{span:g}v{height - gap:g}h{-span:g}z"
            )
            start = end
    return {level: "".join(parts) for level, parts in sorted(out.items())}
