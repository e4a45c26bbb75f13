"""In which order a rank would have issued the calls that others wait in for it: by its own past, else by a peer's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nccldoctor.call_streams import CallStreams
from nccldoctor.case import Case
from nccldoctor.fronts import Fronts
from nccldoctor.waits import StuckCall

MOST_SHARED = 4096
"""Members up to which a group says something about who works alongside whom."""


def in_own_order(
    case: Case, both: Fronts, streams: CallStreams, rank: int, calls: Sequence[StuckCall]
) -> list[StuckCall]:
    """These calls, first the one that ``rank`` would have issued next: by its own past, else by a peer that shares most groups with it.

    The clock does not tell: members of other groups come to their calls when they like.
    """
    expected = streams.expected_next(rank, len(streams.rows(rank)))
    if expected is not None:
        group = int(case.call_group[expected[0]])
        return sorted(calls, key=lambda c: c.group != group)
    places = _places(case, both, rank)
    return sorted(calls, key=lambda c: places.get((_role(case, c.group), -1 if c.pair else c.seq), 1 << 60))


def _role(case: Case, group: int) -> tuple[str, int]:
    return case.groups[group].desc, len(case.groups[group].members)


def _places(case: Case, both: Fronts, rank: int) -> dict[tuple[tuple[str, int], int], int]:
    """Where a peer that shares most groups with ``rank`` issued, or waits in, the call of each role and number, in its own order.

    Sister groups of one role count alike, so that their numbers stand for the same place in the step. Number -1 is a
    role's first open transfer.
    """
    shared = Counter(
        r for g in case.groups if rank in g.members and len(g.members) <= MOST_SHARED for r in g.members if r != rank
    )
    peer = next((p for p, _ in sorted(shared.items(), key=lambda i: (-i[1], i[0])) if p in both.last_row), None)
    out: dict[tuple[tuple[str, int], int], int] = {}
    if peer is None:
        return out
    for row in np.flatnonzero(both.collective & (case.call_rank == peer)).tolist():
        out[(_role(case, int(case.call_group[row])), int(case.calls.seq[row]))] = int(case.calls.entry[row])
    for transfer in both.transfers.get(peer, ()):
        out.setdefault((_role(case, transfer.group), -1), transfer.position)
    return out
