"""The output of ``inspect --tracks``: what each rank did and when, and which line or entry shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import TrackRow
from nccldoctor.reports.terminal.columns import Column, table_lines
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sanitize import line

COLUMNS = (
    Column("began"),
    Column("doing"),
    Column("what", least=20, yields=6),
    Column("known by", yields=1),
    Column("where", least=12, yields=5, keeps_end=True),
)


def tracks_text(rows: Iterable[TrackRow], width: int) -> str:
    """The tracks. Ranks that did the same share one, with the first and the last time."""
    tracks: dict[tuple[object, ...], list[list[TrackRow]]] = {}
    for _, of_rank in groupby(rows, key=lambda row: row.rank):
        track = list(of_rank)
        tracks.setdefault(tuple((row.doing, row.what, row.known_by) for row in track), []).append(track)
    blocks = []
    for alike in tracks.values():
        head = ranks_phrase(Ranks(track[0].rank for track in alike))
        blocks.append("".join(f"{text}\n" for text in (head, *_track_lines(alike, width))))
    return "\n".join(blocks)


def _track_lines(alike: Sequence[Sequence[TrackRow]], width: int) -> Iterator[str]:
    cells = [
        (_began(same), row.doing, line(row.what, 120), row.known_by, line(str(row.where or ""), 120))
        for row, same in zip(alike[0], zip(*alike, strict=True), strict=True)
    ]
    yield from (f"  {text}" for text in table_lines(COLUMNS, cells, width - 2))


def _began(rows: Sequence[TrackRow]) -> str:
    """``10:00:42``, ``10:00:42 to 10:01:12``, ``not before 10:01:12``; empty where nothing bounds it."""
    earliest, latest = min(row.earliest for row in rows), max(row.latest for row in rows)
    if not math.isfinite(latest):
        return f"not before {_clock(earliest)}" if math.isfinite(earliest) else ""
    if not math.isfinite(earliest):
        return f"not after {_clock(latest)}"
    first, last = _clock(earliest), _clock(latest)
    return first if first == last else f"{first} to {last}"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"
