"""Loads the recorded calls of parts: all, or the newest of each dump where memory is short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from nccldoctor.model import Gap, Source
from nccldoctor.model.recorded_calls import Batch, Calls
from nccldoctor.parts.columns import Ints
from nccldoctor.parts.container import Member, PartError, StoredPart
from nccldoctor.parts.dump_slices import Columns, StoredDump
from nccldoctor.parts.opened import OpenedPart
from nccldoctor.parts.thinning import GroupFronts, rows_to_load

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
