"""Writes what was read of an input, but for its calls, as JSON, and reads it again.

An event is a list: the number of its input, its line, its entry, its kind and its fields, without those that have their default. Kinds
are looked up in the registry of events, and every field must have the type that the class of the event declares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from nccldoctor.discover.discover import NamedFile
from nccldoctor.events import KINDS, Event
from nccldoctor.model import CollectedFile, Gap, Place, Source, SourceKind, Unexplained
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Parsed
from nccldoctor.parts.container import Count, GapRecord, Int64, PartError, read_document
from nccldoctor.parts.masked_values import masked_text, masked_values
from nccldoctor.words.secrets import masked_fields

MOST_RANKS = 1_000_000
"""Ranks in one set, and the largest number of one, is ten times that."""


class _PlaceRecord(Struct, frozen=True, forbid_unknown_fields=True):
    line: Count | None = None
    entry: Count | None = None


class _UnexplainedRecord(Struct, frozen=True, forbid_unknown_fields=True):
    place: _PlaceRecord
    text: str
    rank: Int64 | None = None


class InputRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input: how it is named, and what was read of it but its events and calls. ``read_as`` is its kind by its content."""

    path: str
    hint_name: str
    kind: SourceKind
    size: Count
    told: CollectedFile | None = None
    read_as: SourceKind
    has_calls: bool = False
    lines: Count = 0
    candidates: Count = 0
    understood: Count = 0
    first_unknown: str = ""
    first_unknown_at: _PlaceRecord | None = None
    unexplained: tuple[_UnexplainedRecord, ...] = ()
    gaps: tuple[GapRecord, ...] = ()

    @property
    def named_file(self) -> NamedFile:
        """How the file is named, as its source is made from it."""
        return NamedFile(self.path, self.hint_name, self.kind, self.size, self.told)

    def parsed(self, source: Source, events: Sequence[Event]) -> Parsed:
        """What was read, under the source that the input is now."""
        return Parsed(
            source=replace(source, kind=self.read_as),
            events=tuple(events),
            gaps=tuple(gap_of(one, source.id, self.path, source.path) for one in self.gaps),
            lines=self.lines,
            candidates=self.candidates,
            understood=self.understood,
            first_unknown=self.first_unknown,
            first_unknown_at=_place_of_record(source, self.first_unknown_at)
            if self.first_unknown_at is not None
            else None,
            unexplained=tuple(
                Unexplained(_place_of_record(source, one.place), one.text, one.rank) for one in self.unexplained
            ),
        )


class _InputRecords(Struct, frozen=True, forbid_unknown_fields=True):
    inputs: tuple[InputRecord, ...]


def pack_inputs(records: Iterable[InputRecord]) -> bytes:
    """Some records as bytes."""
    return msgspec.json.encode(_InputRecords(tuple(records)))


def unpack_inputs(data: bytes) -> tuple[InputRecord, ...]:
    """The records again. Raises :class:`PartError` where they are damaged."""
    return read_document(_InputRecords, data).inputs


def input_record(named: NamedFile, parsed: Parsed, has_calls: bool) -> InputRecord:
    """The record of an input; ``has_calls``: its calls are recorded in the part."""
    at = parsed.first_unknown_at
    return InputRecord(
        path=masked_text(named.path),
        hint_name=masked_text(named.hint_name),
        kind=named.kind,
        size=named.size,
        told=named.told,
        read_as=parsed.source.kind,
        has_calls=has_calls,
        lines=parsed.lines,
        candidates=parsed.candidates,
        understood=parsed.understood,
        first_unknown=masked_text(parsed.first_unknown),
        first_unknown_at=_PlaceRecord(line=at.line, entry=at.entry) if at is not None else None,
        unexplained=tuple(
            _UnexplainedRecord(
                place=_PlaceRecord(line=one.place.line, entry=one.place.entry),
                text=masked_text(one.text),
                rank=one.rank,
            )
            for one in parsed.unexplained
        ),
        gaps=tuple(gap_record(gap) for gap in parsed.gaps),
    )


_GAP_FLAGS = ("lost", "apart", "odd", "looks_like", "holes")


def gap_record(gap: Gap) -> GapRecord:
    """A gap as a part holds it."""
    return GapRecord(
        what=masked_text(gap.what),
        why=masked_text(gap.why),
        ranks=str(gap.ranks),
        has_source=gap.source is not None,
        **{name: getattr(gap, name) for name in _GAP_FLAGS},
    )


def gap_of(record: GapRecord, source: int | None, before: str, path: str) -> Gap:
    """The gap of a source that had the path ``before`` in its part, and has ``path`` now."""
    what, why = record.what, record.why
    if before != path:
        own = re.compile(rf"(?<![\w./-]){re.escape(before)}(?![\w/-])")
        what, why = (own.sub(lambda _: path, text) for text in (what, why))
    flags = {name: getattr(record, name) for name in _GAP_FLAGS}
    return Gap(what, why, _ranks_in(record.ranks), source if record.has_source else None, **flags)


_INT64 = msgspec.json.Decoder(Int64)
"""Reads a number, and refuses one that no column could hold."""


def pack_events(events: Iterable[tuple[int, Event]]) -> bytes:
    """Some events, each with the number of its input in the part."""
    rows = (json.dumps(_event_row(number, event), default=_plain, separators=(",", ":")) for number, event in events)
    return ("[" + ",\n".join(rows) + "]").encode()


def unpack_events(data: bytes, sources: Sequence[Source]) -> Iterator[tuple[int, Event]]:
    """The events again, each with the number of its input; ``sources`` has the source of each input.

    Raises :class:`PartError` for a kind that is not known here, and for a field that does not fit.
    """
    try:
        rows = json.loads(data, parse_int=_INT64.decode)
    except (ValueError, RecursionError) as error:
        raise PartError(f"damaged: {error}"[:200]) from None
    if not isinstance(rows, list):
        raise PartError("damaged: no list of events")
    for row in rows:
        yield _event_of(row, sources)


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
        place = _place_of_record(sources[number], at)
        return number, msgspec.convert({**told, "place": place}, KINDS[kind], dec_hook=_ranks_of)
    except (TypeError, ValueError, AttributeError) as error:
        raise PartError(f"damaged: {error}"[:200]) from None


def _ranks_of(form: type, value: Any) -> Any:
    """A value of a type that JSON does not have: a set of ranks."""
    if form is not Ranks:
        raise TypeError(f"an unknown type {form.__name__}")
    return _ranks_in(value)


def _plain(value: Any) -> Any:
    """A value of an event as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Ranks):
        return str(value)
    if isinstance(value, Struct):
        return masked_values(asdict(value))
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"a part cannot hold a {type(value).__name__}")


def _ranks_in(text: Any) -> Ranks:
    """The ranks in ``0-3,7``. Raises :class:`PartError` where they are too many."""
    if type(text) is not str:
        raise PartError("damaged: no set of ranks")
    out: list[int] = []
    for part in filter(None, text.split(",")):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or len(low) > 8 or len(high) > 8:
            raise PartError("damaged: no set of ranks")
        first, last = int(low), int(high or low)
        if last >= 10 * MOST_RANKS or last - first + len(out) > MOST_RANKS:
            raise PartError("damaged: a set of too many ranks")
        out.extend(range(first, last + 1))
    return Ranks(out)


def _place_of_record(source: Source, at: _PlaceRecord) -> Place:
    return Place(source.id, source.path, at.line, at.entry)
