"""Lays the stacks of several looks side by side: what each rank stood in, and what moved between them."""

from __future__ import annotations

import math

from nccldoctor.align.facts import Facts
from nccldoctor.align.standing.looks import Look
from nccldoctor.model import Finding
from nccldoctor.model.figures import SnapshotRow, Snapshots
from nccldoctor.model.ranks import Ranks

LOOKS = 3
"""Looks that are shown: the first, and the last ones."""

ROWS = 6


def snapshots(facts: Facts, finding: Finding) -> Snapshots | None:
    """The looks with culprits first.

    None with fewer than two looks, or without a culprit's frame in two of them.
    """
    looks = facts.looks.all if len(facts.looks.all) <= LOOKS else (facts.looks.all[0], *facts.looks.all[1 - LOOKS :])
    blamed = finding.ranks or finding.suspects
    if len(looks) < 2 or facts.looks.interrupted:
        return None
    seen: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
    for rank in facts.case.world:
        frames = tuple(_frame_in_look(look, rank) for look in looks)
        if any(frames):
            seen.setdefault((rank in blamed, frames), []).append(rank)
    rows = [SnapshotRow(Ranks(ranks), frames, culprit) for (culprit, frames), ranks in seen.items()]
    rows.sort(key=lambda row: (not row.is_culprit, -len(row.ranks), min(row.ranks)))
    if not any(row.is_culprit and sum(map(bool, row.frames)) > 1 for row in rows):
        return None
    return Snapshots(tuple(None if math.isnan(look.at) else look.at for look in looks), tuple(rows[:ROWS]))


def _frame_in_look(look: Look, rank: int) -> str:
    stance = look.stances.get(rank)
    return (stance.place or stance.words) if stance is not None else ""
