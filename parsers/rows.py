"""Log formats as tables: a row holds what offers a line, the pattern, and the event that it gives."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from nccldoctor.events import KINDS, Event, Note
from nccldoctor.parsers.base import Line, LineParser, Need, common
from nccldoctor.patterns import lazy

_TYPES = {"int": int, "float": float}
_LONGEST = 300


class Row:
    r"""One wording: ``Row("Killed process ", r"Killed process (?P<pid>\d{1,10})", OutOfMemory, scope="host")``.

    The line is looked at where it holds ``literal`` (or one of several). A group of the pattern that is named like a
    field of the event fills it, as a number where the field is one. ``values`` are further fields: a value, a text
    with groups in braces (``"{a} ranks"``), or a function of the match. Without ``event`` (a kind, or its name) the
    row gives what most rows of its table give. A row without a literal is looked for wherever its parser is offered a
    line.
    """

    def __init__(
        self, literal: str | Iterable[str], pattern: str, event: type[Event] | str | None = None, **values: Any
    ) -> None:
        self.literals = ((literal,) if literal else ()) if isinstance(literal, str) else tuple(literal)
        self.pattern = lazy(pattern)
        self.event = KINDS[event] if isinstance(event, str) else event
        self.values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }

    def first_match(self, text: str) -> re.Match[str] | None:
        """The first place where the text has this wording."""
        if self.literals and not any(literal in text for literal in self.literals):
            return None
        return self.pattern.search(text)

    def event_fields(self, hit: re.Match[str], event: type[Event]) -> dict[str, Any]:
        """The fields of ``event`` that the match and this row give; groups that took no part leave theirs out."""
        types = _field_types(event.kind)
        groups = hit.groupdict()
        of_groups = {name: types[name](text) for name, text in groups.items() if text is not None and name in types}
        return of_groups | {name: _filled(value, hit) for name, value in self.values.items()}


class Table:
    """The TOML file beside a module: ``Table(__file__)`` in ``memory.py`` reads ``memory_table.toml``.

    ``literals`` are those of the file and of its ``rows``; ``data`` is all that it holds.
    """

    def __init__(self, module_file: str) -> None:
        self.data: dict[str, Any] = tomllib.loads(_beside(module_file).read_text(encoding="utf-8"))
        self.rows = self.list_of("rows")
        self.literals = (*self.data.get("literals", ()), *(literal for row in self.rows for literal in row.literals))

    def list_of(self, name: str) -> tuple[Row, ...]:
        """The rows of the list with this name, in their order; none where there is no such list."""
        return tuple(Row(**({"literal": ""} | row)) for row in self.data.get(name, ()))

    def first(self, text: str) -> str | None:
        """The ``what`` of the first row that fits, None where none does."""
        fit = first_fit(self.rows, text)
        return str(fit[0].values["what"]) if fit else None


def first_fit(rows: Iterable[Row], text: str) -> tuple[Row, re.Match[str]] | None:
    """The first row that fits, with its match; None where none does."""
    return next(((row, hit) for row in rows if (hit := row.first_match(text))), None)


def needs_of(rows: Iterable[Row]) -> tuple[Need, ...]:
    """The literals and patterns of some rows: what a parser that looks for nothing else ``needs``."""
    return tuple(Need(row.literals, row.pattern) for row in rows)


def _beside(module_file: str) -> Path:
    path = Path(module_file)
    return path.with_name(f"{path.stem}_table.toml")


@cache
def _field_types(kind: str) -> dict[str, Any]:
    """For each field of a kind of event the function that makes its value of text."""
    return {
        field.name: _TYPES.get(str(field.type).partition(" ")[0], _short) for field in dataclasses.fields(KINDS[kind])
    }


def _filled(value: Any, hit: re.Match[str]) -> Any:
    if callable(value):
        return value(hit)
    return value.format_map(hit.groupdict()) if isinstance(value, str) and "{" in value else value


def _short(text: str) -> str:
    return text.strip()[:_LONGEST]


class RowParser(LineParser):
    """Gives one event for a line: that of the first of its ``rows`` that fits.

    A subclass with a ``parse`` of its own says itself what it ``needs``.
    ``event`` is the kind that rows give unless they name another. Its ``detail``, where it has one, is all that the
    pattern matched, unless the row or :meth:`row_fields` says otherwise. Only the first ``longest`` characters of a
    line are looked at, where that is set.
    """

    rows: ClassVar[tuple[Row, ...]]
    event: ClassVar[type[Event]] = Note
    longest: ClassVar[int | None] = None

    def __init_subclass__(cls) -> None:
        """The literals are those of the rows, behind such as the class names for wordings that are no rows."""
        own = cls.__dict__.get("literals", ())
        cls.literals = tuple(dict.fromkeys((*own, *(literal for row in cls.rows for literal in row.literals))))
        if "parse" not in cls.__dict__ and "needs" not in cls.__dict__:
            cls.needs = needs_of(cls.rows)

    def parse(self, line: Line) -> Iterable[Event]:
        text = self.searched_text(line)
        if fit := first_fit(self.rows, text):
            row, hit = fit
            event = row.event or self.event
            fields = self.row_fields(line, hit) | row.event_fields(hit, event)
            if "detail" in _field_types(event.kind):
                fields.setdefault("detail", _short(hit[0]))
            yield event(**fields)

    def searched_text(self, line: Line) -> str:
        """The part of a line that the patterns are looked for in."""
        return line.body[: self.longest]

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """The fields that every row gives; those of the row override them."""
        return common(line)
