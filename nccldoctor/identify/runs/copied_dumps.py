"""Leaves out copies of dumps.

A bundle beside the files it was made of holds each dump again. Example: ``logs/bundle.tar.zst`` and ``logs/capture/``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from nccldoctor.identify.runs.separate_dumps import without_dumps
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap, Source
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Calls


def without_copied_dumps(read: Ingested) -> Ingested:
    """Each dump once; the one of a bundle is kept, because its manifest names the rank."""
    sources = {one.source.id: one.source for one in read.parsed}
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for number, dump in enumerate(read.batch.dumps):
        if dump.entries:
            name = dump.path.rpartition("/")[2]
            alike[name, sources[dump.source].size, dump.entries, dump.version].append(number)
    doubtful = [numbers for numbers in alike.values() if len(numbers) > 1]
    if not doubtful:
        return read
    rows = dict(read.batch.calls.by_dump())
    originals = dict(pair for numbers in doubtful for pair in _copies(numbers, read, rows, sources))
    paths = [dump.path for dump in read.batch.dumps]
    gaps = [
        Gap(f"{paths[i]}: a copy", f"its calls are those of {paths[kept]}", Ranks()) for i, kept in originals.items()
    ]
    return Ingested(read.parsed, without_dumps(read.batch, originals), (*read.gaps, *gaps))


def _copies(
    numbers: list[int], read: Ingested, rows: Mapping[int, slice], sources: Mapping[int, Source]
) -> Iterator[tuple[int, int]]:
    """Each copy among dumps that look alike, with the dump that is kept instead."""
    dumps, calls = read.batch.dumps, read.batch.calls
    kept: list[int] = []
    for number in sorted(numbers, key=lambda i: (sources[dumps[i].source].collected is None, i)):
        same = (k for k in kept if _are_same(calls, rows[number], rows[k]))
        original = next(same, None)
        if original is None:
            kept.append(number)
        else:
            yield number, original


def _are_same(calls: Calls, one: slice, other: slice) -> bool:
    """True where two dumps hold the same calls, made at the same nanosecond and in the same state."""
    return bool(calls.created_ns[one].any()) and all(
        np.array_equal(column[one], column[other])
        for column in (calls.created_ns, calls.completed_ns, calls.state, calls.group, calls.op, calls.seq)
    )
