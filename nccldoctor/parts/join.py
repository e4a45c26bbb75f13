"""Puts parts together, with other inputs where there are some: the sources of all, and what was read of them.

The order in which parts are given does not matter, and a part that is given twice counts once. A part that is damaged costs itself
alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import count

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.discover.discover import Discovered, Input, NamedFile, sources_of
from nccldoctor.discover.filename_hints import is_host, rank_pattern
from nccldoctor.ingest.excerpts import LineReader, read_excerpts
from nccldoctor.ingest.ingest import Ingested, put_together, read_inputs
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.model.excerpts import Excerpts
from nccldoctor.model.recorded_calls import Batch, Calls
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import Parsed
from nccldoctor.parts import thinning
from nccldoctor.parts.columns import Ints
from nccldoctor.parts.container import Member, PartError, StoredPart
from nccldoctor.parts.dump_slices import Columns, StoredDump
from nccldoctor.parts.opened import DamagedPart, OpenedPart, open_parts, unread
from nccldoctor.parts.thinning import GroupFronts, rows_to_load

Progress = Callable[[int, int], None]


class _Owned(Struct, frozen=True):
    """One input of all: of a part, with its number there, or to be read from its file."""

    named: NamedFile
    part: OpenedPart | None = None
    number: int = 0
    file: Input | None = None


class _Sorted(Struct, frozen=True):
    """All inputs in the order of their sources."""

    owned: tuple[_Owned, ...]
    sources: tuple[Source, ...]

    def files(self) -> list[Input]:
        """The inputs that are no part's."""
        pairs = zip(self.owned, self.sources, strict=True)
        return [replace(one.file, source=source) for one, source in pairs if one.file is not None]

    def of_part(self, part: OpenedPart) -> list[Source]:
        """The sources of a part's inputs, in the order of the part."""
        pairs = zip(self.owned, self.sources, strict=True)
        own = {one.number: source for one, source in pairs if one.part is part}
        return [own[number] for number in range(len(own))]


def join(
    given: Discovered,
    *,
    rank_from: str | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
    order: Sequence[Input] = (),
) -> tuple[Ingested, LineReader]:
    """Put the parts among the inputs together, and read the other inputs.

    The reader gives the lines of each source, as far as a part keeps them or their file is there. Of very many recorded calls the
    newest are loaded, see :mod:`nccldoctor.parts.thinning`. The arguments are those of :func:`~nccldoctor.ingest.ingest.ingest`; a part
    that is damaged becomes a gap. Sources stand in the order of their paths, or in that of ``order`` where it names them.
    """
    parts, gaps = open_parts(given.parts)
    while True:
        try:
            placed = _in_folders(parts)
            every = _sorted_inputs(placed, given.inputs, rank_from, order)
            keep = calls_to_keep(placed, thinning.MOST_CALLS)
            read = {source: one for part in placed for source, one in _read_part(part, every.of_part(part), keep)}
            break
        except DamagedPart as damage:
            parts = [part for part in parts if part.digest != damage.part.digest]
            gaps.append(unread(damage.part.found, str(damage)))
    files = every.files()
    read |= {one.source.id: one for one in read_inputs(files, workers, on_progress)}
    told = (*given.gaps, *gaps, *_gaps_of_no_input(placed, files), *thinned(placed, keep))
    ingested = put_together([read[source.id] for source in every.sources], told)
    return ingested, partial(_lines, every)


def _in_folders(parts: Sequence[OpenedPart]) -> list[OpenedPart]:
    """The parts, each in a folder of its name where paths would meet, or where all are named like hosts.

    Parts ``node0.nd`` and ``node1.nd`` are read like folders ``node0/`` and ``node1/``.
    """
    paths = Counter(record.named.path for part in parts for record in part.records)
    if len(parts) < 2 or (max(paths.values(), default=0) < 2 and not all(is_host(part.name) for part in parts)):
        return list(parts)
    out: dict[str, OpenedPart] = {}
    for part in parts:
        names = (part.name if again == 1 else f"{part.name}~{again}" for again in count(1))
        folder = next(name for name in names if name not in out)
        out[folder] = replace(part, folder=folder)
    return list(out.values())


def _sorted_inputs(
    parts: Sequence[OpenedPart], files: Sequence[Input], rank_from: str | None, order: Sequence[Input]
) -> _Sorted:
    """All inputs with their sources: those of one part in its order, those of several by path or in ``order``."""
    owned = [_Owned(part.file_named(number), part, number) for part in parts for number in range(len(part.records))]
    owned += [_Owned(one.named, file=one) for one in files]
    if len(parts) + bool(files) > 1:
        numbers = {one.source.path: number for number, one in enumerate(order)}
        owned.sort(key=lambda one: (numbers.get(one.named.path, len(numbers)), one.named.path))
    rule = rank_pattern(rank_from) if rank_from else None
    return _Sorted(tuple(owned), tuple(sources_of([one.named for one in owned], rule)))


