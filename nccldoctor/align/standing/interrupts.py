"""Takes the tracebacks of a Ctrl-C as a look at the job.

Each of them says where its rank stood when a person lost patience.

Example: no step for ten seconds, then Ctrl-C: ranks 0, 1 and 3 are interrupted in the backward pass, rank 2 in ``open_shard``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nccldoctor.align.liveness import Liveness
from nccldoctor.events import Event, ExceptionRaised, Stack
from nccldoctor.identify.case import Case


def interrupted_stacks(case: Case, liveness: Liveness) -> tuple[float, list[Stack]]:
    """When a person stopped the job, and where its ranks stood.

    There are no stacks where a rank complained before.
    """
    stops = [e for e in case.events if e.is_stop_by_person]
    raised = [e for e in stops if isinstance(e, ExceptionRaised) and e.rank is not None and e.frames]
    at = min((t for e in stops if not math.isnan(t := liveness.time(e))), default=math.nan)
    if len(raised) < 2 or math.isnan(at) or not _is_first(stops, at, case, liveness):
        return math.nan, []
    return at, [
        Stack(place=e.place, text=e.text, rank=e.rank, host=e.host, pid=e.pid, frames=e.frames, main=True, look=1)
        for e in raised
    ]


def _is_first(stops: Sequence[Event], at: float, case: Case, liveness: Liveness) -> bool:
    """True when every complaint follows the stop, by its time or by its line in the same file."""
    begun: dict[int, int] = {}
    for stop in stops:
        begun.setdefault(stop.place.source, stop.place.line or 0)
    return all(
        liveness.time(e) >= at or begun.get(e.place.source, math.inf) < (e.place.line or 0)
        for e in case.events
        if e.is_complaint
    )
