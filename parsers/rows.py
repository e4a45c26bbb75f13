"""Log formats as tables: a row holds what offers a line, the pattern, and the event that it gives."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar

from nccldoctor.events import KINDS, Event, Note
from nccldoctor.parsers.base import Line, LineParser, common
from nccldoctor.patterns import lazy

_TYPES = {"int": int, "float": float}
_LONGEST = 300


class Row:
    r"""One wording: ``Row("Killed process ", r"Killed process (?P<pid>\d{1,10})", OutOfMemory, scope="host")``.

    The line is looked at where it holds ``literal`` (or one of several). A group of the pattern that is named like a
    field of the event fills it, as a number where the field is one. ``values`` are further fields: a value, or a
    function of the match. Without ``event`` the row gives what most rows of its table give.
    """

    def __init__(
        self, literal: str | tuple[str, ...], pattern: str, event: type[Event] | None = None, **values: Any
    ) -> None:
        self.literals = (literal,) if isinstance(literal, str) else literal
        self.pattern = lazy(pattern)
        self.event = event
        self.values = values

    def find(self, text: str) -> re.Match[str] | None:
        """The first place where the text has this wording."""
        return self.pattern.search(text) if any(literal in text for literal in self.literals) else None

    def read(self, hit: re.Match[str], event: type[Event]) -> dict[str, Any]:
        """The fields of ``event`` that the match and this row give; groups that took no part leave theirs out."""
        types = _field_types(event.kind)
        told = {name: types[name](text) for name, text in hit.groupdict().items() if text is not None and name in types}
        return told | {name: value(hit) if callable(value) else value for name, value in self.values.items()}


@cache
def _field_types(kind: str) -> dict[str, Any]:
    """For each field of a kind of event the function that makes its value of text."""
    return {
        field.name: _TYPES.get(str(field.type).partition(" ")[0], _short) for field in dataclasses.fields(KINDS[kind])
    }


def _short(text: str) -> str:
    return text.strip()[:_LONGEST]


class RowParser(LineParser):
    """Gives one event for a line: that of the first of its ``rows`` that fits.

    ``event`` is the kind that rows give unless they name another. Its ``detail``, where it has one, is all that the
    pattern matched, unless the row or :meth:`fields` says otherwise.
    """

    rows: ClassVar[tuple[Row, ...]]
    event: ClassVar[type[Event]] = Note

    def __init_subclass__(cls) -> None:
        """The literals are those of the rows, behind such as the class names for wordings that are no rows."""
        own = cls.__dict__.get("literals", ())
        cls.literals = tuple(dict.fromkeys((*own, *(literal for row in cls.rows for literal in row.literals))))

    def parse(self, line: Line) -> Iterable[Event]:
        """See :class:`LineParser`."""
        text = self.text(line)
        for row in self.rows:
            if hit := row.find(text):
                event = row.event or self.event
                fields = self.fields(line, hit) | row.read(hit, event)
                if "detail" in _field_types(event.kind):
                    fields.setdefault("detail", _short(hit[0]))
                yield event(**fields)
                return

    def text(self, line: Line) -> str:
        """The part of a line that the patterns are looked for in."""
        return line.body

    def fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """The fields that every row gives; those of the row override them."""
        return common(line)
