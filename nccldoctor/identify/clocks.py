"""One clock for everything: seconds since the epoch for each event, as far as its line allows.

c10 lines have no year, most have no zone, and recorder times are true epoch nanoseconds: the lines of a watchdog and
the recorded start of the call it gave up on tell the zone of a job's logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from nccldoctor.events import CollectiveTimeout, Event, ProcessExit
from nccldoctor.model.recorded_calls import Batch

YEARLESS = 1900
"""The year that parsers give to a time without one."""

_TOLD = 2  # lines that must agree on a zone

QUARTER = 900.0
"""Zones are multiples of a quarter of an hour."""

FARTHEST = 14 * 3600
"""Seconds that a zone is ahead of UTC, or behind it, at most."""

ENOUGH = 64
"""Timeouts that are asked."""

TAKEN_DOWN = 840.0
"""Seconds in which a launcher sees the end of a rank that gave up."""


def event_seconds(events: Sequence[Event], batch: Batch, dump_rank: Sequence[int | None]) -> npt.NDArray[np.float64]:
    """Epoch seconds for each event, NaN where it has no time. Naive times are moved by the job's zone, if it can be told."""
    year = _year(events, batch)
    raw = np.array([_stamp(e.time, year) for e in events], dtype=np.float64)
    naive = np.array([e.time is not None and e.time.tzinfo is None for e in events], dtype=bool)
    shift = _zone(events, raw, naive, batch, dump_rank)
    return np.where(naive, raw - shift, raw)


def _stamp(time: datetime | None, year: int) -> float:
    if time is None:
        return float("nan")
    if time.year == YEARLESS:
        try:
            time = time.replace(year=year)
        except ValueError:  # 29 February in a year without one
            return float("nan")
    return time.timestamp() if time.tzinfo is not None else time.replace(tzinfo=UTC).timestamp()


def _year(events: Sequence[Event], batch: Batch) -> int:
    """The year of the job: of the recorder, else of the dated lines; a leap year where nothing tells."""
    if len(batch.calls) and int(batch.calls.created_ns.max()) > 0:
        return datetime.fromtimestamp(int(batch.calls.created_ns.max()) / 1e9, UTC).year
    years = [e.time.year for e in events if e.time is not None and e.time.year != YEARLESS]
    return max(years) if years else 2000


def _usual_offset(events: Sequence[Event]) -> float:
    """The zone that most lines with one name: lines without one mostly come from the same hosts. UTC only where no line
    says more: collectors write it whatever the clock of the host shows.
    """
    found = Counter(o.total_seconds() for e in events if e.time is not None and (o := e.time.utcoffset()) is not None)
    local = {offset: count for offset, count in found.items() if offset and count >= _TOLD} or found
    return max(sorted(local), key=lambda o: local[o]) if local else 0.0


def _zone(
    events: Sequence[Event],
    raw: npt.NDArray[np.float64],
    naive: npt.NDArray[np.bool_],
    batch: Batch,
    dump_rank: Sequence[int | None],
) -> float:
    """Seconds that local times are ahead of UTC: from timeouts whose call was recorded, as a multiple of a quarter hour."""
    offsets = [raw[i] - at for i, at in _gave_up(events, naive, batch, dump_rank)]
    if not offsets:
        ended = [raw[i] for i, e in enumerate(events) if naive[i] and isinstance(e, ProcessExit)]
        untimed = [at for _, at in _gave_up(events, np.isnan(raw), batch, dump_rank)] if ended else []
        found = _by_end(min(untimed), min(ended)) if untimed else None
        return _usual_offset(events) if found is None else found
    guess = float(np.median(np.array(offsets)))
    rounded = round(guess / QUARTER) * QUARTER
    return rounded if abs(rounded) <= FARTHEST and abs(guess - rounded) < 120 else 0.0


def _gave_up(
    events: Sequence[Event], which: npt.NDArray[np.bool_], batch: Batch, dump_rank: Sequence[int | None]
) -> list[tuple[int, float]]:
    """Some timeouts of recorded calls (their place among the events), and when the recorder's clock says that they ran out."""
    calls = batch.calls
    ranks = {rank: dump for dump, rank in enumerate(dump_rank) if rank is not None}
    out: list[tuple[int, float]] = []
    for i, event in enumerate(events):
        if not (isinstance(event, CollectiveTimeout) and which[i] and event.rank in ranks and event.ran_ms is not None):
            continue
        seq = event.seq if event.seq is not None else -2
        rows = np.flatnonzero((calls.dump == ranks[event.rank]) & (calls.seq == seq)).tolist()
        out += [
            (i, int(calls.created_ns[row]) / 1e9 + event.ran_ms / 1e3)
            for row in rows
            if int(calls.created_ns[row]) > 0
            and (event.numel_in is None or int(calls.numel_in[row]) in (event.numel_in, -1))
        ]
        if len(out) >= ENOUGH:
            break
    return out


def _by_end(gave_up: float, ended: float) -> float | None:
    """The zone by the end that a launcher saw: it follows within minutes when a rank has given up. Half hours, for less is no zone."""
    zone = (ended - gave_up) // (2 * QUARTER) * 2 * QUARTER
    return zone if ended - gave_up - zone <= TAKEN_DOWN and abs(zone) <= FARTHEST else None
