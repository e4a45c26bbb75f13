"""Counts and sizes in words: ``1 file``, ``1,024 files``, ``412 MB``."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """``1 file``, ``1,024 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Bytes with a decimal unit: ``412 MB``."""
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    if units[0] == "bytes":
        return f"{count} bytes"
    return f"{value:.0f} {units[0]}" if value >= 99.95 else f"{value:.3g} {units[0]}"
