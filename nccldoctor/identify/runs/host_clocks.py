"""Takes the times from a host's own log where it seems to be written by the clock of another zone.

Example: ranks give up at 03:10 on a call of 03:00, and ``dmesg -T`` of a host has an Xid at 11:04, in local time. Eight hours earlier it
fits, so it counts, without its time and with a doubt. What no zone brings near the trouble is of another hour or day, and is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from nccldoctor.events import CollectiveTimeout, Events
from nccldoctor.events.base import Writer
from nccldoctor.identify.case import Case
from nccldoctor.identify.event_times import NEAR
from nccldoctor.model import Gap
from nccldoctor.words.times import duration

_BEFORE = 900.0
"""Seconds before the call that ran out in which a host reports what stopped it."""


def without_foreign_times(case: Case) -> Case:
    """The case with the lines of hosts that are about its time, as far as their clocks tell."""
    zoned = [e.time is not None and e.time.tzinfo is not None for e in case.events]
    of_host: dict[int, list[int]] = defaultdict(list)
    own: list[int] = []
    for i, event in enumerate(case.events):
        if not math.isnan(case.seconds[i]):
            is_host = event.written_by is Writer.KERNEL
            (of_host[event.place.source] if is_host else own).append(i)
    if not own or not of_host:
        return case
    trouble = _trouble(case, own)
    begun, last = min(trouble[0] + _BEFORE, float(case.seconds[own].min())), float(case.seconds[own].max())
    first = min(trouble[0], begun)
    seconds, gone, gaps = case.seconds.copy(), set[int](), []
    for source, lines in of_host.items():
        times = case.seconds[lines]
        beside = float(np.maximum(first - times, times - last).min())
        if beside <= 1800 or (all(zoned[i] for i in lines) and all(zoned[i] for i in own)):
            continue
        path = case.events[lines[0]].place.path
        away = float(np.maximum(begun - times, times - last).min())
        far = f"its lines are {duration(away * 1e3)} {'before' if times[0] < first else 'after'} those of the job"
        zones = (*range(-14, 15), -5.5, 5.5)  # hours by which two mostly differ
        if any(trouble[0] <= at + 3600 * hours <= trouble[1] for at in times for hours in zones):
            seconds[lines] = np.nan
            why = f"{far}; it may be written by the clock of another zone, so its times don't count"
            gaps.append(Gap(path, why, source=source, odd=True))
        else:
            gone |= set(lines)
            gaps.append(Gap(f"{path}: a different run", f"{far}; left out", source=source, apart=True))
    keep = [i for i in range(len(case.events)) if i not in gone]
    events = Events(case.events[i] for i in keep) if gone else case.events
    return replace(case, events=events, seconds=seconds[keep], gaps=(*case.gaps, *gaps)) if gaps else case


def _trouble(case: Case, own: Sequence[int]) -> tuple[float, float]:
    """The time from the first call that ran out to the first complaint, else that of all lines."""
    bad = [i for i in own if case.events[i].is_complaint]
    if not bad:
        return float(case.seconds[own].min()) - _BEFORE, float(case.seconds[own].max())
    ran = [
        float(case.seconds[i]) - (e.ran_ms or 0) / 1e3
        for i in bad
        if isinstance(e := case.events[i], CollectiveTimeout)
    ]
    alarm = float(case.seconds[bad].min())
    return min([alarm, *ran]) - _BEFORE, alarm + NEAR
