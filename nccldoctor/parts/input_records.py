"""Writes what was read of an input, but for its calls, as JSON, and reads it again.

An event is a list: the number of its input, its line, its entry, its kind and its fields, without those that have their default. Kinds
are looked up in the registry of events, and every field must have the type that the class of the event declares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from nccldoctor.discover.discover import NamedFile
from nccldoctor.events import KINDS, Event
from nccldoctor.model import Gap, Place, Source, SourceKind, Unexplained
from nccldoctor.parsers.base import Parsed
from nccldoctor.parts.container import Count, Int64, PartError, as_json, ranks_of, written_document
from nccldoctor.parts.masked_values import masked_values
from nccldoctor.words.secrets import masked_fields


class _PlaceRecord(Struct, frozen=True, forbid_unknown_fields=True):
    line: Count | None = None
    entry: Count | None = None


class InputRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input: how it is named, and what was read of it but its events and calls. ``read_as`` is its kind by its content."""

    named: NamedFile
    read_as: SourceKind
    has_calls: bool = False
    lines: Count = 0
    candidates: Count = 0
    understood: Count = 0
    first_unknown: str = ""
    first_unknown_at: Place | None = None
    unexplained: tuple[Unexplained, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def parsed(self, source: Source, events: Sequence[Event]) -> Parsed:
        """What was read, under the source that the input is now."""

        def here(place: Place) -> Place:
            return replace(place, source=source.id, path=source.path)

        told = {name: getattr(self, name) for name in _AS_IT_IS} | {
            "first_unknown_at": here(self.first_unknown_at) if self.first_unknown_at is not None else None,
            "unexplained": tuple(replace(one, place=here(one.place)) for one in self.unexplained),
            "gaps": tuple(gap_of(one, source.id, self.named.path, source.path) for one in self.gaps),
        }
        return Parsed(source=replace(source, kind=self.read_as), events=tuple(events), **told)


_AS_IT_IS = ("lines", "candidates", "understood", "first_unknown")
_OF_PARSED = (*_AS_IT_IS, "first_unknown_at", "unexplained", "gaps")


class _InputRecords(Struct, frozen=True, forbid_unknown_fields=True):
    inputs: tuple[InputRecord, ...]


def pack_inputs(records: Iterable[InputRecord]) -> bytes:
    """Some records as bytes."""
    return written_document(_InputRecords(tuple(records)))


def unpack_inputs(data: bytes) -> tuple[InputRecord, ...]:
    """The records again. Raises :class:`PartError` where they are damaged."""
    try:
        return msgspec.convert(_loaded(data), _InputRecords, dec_hook=ranks_of).inputs
    except ValueError as error:
        raise PartError(f"damaged: {error}"[:200]) from None


def input_record(named: NamedFile, parsed: Parsed, has_calls: bool) -> InputRecord:
    """The record of an input; ``has_calls``: its calls are recorded in the part."""
    told = {name: getattr(parsed, name) for name in _OF_PARSED}
    return InputRecord(named=named, read_as=parsed.source.kind, has_calls=has_calls, **told)


def gap_of(gap: Gap, source: int | None, before: str, path: str) -> Gap:
    """The gap of a source that had the path ``before`` in its part, and has ``path`` now."""
    what, why = gap.what, gap.why
    if before != path:
        own = re.compile(rf"(?<![\w./-]){re.escape(before)}(?![\w/-])")
        what, why = (own.sub(lambda _: path, text) for text in (what, why))
    return replace(gap, what=what, why=why, source=source if gap.source is not None else None)


_INT64 = msgspec.json.Decoder(Int64)
"""Reads a number, and refuses one that no column could hold."""


def pack_events(events: Iterable[tuple[int, Event]]) -> bytes:
    """Some events, each with the number of its input in the part."""
    rows = (json.dumps(_event_row(number, event), default=as_json, separators=(",", ":")) for number, event in events)
    return ("[" + ",\n".join(rows) + "]").encode()


def unpack_events(data: bytes, sources: Sequence[Source]) -> Iterator[tuple[int, Event]]:
    """The events again, each with the number of its input; ``sources`` has the source of each input.

    Raises :class:`PartError` for a kind that is not known here, and for a field that does not fit.
    """
    rows = _loaded(data)
    if not isinstance(rows, list):
        raise PartError("damaged: no list of events")
    for row in rows:
        yield _event_of(row, sources)


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data, parse_int=_INT64.decode)
    except (ValueError, RecursionError) as error:
        raise PartError(f"damaged: {error}"[:200]) from None


def _event_row(number: int, event: Event) -> list[Any]:
    told = {}
    for name, default in _defaults(event.kind).items():
        value = getattr(event, name)
        if value != default:
            told[name] = masked_values(masked_fields(value, event.text))
    return [number, event.place.line, event.place.entry, event.kind, told]


@cache
def _defaults(kind: str) -> dict[str, Any]:
    """The fields of a kind of event but its place, each with its default."""
    return {one.name: one.default for one in fields(KINDS[kind]) if one.name != "place"}


def _event_of(row: Any, sources: Sequence[Source]) -> tuple[int, Event]:
    try:
        number, line, entry, kind, told = row
        if type(number) is not int or not 0 <= number < len(sources) or type(kind) is not str:
            raise PartError("damaged: an event of no input")
        if kind not in KINDS:
            raise PartError(f"it holds lines of the kind {kind[:40]!r}, which this version doesn't know")
        if unknown := told.keys() - _defaults(kind).keys():
            raise PartError(f"damaged: {kind} has no field {min(unknown)[:40]!r}")
        at = msgspec.convert({"line": line, "entry": entry}, _PlaceRecord)
        place = Place(sources[number].id, sources[number].path, at.line, at.entry)
        return number, msgspec.convert({**told, "place": place}, KINDS[kind], dec_hook=ranks_of)
    except (TypeError, ValueError, AttributeError) as error:
        raise PartError(f"damaged: {error}"[:200]) from None
