"""Rows of many ranks merged into few, so that the worst shows."""

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
