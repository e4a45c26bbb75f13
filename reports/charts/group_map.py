"""A map of a large job by its process groups.

A row is a pipeline stage, a block in it a replica, and a cell a rank of its tensor-parallel group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from nccldoctor.model import Diagnosis, Group
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts.rank_map import FEWEST, MOST_CELLS, Cell, Label, tones_of_ranks
from nccldoctor.reports.parts.tones import Tone, worst
from nccldoctor.words import names

LEFT, TOP, WIDTH = 72, 24, 1096
GAP, NARROWEST, WIDEST, ROW = 4, 5.0, 14.0, 22
LABEL = 64
"""Pixels that the label of a replica needs."""


class GroupMap(Struct, frozen=True):
    """The drawing: cells of ``cell_width`` by ``cell_height`` pixels, labels, and what a cell is."""

    cells: tuple[Cell, ...]
    labels: tuple[Label, ...]
    cell_width: float
    cell_height: float
    height: float
    title: str


class _Place(Struct, frozen=True):
    """Where a rank stands in the layout of its job."""

    stage: int
    replica: int
    tensor: int


def group_map(diagnosis: Diagnosis) -> GroupMap | None:
    """The drawing; None for a small job, and where groups do not give every rank a place of its own."""
    places = _places(diagnosis)
    if len(diagnosis.ranks) < FEWEST or not places:
        return None
    stages, replicas, tensor = (
        1 + max(getattr(place, name) for place in places.values()) for name in ("stage", "replica", "tensor")
    )
    across = tensor if len(places) <= MOST_CELLS else 1
    per_band = max(min(replicas, int((WIDTH - LEFT) // (across * NARROWEST + GAP))), 1)
    size = min(((WIDTH - LEFT) / per_band - GAP) / across, WIDEST)
    band_height = TOP + stages * ROW + 6
    tones = tones_of_ranks(diagnosis.standings)
    members: dict[_Place, list[int]] = {}
    for rank, place in places.items():
        members.setdefault(place if across > 1 else _Place(place.stage, place.replica, 0), []).append(rank)
    cells, blamed = [], set()
    for place, ranks in sorted(members.items(), key=lambda item: min(item[1])):
        band, column = divmod(place.replica, per_band)
        tone = worst([tones.get(rank, Tone.UNKNOWN) for rank in ranks])
        x = LEFT + column * (size * across + GAP) + place.tensor * size
        cells.append(Cell(x, band * band_height + TOP + place.stage * ROW, tone, str(Ranks(ranks))))
        if tone.is_blamed:
            blamed.add((place.stage, place.replica))
    bands = -(-replicas // per_band)
    labels = _stage_and_replica_labels(stages, replicas, per_band, size * across + GAP, band_height, blamed)
    title = "One row a pipeline stage, one block a replica, one cell a TP rank."
    if across == 1 < tensor:
        title = "One row a pipeline stage, one cell a TP group of a replica, in the colour of its worst rank."
    return GroupMap(tuple(cells), labels, size, ROW - 4.0, bands * band_height, title)


def _stage_and_replica_labels(
    stages: int, replicas: int, per_band: int, step: float, band_height: float, blamed: set[tuple[int, int]]
) -> tuple[Label, ...]:
    """A label for each stage, and for as many replicas as there is room; those of culprits always."""
    every = max(int(LABEL // step) + 1, 1) if step < LABEL else 1
    at_fault = {replica for _, replica in blamed}
    out = []
    for band in range(-(-replicas // per_band)):
        top = band * band_height + TOP
        out += [
            Label(0, top + stage * ROW + 13, f"stage {stage}", any(stage == s for s, _ in blamed))
            for stage in range(stages)
        ]
        inside = range(band * per_band, min((band + 1) * per_band, replicas))
        clear = [r for r in inside if r in at_fault or not any(0 < abs(r - other) < every for other in at_fault)]
        out += [
            Label(LEFT + (r - band * per_band) * step, top - 7, f"replica {r}", r in at_fault)
            for r in clear
            if r in at_fault or (r - band * per_band) % every == 0
        ]
    return tuple(out)


def _places(diagnosis: Diagnosis) -> dict[int, _Place]:
    """Each rank by its position in its pipeline, data and tensor group; empty unless all have one of their own."""
    kinds = {kind: _positions(diagnosis.job.groups, kind) for kind in ("PP", "DP", "TP")}
    ranks = [state.rank for state in diagnosis.ranks]
    used = [positions for positions in kinds.values() if positions]
    if len(used) < 2 or not all(rank in positions for positions in used for rank in ranks):
        return {}
    places = {
        rank: _Place(kinds["PP"].get(rank, 0), kinds["DP"].get(rank, 0), kinds["TP"].get(rank, 0)) for rank in ranks
    }
    return places if len(set(places.values())) == len(places) else {}


def _positions(groups: Sequence[Group], kind: str) -> Mapping[int, int]:
    """The position of each rank among the members of its group of a kind. Empty where a rank is in two."""
    out: dict[int, int] = {}
    for group in groups:
        if names.kind_name(group.desc) != kind or len(group.members) < 2:
            continue
        for position, rank in enumerate(sorted(group.members)):
            if rank in out:
                return {}
            out[rank] = position
    return out
