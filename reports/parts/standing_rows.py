"""The standings of a large job in few rows: one for all ranks that wait in the same call."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Standing

ROWS = 8
"""Rows that are shown one by one; more are folded."""


def folded(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """The rows of a table, in the order of their first standing.

    Ranks behind a stall wait in the same RECV #16117 of 200 pipelines, two to six waits away from the culprit: one row.
    """
    if len(standings) <= ROWS:
        return tuple(standings)
    alike: dict[object, list[Standing]] = {}
    for standing in standings:
        call = standing.call
        place = (call.kind, call.op, call.seq, call.site) if call is not None else standing
        alike.setdefault((standing.involvement, place), []).append(standing)
    return tuple(_joined(same) for same in alike.values())


def _joined(same: Sequence[Standing]) -> Standing:
    first = same[0]
    ranks = Ranks(rank for s in same for rank in s.ranks)
    ends = {s.end for s in same}
    calls = [s.call for s in same if s.call is not None]
    groups = tuple(dict.fromkeys(group for call in calls for group in call.groups))
    return replace(
        first,
        ranks=ranks,
        hosts=tuple(dict.fromkeys(host for s in same for host in s.hosts)),
        call=replace(calls[0], groups=groups) if calls else None,
        waits_for=Ranks(rank for s in same for rank in s.waits_for) - ranks,
        frame=first.frame if len({s.frame for s in same}) == 1 else "",
        end=first.end if len(ends) == 1 else "",
    )
