r"""Patterns that hold for a whole family of lines: those that differ in their digits alone.

``generalised(r"Xid \\(.{1,40}\\): 79\\b")`` matches wherever the pattern matches, once every digit of the line became a 0: it finds the
lines *of which one could match*. A line whose form it does not find is no line of that pattern, whatever numbers stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

DIGITS = bytes.maketrans(b"123456789", b"000000000")
"""Makes the form of a line: ``line.translate(DIGITS)``."""

MESSAGE_START = "|".join(
    (
        r"^\s*|[\]:|>)}\d`│┃║-]\s{0,8}|[A-Z]\s{0,4}",
        r"\d\d:\d\d:\d\d\S{0,16}(?: [A-Z+\-\d]{1,6})? [\w.-]{1,63} ",
        r"^[a-z0-9.-]+ (?:[\u203a>] ?)?[a-z0-9-]+ ",
    )
)
"""What stands before the message of a line: nothing, a bracket or a sign of a prefix, a level; a host behind a time; a pod with its
container."""

_ANY = r"[\s\S]"
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_PLACES = {
    op.AT_BOUNDARY: r"\b",
    op.AT_BEGINNING_STRING: r"\A",
    **dict.fromkeys((op.AT_BEGINNING, op.AT_BEGINNING_LINE), f"(?:{MESSAGE_START})"),
    **dict.fromkeys((op.AT_END, op.AT_END_LINE, op.AT_END_STRING), r"(?=\s*(?:$|\[))"),
}
_ACCEPTS_DIGITS = {op.CATEGORY_DIGIT, op.CATEGORY_NOT_SPACE, op.CATEGORY_WORD}


@cache
def generalised(pattern: str, flags: int = 0) -> re.Pattern[str]:
    r"""The pattern for forms of lines. It matches at least where ``pattern`` matches a part of a line.

    Looks around are left out. ``^`` stands for the beginning of a message, which may be behind a prefix, ``\A`` for that of the whole line;
    behind the end there may be a note of Ray.
    """
    tree = parser.parse(pattern, flags)
    return re.compile(_sequence(tree), tree.state.flags & re.IGNORECASE)


def _sequence(items: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_item(code, value) for code, value in items)


def _item(code: Any, value: Any) -> str:
    if code is op.LITERAL:
        return _char(value)
    if code is op.IN:
        return _set(value)
    if code is op.BRANCH:
        return f"(?:{'|'.join(map(_sequence, value[1]))})"
    if code is op.SUBPATTERN:
        _, added, removed, inner = value
        turned = ("i" if added & re.IGNORECASE else "") + ("-i" if removed & re.IGNORECASE else "")
        return f"(?{turned}:{_sequence(inner)})"
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, inner = value
        return f"(?:{_sequence(inner)}){{{least},{'' if most is op.MAXREPEAT else most}}}"
    if code is op.ATOMIC_GROUP:
        return f"(?:{_sequence(value)})"
    if code is op.AT:
        return _PLACES.get(value, "")
    if code in (op.ASSERT, op.ASSERT_NOT):
        return ""
    if code is op.NOT_LITERAL and not chr(value).isdigit():
        return f"[^{_char(value)}]"
    # all others: a reference to a group, or what a later Python adds
    return _ANY if code in (op.ANY, op.NOT_LITERAL) else f"{_ANY}*"


def _char(code: int) -> str:
    return "0" if chr(code).isdigit() else re.escape(chr(code))


def _set(items: list[tuple[Any, Any]]) -> str:
    """A set of characters, with 0 in it where it holds any digit."""
    is_negated = items[0][0] is op.NEGATE
    accepted = {d for d in "0123456789" if any(_has_member(code, value, d) for code, value in items)}
    has_digit = len(accepted) < 10 if is_negated else bool(accepted)
    inside = "".join(_member(code, value) for code, value in items if code is not op.NEGATE)
    if is_negated:
        return f"(?:[^{inside}]|0)" if has_digit else f"[^{inside}]"
    return f"[{inside}0]" if has_digit else f"[{inside}]"


def _has_member(code: Any, value: Any, digit: str) -> bool:
    if code is op.LITERAL:
        return bool(value == ord(digit))
    if code is op.RANGE:
        return bool(value[0] <= ord(digit) <= value[1])
    return code is op.CATEGORY and value in _ACCEPTS_DIGITS


def _member(code: Any, value: Any) -> str:
    if code is op.LITERAL:
        return re.escape(chr(value))
    if code is op.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return _CATEGORIES[value]
