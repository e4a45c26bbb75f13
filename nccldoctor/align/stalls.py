"""Lists the stalls of a job: the places where waiting ends, each of which needs an explanation of its own."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from nccldoctor.align.wait_graph import Key, StuckCall, WaitGraph
from nccldoctor.model.ranks import Ranks


class StallKind(StrEnum):
    """Where the waiting ends.

    ``ABSENT``: at ranks that are not in the call. ``HIDDEN``: at ranks that wait in a call which is not recorded. ``FULL``: in a
    call that every member entered. ``CYCLE``: in a circle of calls. ``CRASH``, ``NOTHING``: no rank is known to wait.
    """

    ABSENT = "absent"
    HIDDEN = "hidden"
    FULL = "full"
    CYCLE = "cycle"
    CRASH = "crash"
    NOTHING = "nothing"


class Stall(Struct, frozen=True):
    """One independent stall.

    ``ranks`` are those that others wait for (absent), or that are in the call (full) or in the circle. ``call`` is the call at the
    root, ``calls`` are all that end here. ``proven_absent`` ranks are outside by evidence; the rest of ``ranks`` left no record.
    ``inferred``: other ranks are outside too, and only the order of past steps says that they merely wait for ``ranks``.
    """

    kind: StallKind
    ranks: Ranks
    call: StuckCall | None = None
    calls: tuple[StuckCall, ...] = ()
    proven_absent: Ranks = Ranks()
    inferred: bool = False


def stalls(graph: WaitGraph, issued_at: Mapping[Key, float], roots: Ranks) -> tuple[Stall, ...]:
    """All stalls: absent ranks first, then full calls, then circles.

    ``issued_at`` puts the calls in order, and ``roots`` are the absent ranks that do not wait in an unrecorded call themselves.
    """
    by_calls: dict[tuple[Key, ...], set[int]] = {}
    for rank in roots:
        by_calls.setdefault(tuple(sorted(c.key for c in graph.waiting_for(rank))), set()).add(rank)
    absent = []
    for keys, ranks in sorted(by_calls.items(), key=lambda item: min(item[1])):
        calls = [graph.calls[k] for k in keys]
        calls.sort(key=lambda c: (round(issued_at.get(c.key, 0.0)), len(c.entered | c.blockers), c.key))
        proven = Ranks(r for r in ranks if any(r in c.missing for c in calls))
        absent.append(Stall(StallKind.ABSENT, Ranks(ranks), calls[0] if calls else None, tuple(calls), proven))
    full = [graph.calls[key] for key in graph.entered_by_all]
    # first of a circle come the calls that a rank never issued, since the order was broken there
    circles = [
        tuple(sorted((graph.calls[k] for k in keys), key=lambda c: (not c.missing, issued_at.get(c.key, 0.0), c.key)))
        for keys in graph.cycles
    ]
    return (
        *absent,
        *(Stall(StallKind.FULL, call.inside, call, (call,)) for call in full),
        *(Stall(StallKind.CYCLE, Ranks(r for c in calls for r in c.inside), calls[0], calls) for calls in circles),
    )
