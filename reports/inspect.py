"""The output of ``inspect``: sources, events and gaps, before any diagnosis (``schema/inspect.json``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nccldoctor.events import Event
from nccldoctor.model import Gap, Place, Source
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import json_document, json_names
from nccldoctor.words import numbers
from nccldoctor.words.sanitize import is_secret, line

TEXT_ROWS = 200
"""Files listed in the terminal; the JSON lists all."""

TEXT_GAPS = 24


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


@dataclass(frozen=True, slots=True)
class Understood:
    """Counts of the lines of a file that parsers understood; all None where it has no lines."""

    lines: int | None
    candidates: int | None
    understood: int | None
    first_unknown: str | None
    first_unknown_at: str | None
    first_time: str | None
    last_time: str | None


@dataclass(frozen=True, slots=True)
class GapRow:
    """Something that is not known, why, of which ranks, and in which file."""

    what: str
    why: str
    ranks: Ranks
    where: str | None


_UNREAD = dict.fromkeys((name for name, *_ in json_names.fields(Understood)))


def to_json(case: Inspected) -> str:
    """The document that ``inspect --format json`` prints: sources, events in the order of the input, gaps."""
    return json_document.written(document(case))


def document(case: Inspected) -> dict[str, Any]:
    """The document as plain dictionaries and lists."""
    paths: dict[int | None, str] = {source.id: source.path for source in case.sources}
    return {
        "schema_version": json_document.SCHEMA_VERSION,
        "sources": [
            json_names.json_value(source) | (json_names.row(reading, Understood) if reading else _UNREAD)
            for source, reading in _read(case)
        ],
        "events": list(_events(case)),
        "gaps": [
            json_names.json_value(GapRow(gap.what, gap.why, gap.ranks, paths.get(gap.source))) for gap in case.gaps
        ],
    }


def to_text(case: Inspected) -> str:
    """One line for each file: kind, rank, host, how much of it was understood; then what was not."""
    files = list(_read(case))[:TEXT_ROWS]
    lines = _table(case, files)
    if len(case.sources) > TEXT_ROWS:
        lines.append(f"and {numbers.plural(len(case.sources) - TEXT_ROWS, 'file')} more")
    kinds = Counter(event.kind for event in case.events) + Counter({"recorder-dump": len(case.dumps)})
    lines += ["", *([f"{name}  {kinds[name]:,}" for name in sorted(kinds)] or ["no events"])]
    unknown = [reading for _, reading in files if reading is not None and reading.first_unknown]
    lines += [f"not understood  {line(r.first_unknown_at, 80)}  {line(r.first_unknown, 120)}" for r in unknown]
    events = _events_by_file(case)
    silent = [source for source, reading in files if reading is not None and reading.lines and not events[source.id]]
    lines += [f"nothing known in {line(source.path, 80)}" for source in silent]
    lines += [f"gap  {line(gap.what, 120)}: {line(gap.why, 160)}" for gap in case.gaps[:TEXT_GAPS]]
    if len(case.gaps) > TEXT_GAPS:
        lines.append(f"and {numbers.plural(len(case.gaps) - TEXT_GAPS, 'gap')} more")
    return "\n".join(lines).rstrip() + "\n"


def _table(case: Inspected, files: Sequence[tuple[Source, Any]]) -> list[str]:
    """The files as aligned lines; those of dumps count calls, others lines."""
    events = _events_by_file(case)
    calls = {dump.source: 0 for dump in case.dumps}
    for dump in case.dumps:
        calls[dump.source] += dump.entries
    rows = [["file", "kind", "rank", "host", "lines", "understood", "events", "from", "to", "known by"]]
    for source, reading in files:
        understood = ["", ""]
        if source.id in calls:
            understood = ["", numbers.plural(calls[source.id], "call")]
        elif reading:
            understood = [f"{reading.lines:,}", f"{reading.understood:,}/{reading.candidates:,}"]
        times = [line(reading.first_time or "", 32), line(reading.last_time or "", 32)] if reading else ["", ""]
        rank = "" if source.rank is None else str(source.rank)
        what = [line(source.path, 60), source.kind.value, rank, line(source.host or "", 30)]
        rows.append([*what, *understood, f"{events[source.id]:,}", *times, line(source.why, 60)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _read(case: Inspected) -> Iterator[tuple[Source, Any]]:
    readings = {reading.source: reading for reading in case.readings}
    for source in case.sources:
        yield source, readings.get(source.id)


def _events_by_file(case: Inspected) -> Counter[int]:
    """The number of events of each file; a dump is one."""
    return Counter([*(event.place.source for event in case.events), *(dump.source for dump in case.dumps)])


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
    row |= json_names.json_value(event.details())
    if event.kind == "setting" and is_secret(str(row["name"])):
        row["value"] = "***"
    return row


def _recorder(dump: Any, rank: int | None) -> dict[str, Any]:
    place = Place(dump.source, dump.path)
    common = {"kind": "recorder-dump", "rank": rank, "group_rank": None, "group": None, "time": None}
    return {**common, "where": json_names.json_value(place), **json_names.json_value(dump)}
