"""A map of a large job: a cell for each rank and a column for each host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from nccldoctor.model import Diagnosis
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Standing
from nccldoctor.reports.charts.text_width import width_of
from nccldoctor.reports.parts import standing_titles
from nccldoctor.reports.parts.tones import Tone, tone_of, worst
from nccldoctor.words import numbers
from nccldoctor.words.sanitize import line

_T = TypeVar("_T")

FEWEST = 32
"""Ranks from which a map says more than a table."""

WIDTH, LEFT, TOP = 1096, 72, 24
LARGEST, SMALLEST = 20.0, 3.0
DENSE, DENSEST = 1024, 6.0
"""Cells above which cells are at most so large: the map of a large job is not to push the proof off the page."""
PER_BAND = 64
"""Hosts side by side; more go into further bands."""

MOST_CELLS = 2048
"""Ranks with a cell of their own; of a larger job a cell is a host, in the colour of its worst rank."""

LETTERS = 11.0
"""The height of a label."""

BOLD = 1.2
"""Bold letters are so much wider."""

LABELS = 8
"""Host names along a band."""


class Cell(Struct, frozen=True):
    """One rank, or one host of a very large job; ``ranks`` as text, for the search."""

    x: float
    y: float
    tone: Tone
    ranks: str


class Label(Struct, frozen=True):
    """A host above its column, or a local rank beside its row; ``is_culprit`` where a culprit stands there."""

    x: float
    y: float
    text: str
    is_culprit: bool


class RankMap(Struct, frozen=True):
    """The drawing: cells of ``size`` pixels, labels, the legend in words, and the title of the layout.

    ``has_hosts``: a column is a host. ``is_dense``: it stands below the proof.
    """

    cells: tuple[Cell, ...]
    labels: tuple[Label, ...]
    legend: tuple[tuple[Tone, str], ...]
    size: float
    height: float
    title: str
    has_hosts: bool
    is_dense: bool


class _Column(Struct, frozen=True):
    """A column of the map: its label, and the ranks of each cell from top to bottom."""

    label: str
    cells: tuple[tuple[int, ...], ...]


def rank_map(diagnosis: Diagnosis) -> RankMap | None:
    """Hosts by local rank where hosts are known, else rows of ranks; None for a small job."""
    if len(diagnosis.ranks) < FEWEST:
        return None
    by_host: dict[str, list[int]] = defaultdict(list)
    for state in diagnosis.ranks:
        by_host[state.host or ""].append(state.rank)
    hosts = sorted(by_host.items(), key=lambda item: min(item[1]))
    if len(hosts) < 2 or "" in by_host:
        ranks = sorted(state.rank for state in diagnosis.ranks)
        heads = ((min(diagnosis.verdict.blamed & run, default=run[0]), run) for run in _runs(ranks))
        columns = [_Column(f"rank {head}", tuple((n,) for n in run)) for head, run in heads]
        return _drawn(columns, diagnosis.standings, "", "")
    if len(diagnosis.ranks) > MOST_CELLS:
        columns = [_Column(run[0][0], tuple(tuple(ranks) for _, ranks in run)) for run in _runs(hosts)]
        return _drawn(columns, diagnosis.standings, "One cell a host, in the colour of its worst rank.", "")
    columns = [_Column(host, tuple((n,) for n in sorted(ranks))) for host, ranks in hosts]
    return _drawn(columns, diagnosis.standings, "One column a host, one row a local rank.", "local ")


def _runs(items: list[_T], size: int = 8) -> list[list[_T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def _drawn(columns: list[_Column], standings: tuple[Standing, ...], title: str, row_name: str) -> RankMap:
    tones = tones_of_ranks(standings)
    is_dense = sum(len(column.cells) for column in columns) > DENSE
    per_band = int((WIDTH - LEFT) / DENSEST) if is_dense else PER_BAND
    across = min(len(columns), per_band)
    size = max(min((WIDTH - LEFT) / across, DENSEST if is_dense else LARGEST), SMALLEST)
    tallest = max(len(column.cells) for column in columns)
    band_height = TOP + tallest * size + 8
    cells: list[Cell] = []
    labels: list[Label] = []
    for number, column in enumerate(columns):
        band, place = divmod(number, per_band)
        x, y = LEFT + place * size, band * band_height + TOP
        found = [worst([tones.get(rank, Tone.UNKNOWN) for rank in ranks]) for ranks in column.cells]
        blamed = any(tone.is_blamed for tone in found)
        if place % max(across // LABELS, 1) == 0 or blamed:
            text = line(column.label, 24)
            labels.append(Label(min(x, WIDTH - BOLD * width_of(text, LETTERS)), y - 7, text, blamed))
        shown = zip(column.cells, found, strict=True)
        cells += [Cell(x, y + row * size, tone, str(Ranks(ranks))) for row, (ranks, tone) in enumerate(shown)]
    if row_name:
        rows = range(0, tallest, max(tallest // 8, 1))
        labels += [Label(0, TOP + row * size + size * 0.8, f"{row_name}{row}", False) for row in rows]
    of_tone: dict[Tone, list[Standing]] = defaultdict(list)
    for standing in standings:
        of_tone[tone_of(standing)].append(standing)
    legend = tuple(
        (tone, _legend_text(members))
        for tone, members in sorted(of_tone.items(), key=lambda item: list(Tone).index(item[0]))
    )
    bands = (len(columns) + per_band - 1) // per_band
    height = bands * band_height
    return RankMap(tuple(cells), _without_overlaps(labels), legend, size, height, title, bool(title), is_dense)


def _legend_text(members: Sequence[Standing]) -> str:
    ranks = Ranks(r for s in members for r in s.ranks)
    counts: dict[str, int] = defaultdict(int)
    for standing in members:
        counts[standing_titles.place_title(standing)] += len(standing.ranks)
    most = max(counts, key=lambda place: counts[place])
    more = f" and {numbers.plural(len(counts) - 1, 'other place')}" if len(counts) > 1 else ""
    return f"{standing_titles.ranks_title(ranks)}: {most}{more}"


def tones_of_ranks(standings: Sequence[Standing]) -> dict[int, Tone]:
    """The tone of each rank that stands in a row."""
    return {rank: tone for s in standings for tone in (tone_of(s),) for rank in s.ranks}


def _without_overlaps(labels: list[Label]) -> tuple[Label, ...]:
    """The labels that stand clear of each other; where two meet, that of a culprit stays, else the left one."""
    kept: list[Label] = []
    for label in sorted(labels, key=lambda label: (not label.is_culprit, label.y, label.x)):
        if all(_is_clear(label, other) for other in kept):
            kept.append(label)
    return tuple(sorted(kept, key=lambda label: (label.y, label.x)))


def _is_clear(one: Label, other: Label) -> bool:
    left, right = sorted((one, other), key=lambda label: label.x)
    return abs(one.y - other.y) >= LETTERS or left.x + BOLD * width_of(left.text, LETTERS) + 4 <= right.x
