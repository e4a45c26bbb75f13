"""Attempts of one job: each start by its launcher is a job of its own, and only the newest is diagnosed.

torchrun keeps them apart by folder (``attempt_1``); in a launcher's own log, and in merged ones, its restart lines do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nccldoctor.case import Case
from nccldoctor.events import Event, Note
from nccldoctor.model import Gap, Source

KEPT = ("restart",)
"""Notes behind which a new attempt begins."""


def newest(case: Case) -> Case:
    """The case with the events of its newest attempt alone; what was left out is a Gap."""
    sources = {s.id: s for s in case.sources}
    last = max((s.attempt for s in case.sources if s.attempt is not None), default=None)
    begins = _restarts(case.events)
    keep = [i for i, e in enumerate(case.events) if _current(e, sources, last, begins)]
    if len(keep) == len(case.events):
        return case
    left = len(case.events) - len(keep)
    gap = Gap(
        "earlier attempts of the job", f"{left} events of them are kept apart; only the newest attempt is diagnosed"
    )
    return replace(case, events=tuple(case.events[i] for i in keep), seconds=case.seconds[keep], gaps=(*case.gaps, gap))


def _restarts(events: Sequence[Event]) -> dict[int, int]:
    """The line of the last restart in each source."""
    out: dict[int, int] = {}
    for event in events:
        if isinstance(event, Note) and event.what in KEPT:
            out[event.place.source] = max(out.get(event.place.source, 0), event.place.line or 0)
    return out


def _current(event: Event, sources: dict[int, Source], last: int | None, begins: dict[int, int]) -> bool:
    attempt = sources[event.place.source].attempt
    if last is not None and attempt is not None:
        return attempt == last
    return (event.place.line or 0) >= begins.get(event.place.source, 0)
