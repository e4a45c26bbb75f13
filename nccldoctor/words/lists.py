"""Lists in words: ``a, b and c``, ``a, b or c``, ``a and 3 more``."""

from __future__ import annotations

from collections.abc import Sequence


def and_list(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; "" for none."""
    return _with_last(items, "and")


def or_list(items: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``; "" for none."""
    return _with_last(items, "or")


def first_of(items: Sequence[str]) -> str:
    """``a``, or ``a and 3 more``: the first of some stands for all."""
    return f"{items[0]} and {len(items) - 1} more" if len(items) > 1 else items[0]


def _with_last(items: Sequence[str], word: str) -> str:
    return " ".join(part for part in (", ".join(items[:-1]), word if len(items) > 1 else "", *items[-1:]) if part)
