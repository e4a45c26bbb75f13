"""The stalls of a job: each place where waiting ends, and so each thing that needs an explanation of its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nccldoctor.align.first_pending import Key
from nccldoctor.align.wait_graph import StuckCall, WaitGraph
from nccldoctor.model.ranks import Ranks


class StallKind(StrEnum):
    """How the waiting ends: at ranks outside, at ranks that wait in something not recorded, in a call that all are in, in a circle; or
    nothing is known to wait.
    """

    ABSENT = "absent"
    HIDDEN = "hidden"
    FULL = "full"
    CYCLE = "cycle"
    CRASH = "crash"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Stall:
    """One independent stall.

    ``ranks`` are those that others wait for (absent), that are in the call (full) or in the circle. ``call`` is the call at the root,
    ``calls`` all that end here. ``proven_absent`` are the ranks that evidence puts outside; the rest of ``ranks`` merely left nothing.
    ``inferred``: other ranks are outside too, and only the order of past steps speaks for them.
    """

    kind: StallKind
    ranks: Ranks
    call: StuckCall | None = None
    calls: tuple[StuckCall, ...] = ()
    proven_absent: Ranks = Ranks()
    inferred: bool = False


def stalls(waits: WaitGraph, order: dict[Key, float], roots: Ranks) -> tuple[Stall, ...]:
    """All stalls: absent ranks first, then full calls, then circles. ``order`` says which call comes
    first (see ``align``), ``roots`` which absent ranks have no excuse.
    """
    out: list[Stall] = []
    by_calls: dict[tuple[Key, ...], set[int]] = {}
    for rank in roots:
        keys = tuple(sorted(c.key for c in waits.waiting_for(rank)))
        by_calls.setdefault(keys, set()).add(rank)
    for keys, ranks in sorted(by_calls.items(), key=lambda item: min(item[1])):
        calls = tuple(
            sorted(
                (waits.calls[k] for k in keys),
                key=lambda c: (round(order.get(c.key, 0.0)), len(c.entered | c.blockers), c.key),
            )
        )
        shown = Ranks(r for r in ranks if any(r in c.missing for c in calls))
        out.append(Stall(StallKind.ABSENT, Ranks(ranks), calls[0] if calls else None, calls, shown))
    for key in waits.entered_by_all:
        call = waits.calls[key]
        out.append(Stall(StallKind.FULL, call.inside, call, (call,)))
    for cycle in waits.cycles:
        # First what somebody never issued: there the order was left; in the others all that is missing is queued.
        by_time = sorted((waits.calls[k] for k in cycle), key=lambda c: (order.get(c.key, 0.0), c.key))
        calls = tuple(sorted(by_time, key=lambda c: not c.missing))
        ranks_in: set[int] = set()
        for call in calls:
            ranks_in |= call.inside
        out.append(Stall(StallKind.CYCLE, Ranks(ranks_in), calls[0], calls))
    return tuple(out)
