"""The output of ``inspect`` as text: files in a table that fits, events, unparsed lines, gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from nccldoctor.model import Source
from nccldoctor.reports.inspect import Inspected, read_files
from nccldoctor.reports.terminal.columns import Column, heads_without_room, table_lines
from nccldoctor.reports.terminal.layout import plain_paragraph
from nccldoctor.words import numbers
from nccldoctor.words.lists import and_list
from nccldoctor.words.sanitize import line, shortened

ROWS = 200
"""Files listed in the terminal; the JSON lists all."""

GAPS = 24

COLUMNS = (
    Column("file", least=24, yields=7, keeps_end=True),
    Column("kind"),
    Column("rank", is_number=True),
    Column("host", least=8, yields=6),
    Column("events", is_number=True),
    Column("parsed", yields=3, is_number=True),
    Column("from", yields=5),
    Column("to", yields=4),
    Column("lines", yields=2, is_number=True),
    Column("known by", least=12, yields=1),
)


def inspected_text(case: Inspected, width: int) -> str:
    """What was recognised in each file, then what was not, in lines of at most ``width`` characters."""
    files = list(read_files(case))[:ROWS]
    blocks = (_files(case, files, width), _found(case, width), _unparsed(files, width), _gaps(case, width))
    return "\n".join("".join(f"{row}\n" for row in rows) for rows in map(list, blocks) if rows)


def _files(case: Inspected, files: Sequence[tuple[Source, Any]], width: int) -> Iterator[str]:
    events = Counter([*(event.place.source for event in case.events), *(dump.source for dump in case.dumps)])
    calls = Counter({dump.source: 0 for dump in case.dumps})
    for dump in case.dumps:
        calls[dump.source] += dump.entries
    clock = _Clock()
    rows = []
    for source, reading in files:
        parsed = "" if reading is None else f"{reading.understood:,}/{reading.candidates:,}"
        lines = "" if reading is None else f"{reading.lines:,}"
        if source.id in calls:
            parsed, lines = numbers.plural(calls[source.id], "call"), ""
        first, last = (clock.shown(reading.first_time), clock.shown(reading.last_time)) if reading else ("", "")
        rank = "" if source.rank is None else str(source.rank)
        what = (line(source.path, 200), source.kind.value, rank, line(source.host or "", 60), f"{events[source.id]:,}")
        rows.append((*what, parsed, first, last, lines, line(source.why, 60)))
    yield from table_lines(COLUMNS, rows, width)
    if hidden := heads_without_room(COLUMNS, rows, width):
        told = f"Columns that did not fit: {and_list(hidden)}. Widen the terminal, or use --format json."
        yield from plain_paragraph(told, width)
    if len(case.sources) > ROWS:
        yield f"and {numbers.plural(len(case.sources) - ROWS, 'file')} more"


class _Clock:
    """Writes times with their date once, then as a clock until the date changes; ``Z`` marks UTC."""

    def __init__(self) -> None:
        self._date = ""

    def shown(self, time: str | None) -> str:
        """``2026-11-20 11:32:44Z``, then ``11:32:50Z``; a time without year as it is printed."""
        if not time:
            return ""
        date, _, clock = _in_utc(time).partition("T")
        text = clock if date == self._date else f"{date} {clock}"
        self._date = date
        return line(text, 32)


def _in_utc(time: str) -> str:
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return moment.isoformat("T", "seconds")
    return time.partition(".")[0]


def _found(case: Inspected, width: int) -> Iterator[str]:
    kinds = Counter(event.kind for event in case.events) + Counter({"recorder-dump": len(case.dumps)})
    text = ", ".join(f"{name} {kinds[name]:,}" for name in sorted(kinds)) or "none"
    yield from plain_paragraph(text, width, head="events: ", indent=8)


def _unparsed(files: Sequence[tuple[Source, Any]], width: int) -> Iterator[str]:
    unknown = [reading for _, reading in files if reading is not None and reading.first_unknown]
    if unknown:
        yield "relevant lines that were not parsed, the first of each file:"
    for reading in unknown:
        yield shortened(f"  {line(reading.first_unknown_at, 80)}: {line(reading.first_unknown, 400)}", width)


def _gaps(case: Inspected, width: int) -> Iterator[str]:
    if case.gaps:
        yield "gaps:"
    for gap in case.gaps[:GAPS]:
        yield from plain_paragraph(f"{line(gap.what, 120)}: {line(gap.why, 160)}", width, head="  ", indent=4)
    if len(case.gaps) > GAPS:
        yield f"  and {numbers.plural(len(case.gaps) - GAPS, 'gap')} more"