def _read_part(part: OpenedPart, sources: Sequence[Source], keep: Keep | None) -> Iterator[tuple[int, Parsed]]:
    """What a part holds of its inputs, by source id."""
    with part.stored() as stored:
        events = part.events_by_input(stored, sources)
        batches = batches_of(part, stored, sources, keep)
        for number, (record, source) in enumerate(zip(part.records, sources, strict=True)):
            parsed = record.parsed(source, events.get(number, ()))
            yield source.id, replace(parsed, batch=batches[number]) if number in batches else parsed


def _gaps_of_no_input(parts: Sequence[OpenedPart], files: Sequence[Input]) -> list[Gap]:
    """The gaps of no input, each once: packages of parsers that fail to load do so on every node."""
    has_texts = any(one.source.kind is not SourceKind.RECORDER for one in files)
    here = registry.load_parsers() if has_texts else ()
    return list(dict.fromkeys((*here, *(gap for part in parts for gap in part.gaps_of_no_input()))))


def _lines(order: _Sorted, wanted: Mapping[int, Collection[int]]) -> Excerpts:
    """The wanted lines of each source, from its part or from its file."""
    found = dict(read_excerpts(order.files(), wanted).lines)
    by_part: dict[str, list[tuple[OpenedPart, int, int]]] = defaultdict(list)
    for one, source in zip(order.owned, order.sources, strict=True):
        if one.part is not None and wanted.get(source.id):
            by_part[one.part.digest].append((one.part, one.number, source.id))
    for group in by_part.values():
        part = group[0][0]
        try:
            with part.stored() as stored:
                kept = part.lines_kept_of(stored, [number for _, number, _ in group])
        except DamagedPart:
            continue  # its file was there a moment ago
        for _, number, source_id in group:
            numbers = set(wanted[source_id])
            found[source_id] = {line: text for line, text in kept.get(number, ()) if line in numbers}
    return Excerpts(found)


Keep = dict[tuple[str, int], int]
"""How many of its newest calls each dump keeps, by the digest of its part and the number of its input there."""


def calls_to_keep(parts: Sequence[OpenedPart], most: int) -> Keep | None:
    """How much of each dump to load, about ``most`` calls in all; None for everything."""
    if sum(part.rows for part in parts) <= most:
        return None
    fronts = GroupFronts()
    for _, dump, created in _dumps_with_created(parts):
        fronts.note_dump(dump, created)
    rows, wanted = {}, {}
    for key, dump, created in _dumps_with_created(parts):
        rows[key], wanted[key] = dump.size, fronts.wanted_rows(dump, created)
    return rows_to_load(rows, wanted, most)


def _dumps_with_created(parts: Sequence[OpenedPart]) -> Iterator[tuple[tuple[str, int], StoredDump, Ints]]:
    """All dumps of all parts, each with the times at which its calls were made."""
    for part in parts:
        with part.stored() as stored:
            for dump, times in _with_times(part, stored):
                yield (part.digest, dump.input), dump, dump.created(times)


def _with_times(part: OpenedPart, stored: StoredPart) -> Iterator[tuple[StoredDump, bytes]]:
    """The dumps of a part, each with the member that holds its times."""
    members = stored.of_kind("times")
    times, of_slice = b"", -1
    for number, dump in part.stored_dumps(stored):
        if number != of_slice:
            times, of_slice = stored.read_member(_nth(members, number)), number
        yield dump, times


def batches_of(part: OpenedPart, stored: StoredPart, sources: Sequence[Source], keep: Keep | None) -> dict[int, Batch]:
    """One batch for each dump, by the number of its input; ``sources`` has the source of each input."""
    out: dict[int, Batch] = {}
    trimmed: dict[tuple[int, int], Columns] = {}
    for dump, times in _with_times(part, stored):
        rows = dump.size if keep is None else keep[part.digest, dump.input]
        out[dump.input] = _batch(dump, sources[dump.input], times, rows, trimmed)
    return out


def _nth(members: Sequence[Member], number: int) -> Member:
    if number >= len(members):
        raise PartError("damaged: times are missing")
    return members[number]


def _batch(dump: StoredDump, source: Source, times: bytes, rows: int, trimmed: dict[tuple[int, int], Columns]) -> Batch:
    """The newest ``rows`` calls of a dump; dumps with equal columns share them through ``trimmed``."""
    start = dump.size - rows
    key = id(dump.columns), rows
    if key not in trimmed:
        own = {name: column[start:].copy() if start else column for name, column in dump.columns.items()}
        trimmed[key] = {**own, "dump": np.zeros(rows, dtype=np.int32)}
    own_times = {name: column[start:].copy() if start else column for name, column in dump.times(times).items()}
    head = replace(dump.head, source=source.id, path=source.path, entries=rows, unread=start)
    return Batch((head,), Calls(**trimmed[key], **own_times), dump.words)


def thinned(parts: Sequence[OpenedPart], keep: Keep | None) -> list[Gap]:
    """A gap for the calls that are not loaded."""
    total = sum(part.rows for part in parts)
    left = 0 if keep is None else total - sum(keep.values())
    if not left:
        return []
    why = f"{left:,} of {total:,} recorded calls in the parts were not loaded, to save memory: the oldest of each rank"
    return [Gap("older calls", why)]
