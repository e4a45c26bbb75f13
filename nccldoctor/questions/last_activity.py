"""The last thing that anybody printed before the wait began: *Saving latest checkpoint*, *Map: 70 %*, *Training finished*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from nccldoctor.align.facts import Facts
from nccldoctor.events import Event, Heartbeat, Phase, Progress
from nccldoctor.model import Family, Finding, LastActivity


def last_activity(facts: Facts, finding: Finding) -> LastActivity | None:
    """The last activity before the wait, by time; a line without one is as old as the one above it.

    What was printed in the second in which the call began counts as before it. Of one second a step counts less than other work.
    """
    if finding.family is Family.NONE:
        return None
    found = max(_activities(facts), key=lambda pair: pair[0], default=None)
    if found is None:
        return None
    event = found[1]
    return LastActivity(_text_of(event), event.rank, event.time, event.place, not _is_work(event))


def _text_of(event: Event) -> str:
    """Its line; of a progress bar no more than the bar, which is drawn short."""
    if not isinstance(event, Progress) or "%|" not in event.text:
        return event.text.strip()
    label, _, rest = event.text.partition("%|")
    drawn = "".join(char * min(len(list(run)), 3) for char, run in groupby(f"{label[-60:]}%|{rest}"))
    return drawn[: drawn.find("]", drawn.find("%|")) + 1].strip() or drawn


def _is_work(event: Event) -> bool:
    """True of work outside the step, of a full bar, and of the end of the training."""
    if isinstance(event, Progress):
        is_full = event.total is not None and (event.step or 0) >= event.total
        return "%|" in event.text and (event.counts == "work" or is_full)
    return isinstance(event, Phase) and event.what not in ("starting", "ready")


def _activities(facts: Facts) -> Iterator[tuple[tuple[float, bool, int, int], Event]]:
    """The lines about work before the wait, with what puts them in order."""
    liveness = facts.liveness
    until = math.floor(liveness.began) + 1.0 if not math.isnan(liveness.began) else math.inf
    source, at = -1, -math.inf
    for event in facts.case.events:
        if event.place.source != source:
            source, at = event.place.source, -math.inf
        if event.place.line is None or liveness.is_after_alarm(event):
            continue
        at = at if math.isnan(now := liveness.time(event)) else now
        if isinstance(event, Phase | Progress | Heartbeat) and at < until:
            whole = at if math.isinf(at) else math.floor(at)
            yield (whole, _is_work(event), event.place.source, event.place.line), event
