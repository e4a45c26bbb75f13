"""Reads a log out of the records of its collector, as if the log stood alone.

A container's log reaches people inside JSON lines (Docker, Fluent Bit, ``logcli``, ``stern``), inside one JSON document (Loki, CloudWatch,
Google) or in the text layout of Kubernetes nodes. Inside is an ordinary log, which every parser reads, records of several lines too; the
record adds its time, node, pod and process.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import FileParser, Mark, Parsed, file_parser
from nccldoctor.parsers.engine.scan import scan
from nccldoctor.parsers.line_prefix.timestamps import iso_time
from nccldoctor.parsers.wrappers.layouts import Origin, Row, row_of, rows_of
from nccldoctor.patterns import lazy

_CRI = lazy(
    r"(?P<time>\d{4}-[01]\d-[0-3]\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (?P<stream>std(?:out|err)) (?P<tag>[FP])(?: |$)"
)
_DOCUMENT = lazy(
    rb'"(?:__REALTIME_TIMESTAMP|insertId|ingestionTime|logStreamName|@message|_raw|podName)"\s{0,9}:'
    rb'|"field"\s{0,9}:\s{0,9}"@|"resultType"\s{0,9}:\s{0,9}"streams"|"streams"\s{0,9}:\s{0,9}\[|"_source"\s{0,9}:\s{0,9}\{'
)
"""Keys that only records of collectors have."""

_LOOKED_AT = 20
"""Lines in which the first record must stand: some tools print a few words of their own before."""

LONGEST_LINE = 1 << 20
"""Characters of a line that was put together from parts."""


class Unwrapped(Struct, frozen=True):
    """The lines of the log inside, and the record and the number of the line that each came from."""

    text: bytes
    rows: tuple[Row, ...]
    numbers: tuple[int, ...]


@file_parser
class CollectedLogParser(FileParser):
    """The events of the log inside, with the time and the origin of their records."""

    def claims(self, head: bytes, path: str) -> bool:
        """True where the first lines are records of a collector, or the document is one of its answers."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n\x1e")
        if start.startswith((b"{", b"[")) and _DOCUMENT.search(head):
            return True
        lines = start.decode("utf-8", "replace").split("\n", _LOOKED_AT)[:_LOOKED_AT]
        return any(_is_record(line) for line in lines if line)

    def parse(self, source: Source, content: bytes) -> Parsed:
        """The parsed log; a file without records is read as the text that it is."""
        text = content.decode("utf-8", "backslashreplace").lstrip("\ufeff")
        gaps: list[Gap] = []
        inside = _unwrapped(_in_order(list(_joined(_rows(source, text, gaps)))))
        source = replace(source, kind=SourceKind.LOG) if source.kind is SourceKind.JSON else source
        if not inside.rows:
            return scan(source, io.BytesIO(content))
        parsed = _parsed_inside(source, inside)
        return replace(
            parsed.with_lines(inside.numbers),
            lines=text.count("\n") + (not text.endswith("\n")),
            gaps=(*gaps, *parsed.gaps),
        )


def _parsed_inside(source: Source, inside: Unwrapped) -> Parsed:
    """What the log says: by the parser of a whole file where it is one, else line by line."""
    others = (p for p in registry.file_parsers() if not isinstance(p, CollectedLogParser))
    owner = next((p for p in others if p.claims(inside.text[: 64 << 10], source.path)), None)
    if owner is not None:
        return owner.parse(source, inside.text)
    several = len({row.origin for row in inside.rows}) > 1
    mark = cache(lambda origin: _mark(origin, several))

    def outer(number: int) -> Mark:
        row = inside.rows[min(number, len(inside.rows)) - 1]
        return replace(mark(row.origin), collected=row.time)

    return scan(source, io.BytesIO(inside.text), outer=outer)


def _mark(origin: Origin, several: bool) -> Mark:
    """Who wrote a line; a stream of its own only where one file holds several origins."""
    place = "/".join(filter(None, (origin.pod or origin.node, origin.box)))
    process = f"pid{origin.pid}" if origin.pid is not None else ""
    stream = " / ".join(filter(None, (place, process))) if several else ""
    return Mark(host=origin.node or origin.pod, pod=origin.pod, pid=origin.pid, stream=stream)


