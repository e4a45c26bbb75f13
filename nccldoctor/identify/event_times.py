"""Puts all events on one clock: seconds since the epoch, NaN where a line has no time.

c10 lines have no year, most lines have no zone, and recorder times are true epoch nanoseconds. The line of a watchdog and the recorded
start of the call it gave up on show the zone of the logs: a call recorded at 10:00 UTC that ran 600 s and was given up at 12:10 by the
log makes the zone UTC+2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from nccldoctor.events import CollectiveTimeout, Event, Events, ExceptionRaised, ProcessExit
from nccldoctor.model.recorded_calls import Batch

YEARLESS = 1900
"""The year that parsers give to a time without one."""

_EPOCH = datetime(1970, 1, 1)
"""Without a zone, as most lines print their times."""

NO_YEAR_KNOWN = 2000
"""The year of a job of which nothing tells the year: a leap year, which has every day."""

QUARTER = 900.0
"""Zones are multiples of a quarter of an hour."""

NEAR = 120.0
"""Seconds by which the clocks of two records of one moment differ at most."""

FARTHEST = 14 * 3600
"""Seconds that a zone is ahead of UTC, or behind it, at most."""


def event_seconds(
    events: Events, batch: Batch, dump_rank: Sequence[int | None], year: int = NO_YEAR_KNOWN
) -> npt.NDArray[np.float64]:
    """Epoch seconds of each event (NaN: no time); naive times are moved by the zone of the logs.

    The zone is a multiple of a quarter hour. Timeouts of recorded calls show it, else the ends that launchers printed, else the zone
    that most lines name. ``year`` is that of times without one, where neither the events nor the dumps tell it.
    """
    year = year_of(events, batch, year)
    raw = np.array([_stamp(e.time, year) for e in events], dtype=np.float64)
    naive = np.array([e.time is not None and e.time.tzinfo is None for e in events], dtype=bool)
    if offsets := [raw[i] - at for i, at in _expected_timeouts(events, naive, batch, dump_rank)]:
        zone: float | None = _nearest_zone(float(np.median(offsets))) or 0.0
    else:
        ended = [raw[i] for i in events.places_of(ProcessExit) if naive[i]]
        untimed = [at for _, at in _expected_timeouts(events, np.isnan(raw), batch, dump_rank)] if ended else []
        behind = min(ended) - min(untimed) if untimed else math.nan
        found = behind // (2 * QUARTER) * 2 * QUARTER  # the launcher prints the end within 14 minutes of a timeout
        by_end = found if behind - found <= 840 and abs(found) <= FARTHEST else None
        zone = by_end if untimed else _zone_by_exceptions(events, raw, naive)
    shift = _usual_offset(events) if zone is None else zone
    return np.where(naive, raw - shift, raw)


def _stamp(time: datetime | None, year: int) -> float:
    if time is None:
        return float("nan")
    if time.year == YEARLESS:
        try:
            time = time.replace(year=year)
        except ValueError:  # 29 February in a year without one
            return float("nan")
    return time.timestamp() if time.tzinfo is not None else (time - _EPOCH).total_seconds()


def with_year(time: datetime, seconds: float) -> datetime:
    """A time as its line prints it, with the year of the job where the line has none.

    It stays without one where no other line tells it. ``seconds`` are those of the event on the clock of the job. Example:
    ``W1122 07:51:04`` beside lines of 2026 is of 22 November 2026.
    """
    if time.year != YEARLESS or math.isnan(seconds):
        return time
    for day in (0, -1, 1):
        with suppress(ValueError, OverflowError):  # 29 February, and the edge of the calendar
            whole = time.replace(year=datetime.fromtimestamp(seconds + day * 86_400, UTC).year)
            if whole.year != NO_YEAR_KNOWN and abs(whole.replace(tzinfo=UTC).timestamp() - seconds) <= 2 * FARTHEST:
                return whole
    return time


def year_of(events: Iterable[Event], batch: Batch, unknown: int = NO_YEAR_KNOWN) -> int:
    """The year of the job: by the recorder, else by the dated lines; ``unknown`` where neither has one."""
    if len(batch.calls) and int(batch.calls.created_ns.max()) > 0:
        return datetime.fromtimestamp(int(batch.calls.created_ns.max()) / 1e9, UTC).year
    years = [e.time.year for e in events if e.time is not None and e.time.year != YEARLESS]
    return max(years) if years else unknown


def _usual_offset(events: Sequence[Event]) -> float:
    """The zone that most lines with a zone name: lines without one mostly come from the same hosts.

    UTC counts only where no line names another zone: collectors write it whatever the clock of the host shows.
    """
    offsets = Counter(o.total_seconds() for e in events if e.time is not None and (o := e.time.utcoffset()) is not None)
    local = {offset: count for offset, count in offsets.items() if offset and count > 1} or offsets
    return max(sorted(local), key=lambda o: local[o]) if local else 0.0


def _nearest_zone(offset: float) -> float | None:
    """The zone that an offset of clocks stands for; None where it fits none."""
    rounded = round(offset / QUARTER) * QUARTER
    return rounded if abs(rounded) <= FARTHEST and abs(offset - rounded) < NEAR else None


def _zone_by_exceptions(events: Events, raw: npt.NDArray[np.float64], naive: npt.NDArray[np.bool_]) -> float | None:
    """The zone by which launchers print the ends of processes whose exceptions have a time in UTC.

    A worker of torchrun writes when it raised to ``error.json``, in seconds since 1970, and the table of failures says the same in local
    time.
    """
    raised = {
        event.rank: float(raw[i])
        for i, event in zip(events.places_of(ExceptionRaised), events.of_kind(ExceptionRaised), strict=True)
        if event.rank is not None and event.time is not None and not naive[i]
    }
    exits = zip(events.places_of(ProcessExit), events.of_kind(ProcessExit), strict=True) if raised else ()
    offsets = [float(raw[i]) - raised[event.rank] for i, event in exits if naive[i] and event.rank in raised]
    return _nearest_zone(float(np.median(offsets))) if offsets else None


def _expected_timeouts(
    events: Events, which: npt.NDArray[np.bool_], batch: Batch, dump_rank: Sequence[int | None]
) -> list[tuple[int, float]]:
    """Timeouts of recorded calls: their index among the events, and when they ran out by the recorder's clock."""
    calls = batch.calls
    ranks = {rank: dump for dump, rank in enumerate(dump_rank) if rank is not None}
    out: list[tuple[int, float]] = []
    if not ranks:
        return out
    for i, event in zip(events.places_of(CollectiveTimeout), events.of_kind(CollectiveTimeout), strict=True):
        if not (which[i] and event.rank in ranks and event.ran_ms is not None):
            continue
        seq = event.seq if event.seq is not None else -2
        rows = np.flatnonzero((calls.dump == ranks[event.rank]) & (calls.seq == seq)).tolist()
        out += [
            (i, int(calls.created_ns[row]) / 1e9 + event.ran_ms / 1e3)
            for row in rows
            if int(calls.created_ns[row]) > 0
            and (event.numel_in is None or int(calls.numel_in[row]) in (event.numel_in, -1))
        ]
        if len(out) >= 64:  # more tell nothing new
            break
    return out
