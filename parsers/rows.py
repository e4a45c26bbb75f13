r"""Log formats as tables: a row holds what offers a line, the pattern, and the event that it gives.

A source of lines needs no code where a file ``SOURCE_rows.toml`` in the folder of a family says it all. It has one section for each
of its parsers::

    [lost-peer]  # the name of the parser; besides its rows what RowParser has: event, longest, raw, general, sampled …
    event = 'socket-error'
    rows = [
      {literal = 'peer is gone', how = 'closed', pattern = 'peer is gone', near = {below = 9, patterns = ['Peer: (?P<peer>\S{1,80})']}},
    ]

Where a row needs more than patterns, it names a function that is decorated with :func:`for_rows`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from nccldoctor.events import KINDS, Event, GroupRef, Note, ProcessExit
from nccldoctor.parsers.base import LINE_PARSERS, Line, LineParser, Need, common, ranks_in
from nccldoctor.parsers.exit_codes import exit_and_signal, signal_named
from nccldoctor.patterns import lazy

_TYPES: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "Ranks": ranks_in}
_LONGEST = 300
_PLACEHOLDER = lazy(r"\{(?P<group>\w+)(?::(?P<reader>\w+))?(?:\|(?P<other>[^{}]*))?\}")

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions that rows name."""

_F = TypeVar("_F", bound=Callable[..., Any])


def for_rows(function: _F) -> _F:
    """Register a function under its name, which tables write: ``make = 'xid'``, ``fields = 'kernel_line'``, ``'{device:board}'``."""
    if FUNCTIONS.setdefault(function.__name__, function) is not function:
        raise ValueError(f"two functions for rows are named {function.__name__}")
    return function


class Near:
    """Lines around a hit that belong to it: their groups join those of the row's pattern, the nearest line first.

    ``above`` or ``below`` is how many lines of the same writer are looked at, up to one that has a group of ``until``. Where
    ``beside`` is set, only lines that hold the text of that group count. ``raw`` lines are looked at with their prefixes. With
    ``join`` the texts of several lines are put together. A row with ``must`` fits only where one of the lines matches. Before
    a row that fits where none does stands one with ``must`` and ``make = 'nothing'``.
    """

    def __init__(
        self,
        patterns: Iterable[str],
        above: int = 0,
        below: int = 0,
        until: Iterable[str] = (),
        beside: str = "",
        raw: bool = False,
        join: bool = False,
        must: bool = False,
    ) -> None:
        self.patterns = tuple(map(lazy, patterns))
        self.above, self.below, self.until, self.beside = above, below, frozenset(until), beside
        self.raw, self.join, self.must = raw, join, must

    def groups(self, line: Line, own: Mapping[str, str]) -> dict[str, str] | None:
        """What these lines say; None where the row does not fit."""
        found: dict[str, str] = {}
        hits = 0
        for other in line.preceding(self.above) if self.above else line.following(self.below):
            if not self.until.isdisjoint(own.keys() | found.keys()):
                break
            text = other.raw if self.raw else other.body
            for pattern in self.patterns if own.get(self.beside, "") in text else ():
                if hit := pattern.search(text):
                    hits += 1
                    for name, said in _groups(hit).items():
                        found[name] = f"{found[name]} {said}" if self.join and name in found else found.get(name, said)
        return None if self.must and not hits else found