def _rows(source: Source, text: str, gaps: list[Gap]) -> Iterator[tuple[int, Row]]:
    """Each record with the number of its line."""
    lines = text.split("\n")
    first = next((line for line in lines[:_LOOKED_AT] if line and _is_record(line)), None)
    if first is not None:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield from ((number, row) for row in _rows_of_line(line))
        return
    decoder, at = json.JSONDecoder(), 0
    try:
        while begin := _BEGIN.search(text, at):
            item, end = decoder.raw_decode(text, begin.start())
            yield from _numbered(rows_of(item), text, begin.start())
            at = end
    except (ValueError, RecursionError) as error:
        why = f"not readable as JSON: {error}"[:200]
        gaps.append(Gap(f"records in {source.path}", why, source=source.id, lost=True))


_BEGIN = lazy(r"[^\s,\x1e\[\]]|\[(?=\s{0,99}\[)")


def _numbered(rows: Iterable[Row], text: str, at: int) -> Iterator[tuple[int, Row]]:
    """Each record of a document with the line on which its text stands."""
    number, counted = text.count("\n", 0, at) + 1, at
    for row in rows:
        found = text.find(json.dumps(row.text[:60])[1:-1], counted)
        if found >= 0:
            number, counted = number + text.count("\n", counted, found), found
        yield number, row


def _is_record(line: str) -> bool:
    """True of a line that is a record of a collector."""
    return _CRI.match(line) is not None if line[0].isdigit() else bool(_json_rows(line))


def _rows_of_line(line: str) -> list[Row]:
    cri = _CRI.match(line)
    if cri is not None:
        return [Row(line[cri.end() :], iso_time(cri["time"]), stream=cri["stream"], is_part=cri["tag"] == "P")]
    return _json_rows(line) or [Row(line)]


def _json_rows(line: str) -> list[Row]:
    """The records in one line of JSON; none where it is no record of a collector."""
    start = line.lstrip("\x1e \t")
    if not start.startswith(("{", "[")):
        return []
    text = start.rstrip().rstrip(",").rstrip()
    if not text.endswith(("}", "]")):
        return []  # most lines that begin with a bracket: to try them takes longer
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        return []
    own = row_of(item) if isinstance(item, dict) else None
    return [own] if own is not None else list(rows_of(item))


def _joined(rows: Iterable[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """The records with their parts put together: a collector cuts lines of more than 16 kB."""
    rows = list(rows)
    has_ends = any(row.keeps_ends and row.text.endswith("\n") for _, row in rows)
    begun: dict[tuple[Origin, str], tuple[int, Row]] = {}
    for number, row in rows:
        key = row.origin, row.stream
        is_part = row.is_part or (has_ends and row.keeps_ends and not row.text.endswith("\n"))
        first, whole = begun.pop(key, (number, row))
        if whole is not row:
            whole = replace(whole, text=(whole.text + row.text)[:LONGEST_LINE])
        if is_part and len(whole.text) < LONGEST_LINE:
            begun[key] = first, whole
        else:
            yield first, whole
    yield from begun.values()


def _in_order(rows: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """The records with the oldest first; interfaces of log stores answer with the newest first."""
    times = [row.time for _, row in rows if row.time is not None]
    back = sum(later < earlier for earlier, later in pairwise(times))
    on = sum(later > earlier for earlier, later in pairwise(times))
    return rows[::-1] if back > on else rows


def _unwrapped(rows: Iterable[tuple[int, Row]]) -> Unwrapped:
    """The lines of the log: a record of several lines gives several."""
    pieces = [(piece, row, number) for number, row in rows for piece in row.text.rstrip("\r\n").split("\n")]
    text = "".join(f"{piece}\n" for piece, _, _ in pieces).encode("utf-8", "backslashreplace")
    return Unwrapped(text, tuple(row for _, row, _ in pieces), tuple(number for _, _, number in pieces))
