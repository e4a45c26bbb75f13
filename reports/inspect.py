"""The output of ``inspect``: sources, events and gaps, before any diagnosis (``schema/inspect.json``)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct

from nccldoctor.events import Event
from nccldoctor.model import Gap, Place, Source
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import TrackRow
from nccldoctor.reports import json_document, json_names
from nccldoctor.words.secrets import MASK, is_secret, masked_fields


class Inspected(Protocol):
    """The part of a Case that is shown. ``readings`` are its Reading objects, ``dumps`` the heads of its recorder dumps."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files, in the order of the input."""

    @property
    def readings(self) -> Sequence[Any]:
        """A Reading of each file."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the lines."""

    @property
    def dumps(self) -> Sequence[Any]:
        """The recorder dumps."""

    @property
    def dump_rank(self) -> tuple[int | None, ...]:
        """The rank of each dump."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Input that is missing or damaged."""


class Understood(Struct, frozen=True):
    """Counts of the lines of a file that parsers understood; all None where it has no lines."""

    lines: int | None
    candidates: int | None
    understood: int | None
    first_unknown: str | None
    first_unknown_at: str | None
    first_time: str | None
    last_time: str | None


class GapRow(Struct, frozen=True):
    """Something that is not known, why, of which ranks, and in which file."""

    what: str
    why: str
    ranks: Ranks
    where: str | None


_UNREAD = dict.fromkeys((name for name, *_ in json_names.fields(Understood)))


def to_json(case: Inspected) -> str:
    """The document that ``inspect --format json`` prints: sources, events in the order of the input, gaps."""
    return json_document.written(document(case))


def tracks_document(rows: Sequence[TrackRow]) -> dict[str, Any]:
    """What each rank did, oldest first: the document that ``inspect --tracks --format json`` prints."""
    return {
        "schema_version": json_document.SCHEMA_VERSION,
        "tracks": [
            json_names.json_value(row) | {"earliest": _in_utc(row.earliest), "latest": _in_utc(row.latest)}
            for row in rows
        ],
    }


def _in_utc(seconds: float) -> str | None:
    """A time in UTC with milliseconds; None where it is not known."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds") if math.isfinite(seconds) else None


def document(case: Inspected) -> dict[str, Any]:
    """The document as plain dictionaries and lists."""
    paths: dict[int | None, str] = {source.id: source.path for source in case.sources}
    return {
        "schema_version": json_document.SCHEMA_VERSION,
        "sources": [
            json_names.json_value(source) | (json_names.row(reading, Understood) if reading else _UNREAD)
            for source, reading in read_files(case)
        ],
        "events": list(_events(case)),
        "gaps": [
            json_names.json_value(GapRow(gap.what, gap.why, gap.ranks, paths.get(gap.source))) for gap in case.gaps
        ],
    }


def read_files(case: Inspected) -> Iterator[tuple[Source, Any]]:
    """Each file with its Reading, None where it has none."""
    readings = {reading.source: reading for reading in case.readings}
    for source in case.sources:
        yield source, readings.get(source.id)


def _events(case: Inspected) -> Iterator[dict[str, Any]]:
    """Events and dumps, file by file in the order of the input."""
    items: list[tuple[int, dict[str, Any]]] = [(event.place.source, _event(event)) for event in case.events]
    items += [(d.source, _recorder(d, rank)) for d, rank in zip(case.dumps, case.dump_rank, strict=True)]
    order = {source.id: number for number, source in enumerate(case.sources)}
    for _, item in sorted(items, key=lambda pair: order.get(pair[0], len(order))):
        yield item


def _event(event: Event) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in json_names.row(event, Event).items():
        row[name] = value
        if name == "time" and event.time is not None and value is None:
            row["clock"] = event.time.isoformat()[5:]
    row |= json_names.json_value(masked_fields(event.details(), event.text))
    if event.kind == "setting" and is_secret(str(row["name"])):
        row["value"] = MASK
    return row


def _recorder(dump: Any, rank: int | None) -> dict[str, Any]:
    place = Place(dump.source, dump.path)
    common = {"kind": "recorder-dump", "rank": rank, "group_rank": None, "group": None, "time": None}
    return {**common, "where": json_names.json_value(place), **json_names.json_value(dump)}