class Row:
    r"""One wording: ``Row("Killed process ", r"Killed process (?P<pid>\d{1,10})", OutOfMemory, scope="host")``.

    The pattern is tried on lines that hold ``literal`` (or one of several), or on every line of the parser where there is none. A
    group of the pattern that is named like a field of the event fills it, as a number where the field is one. ``event`` is a kind
    or its name; without it the row gives the kind of its section.

    ``values`` are further fields. In a text, ``{a}`` stands for a group, ``{match}`` for all that matched, ``{rest}`` for the line
    from there on, ``{line}`` for the whole line; ``{device:board}`` passes the group through a function, ``{test|a test}`` has a
    default. A field whose text names a missing group is left out.

    ``also`` are further patterns for the same line; their groups are added, and so are those of lines :class:`Near` it. ``choose``
    sets a field by the value of a group: ``{origin = {by = 'type', MPI_ERR_REVOKED = 'echo', else = 'own'}}``. ``make`` names a
    function that gets the line and the match and returns the events; the row's other fields are then ignored. ``without`` lists
    fields to leave empty that :func:`common` would fill.
    """

    def __init__(
        self,
        literal: str | Iterable[str],
        pattern: str,
        event: type[Event] | str | None = None,
        *,
        also: Iterable[str] = (),
        near: Mapping[str, Any] | Iterable[Mapping[str, Any]] = (),
        choose: Mapping[str, Mapping[str, Any]] | None = None,
        make: str = "",
        without: Iterable[str] = (),
        **values: Any,
    ) -> None:
        self.literals = ((literal,) if literal else ()) if isinstance(literal, str) else tuple(literal)
        self.pattern = lazy(pattern)
        self.event = KINDS[event] if isinstance(event, str) else event
        self.also = tuple(map(lazy, also))
        self.near = tuple(Near(**one) for one in ([near] if isinstance(near, Mapping) else near))
        self.choose = choose or {}
        self.make = make
        self.without = tuple(without)
        self.values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }

    def first_match(self, text: str, longest: int | None = None) -> re.Match[str] | None:
        """The first place where the text, as far as its first ``longest`` characters, has this wording."""
        end = len(text) if longest is None else longest
        if self.literals and not any(text.find(literal, 0, end) >= 0 for literal in self.literals):
            return None
        return self.pattern.search(text, 0, end)

    def groups(self, hit: re.Match[str], line: Line) -> dict[str, str] | None:
        """What the match, its line and the lines near it say; None where the row does not fit."""
        groups = self._groups_of_line(hit)
        for near in self.near:
            if (around := near.groups(line, groups)) is None:
                return None
            groups = around | groups
        return groups

    def _groups_of_line(self, hit: re.Match[str]) -> dict[str, str]:
        groups = _groups(hit)
        for pattern in self.also:
            groups = (_groups(more) if (more := pattern.search(hit.string)) else {}) | groups
        return groups

    def event_fields(
        self, hit: re.Match[str], event: type[Event], groups: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The fields of ``event`` that the match and this row give; groups that took no part leave theirs out."""
        groups = self._groups_of_line(hit) if groups is None else groups
        types = _field_types(event.kind)
        fields: dict[str, Any] = dict.fromkeys(self.without)
        fields |= {name: types[name](text) for name, text in groups.items() if name in types}
        whole = {"match": hit[0], "rest": hit.string[hit.start() :], "line": hit.string} | groups
        for name, value in self.values.items():
            if name in types and (filled := _filled(value, whole, types[name])) is not None:
                fields[name] = filled
        for name, cases in self.choose.items():
            if (case := cases.get(groups.get(cases["by"], ""), cases.get("else"))) is not None:
                fields[name] = case
        return fields


def _groups(hit: re.Match[str]) -> dict[str, str]:
    return {name: text for name, text in hit.groupdict().items() if text is not None}


class Table:
    """The TOML file beside a module: ``Table(__file__)`` in ``topics.py`` reads ``topics_table.toml``.

    ``literals`` are those of the file and of its ``rows``; ``data`` is all that it holds.
    """

    def __init__(self, module_file: str) -> None:
        path = Path(module_file)
        self.data: dict[str, Any] = tomllib.loads(path.with_name(f"{path.stem}_table.toml").read_text(encoding="utf-8"))
        self.rows = self.list_of("rows")
        self.literals = (*self.data.get("literals", ()), *(literal for row in self.rows for literal in row.literals))

    def list_of(self, name: str) -> tuple[Row, ...]:
        """The rows of the list with this name, in their order; none where there is no such list."""
        return tuple(Row(**({"literal": ""} | row)) for row in self.data.get(name, ()))

    def pattern(self, pieces: str | list[str]) -> lazy[str]:
        """A pattern, or its pieces, with the ``parts`` of the file that it names: ``{levels}``, which several patterns share."""
        text = "".join(pieces)
        while (whole := re.sub(r"\{([a-z_]+)\}", lambda hit: str(self.data["parts"][hit[1]]), text)) != text:
            text = whole
        return lazy(text)

    def patterns(self) -> dict[str, lazy[str]]:
        """Those of the file by their names."""
        return {name: self.pattern(text) for name, text in self.data["patterns"].items()}


def first_fit(rows: Iterable[Row], text: str) -> tuple[Row, re.Match[str]] | None:
    """The first row that fits, with its match; None where none does."""
    return next(((row, hit) for row in rows if (hit := row.first_match(text))), None)


def needs_of(rows: Iterable[Row]) -> tuple[Need, ...]:
    """The literals and patterns of some rows: what a parser that looks for nothing else ``needs``."""
    return tuple(Need(row.literals, row.pattern) for row in rows)


@cache
def _field_types(kind: str) -> dict[str, Any]:
    """For each field of a kind of event the function that makes its value of text."""
    bases = reversed(KINDS[kind].__mro__)
    declared = {name: form for base in bases for name, form in getattr(base, "__annotations__", {}).items()}
    return {name: _TYPES.get(str(declared[name]).partition(" ")[0], _short) for name in KINDS[kind].__struct_fields__}


def _filled(value: Any, groups: Mapping[str, str], read: Callable[[str], Any]) -> Any:
    """A value with its groups; None where one of them is missing and no other text stands for it."""
    if isinstance(value, dict):
        return GroupRef(**{name: _filled(part, groups, read) for name, part in value.items()})
    if not isinstance(value, str) or "{" not in value:
        return value
    held = list(_PLACEHOLDER.finditer(value))
    parts = [_read(hit, groups, read if hit[0] == value else str) for hit in held]
    if held and held[0][0] == value:
        return parts[0]
    if None in parts:
        return None
    return _PLACEHOLDER.sub(lambda _: str(parts.pop(0)), value)[:_LONGEST]


def _read(hit: re.Match[str], groups: Mapping[str, str], read: Callable[[str], Any]) -> Any:
    text = groups.get(hit["group"])
    if text is None:
        return None if hit["other"] is None else read(hit["other"])
    return FUNCTIONS[hit["reader"]](text) if hit["reader"] else read(text)


def _short(text: str) -> str:
    return text.strip()[:_LONGEST]


def _completed(event: type[Event], fields: dict[str, Any], hit: re.Match[str]) -> dict[str, Any]:
    """With a detail, and with both the code and the signal of the end of a process."""
    if "detail" in _field_types(event.kind):
        fields.setdefault("detail", _short(hit[0]))
    if event is ProcessExit:
        signal = fields.get("signal")
        fields |= exit_and_signal(fields.get("exitcode"), signal_named(signal) if signal else None)
    return fields


class RowParser(LineParser):
    """Gives one event for a line: that of the first of its ``rows`` that fits.

    ``event`` is the kind that rows give unless they name another. Its ``detail``, where it has one, is all that the
    pattern matched, unless the row or :meth:`row_fields` says otherwise. Patterns see the message of a line, or with ``raw`` its
    prefix too; where ``longest`` is set, only that many characters.

    ``fields`` names a function that gets the line and the match and returns the common fields, or None to give no event.
    ``pieces`` names a function that cuts a line into texts, each with such a function; every piece may give an event. ``anchored``
    is set where patterns look for the beginning of a piece. ``told`` names the function for :meth:`is_told_elsewhere`.
    """

    rows: ClassVar[tuple[Row, ...]]
    event: ClassVar[type[Event]] = Note
    longest: ClassVar[int | None] = None
    raw: ClassVar[bool] = False
    fields: ClassVar[str] = ""
    pieces: ClassVar[str] = ""
    anchored: ClassVar[bool] = False
    told: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """The literals are those of the rows, behind such as the class names for wordings that are no rows."""
        own = cls.__dict__.get("literals", ())
        cls.literals = tuple(dict.fromkeys((*own, *(literal for row in cls.rows for literal in row.literals))))
        if "needs" not in cls.__dict__ and not cls.anchored:
            cls.needs = needs_of(cls.rows)

    def parse(self, line: Line) -> Iterable[Event]:
        whole = line.raw if self.raw else line.body
        for text, fields in FUNCTIONS[self.pieces](line) if self.pieces else [(whole, self.row_fields)]:
            yield from self._first_event(line, text, fields)

    def _first_event(self, line: Line, text: str, fields: Callable[[Line, re.Match[str]], Any]) -> Iterable[Event]:
        for row in self.rows:
            hit = row.first_match(text, self.longest)
            if hit and (groups := row.groups(hit, line)) is not None:
                if row.make:
                    return cast(Iterable[Event], FUNCTIONS[row.make](line, hit))
                event, known = row.event or self.event, fields(line, hit)
                if known is None:
                    return ()
                of_event = {name: value for name, value in known.items() if name in _field_types(event.kind)}
                return (event(**_completed(event, of_event | row.event_fields(hit, event, groups), hit)),)
        return ()

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any] | None:
        """The fields that every row gives; those of the row override them. None where this is no event."""
        fields: dict[str, Any] | None = FUNCTIONS[self.fields](line, hit) if self.fields else common(line)
        return fields

    def is_told_elsewhere(self, line: Line) -> bool:
        return bool(self.told) and FUNCTIONS[self.told](line)


@cache
def add_rows(path: Path, module: str) -> None:
    """Register the parsers of a file of rows, one for each section, as those of ``module``. A second call does nothing.

    What a section has under ``each`` every row has that does not say otherwise. Where rows share lines :class:`Near` them, the section
    names these under ``around``, and a row has their name: ``near = 'exit-code'``. Raises ValueError with the file and the section.
    """
    name = "-"
    try:
        for name, about in tomllib.loads(path.read_text(encoding="utf-8")).items():
            each, around = {"literal": ""} | about.pop("each", {}), about.pop("around", {})
            rows = tuple(_row_of(each | row, around) for row in about.pop("rows"))
            own = {key: tuple(value) if isinstance(value, list) else value for key, value in about.items()}
            event = KINDS[about["event"]] if "event" in about else Note
            LINE_PARSERS.append(type(name, (RowParser,), own | {"event": event, "rows": rows, "__module__": module})())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path.name} [{name}]: {type(error).__name__}: {error}") from error


def _row_of(about: dict[str, Any], around: Mapping[str, Any]) -> Row:
    near = about.get("near")
    return Row(**about | ({"near": around[near]} if isinstance(near, str) else {}))


def is_read_by(name: str, text: str, event: type[Event]) -> bool:
    """True of a text that a row of the parser with this name takes for such an event. Raises KeyError as :func:`parser_of_rows`."""
    parser = parser_of_rows(name)
    fit = first_fit(parser.rows, text)
    return fit is not None and (fit[0].event or parser.event) is event


@cache
def parser_of_rows(name: str) -> RowParser:
    """The parser of the section with this name. Raises KeyError where no table has it."""
    by_name = {type(parser).__name__: parser for parser in LINE_PARSERS if isinstance(parser, RowParser)}
    return by_name[name]
