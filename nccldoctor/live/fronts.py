"""Compares how far the ranks of a job got in two analyses: who moved on, and who did not."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from nccldoctor.align.liveness import collect_liveness
from nccldoctor.incident import Incident
from nccldoctor.model.ranks import Ranks


class Front(Struct, frozen=True):
    """How far one rank got: its newest step, its calls in ``group``, and where its main thread is."""

    step: int | None = None
    group: str | None = None
    completed: int | None = None
    enqueued: int | None = None
    frames: tuple[str, ...] = ()


class Movement(Struct, frozen=True):
    """What changed between two analyses.

    ``onward`` did further steps or calls. ``stirred`` have only another stack, which shows life and no progress. ``still`` are the others,
    ``gone`` the ranks of which the second analysis has nothing.
    """

    onward: Ranks
    stirred: Ranks
    still: Ranks
    gone: Ranks


def fronts(incident: Incident) -> dict[int, Front]:
    """How far each rank got, by the newest look, the dumps and the logs."""
    liveness = collect_liveness(incident.case)
    rows = {row.rank: row for row in incident.diagnosis.ranks}
    out = {}
    for rank in sorted(rows.keys() | liveness.by_rank.keys()):
        own, row = liveness.activity(rank), rows.get(rank)
        looks = [stack for stack in own.stacks if stack.main]
        newest = max(looks, key=lambda stack: stack.look, default=None)
        calls = (row.group, row.completed, row.enqueued) if row is not None else (None, None, None)
        out[rank] = Front(own.step, *calls, newest.frames if newest is not None else ())
    return out


def compare_fronts(before: Mapping[int, Front], after: Mapping[int, Front]) -> Movement:
    """What moved between ``before`` and ``after``; ranks that are new count as still."""
    onward = Ranks(rank for rank, now in after.items() if rank in before and _has_advanced(before[rank], now))
    stirred = Ranks(
        rank
        for rank, now in after.items()
        if rank in before and rank not in onward and now.frames and before[rank].frames not in ((), now.frames)
    )
    gone = Ranks(before) - Ranks(after)
    return Movement(onward, stirred, Ranks(after) - onward - stirred, gone)


def _has_advanced(before: Front, now: Front) -> bool:
    """True when a count grew; calls are compared in one group only."""
    pairs = [(before.step, now.step)]
    if before.group == now.group:
        pairs += [(before.completed, now.completed), (before.enqueued, now.enqueued)]
    return any(was is not None and new is not None and new > was for was, new in pairs)
