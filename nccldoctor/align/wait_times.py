"""Says since when and until when one rank waits in a call.

Example: rank 0 issued ALLREDUCE #9 at 50.4 s with a limit of 8 s. It raised in a line without a time, and stands in the launcher's table at
62 s: it waited until 58.4 s. Without a recorder its wait began at 54 s at the latest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import RankActivity
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.wait_graph import StuckCall, pair_keys
from nccldoctor.events import CallTimeout, Event
from nccldoctor.model.standings import WaitEnd, WaitStart, WaitTimes
from nccldoctor.parsers.event_details import gloo_limit_ms, is_gloo_timeout

LATE = 840.0
"""Seconds after the limit within which a job is taken down; time zones differ by more."""

SECOND = 1.0
"""Launchers print the time of an exit in whole seconds, and so do some logs."""


class Complaints(Struct, frozen=True):
    """What a rank printed when it timed out.

    ``about`` are the lines of its watchdog about the call, ``gloo`` is the exception of gloo, ``every`` all complaints of the rank.
    """

    about: tuple[CallTimeout, ...]
    gloo: Event | None
    every: tuple[Event, ...]

    @property
    def limit_ms(self) -> int | None:
        """The limit that the exception of gloo names."""
        return gloo_limit_ms(self.gloo) if self.gloo is not None else None


def complaints(facts: Facts, rank: int, call: StuckCall | None, seq: int | None = None) -> Complaints:
    """The complaints of a rank about a call; about any call of number ``seq`` where no stuck call is known."""
    activity = facts.liveness.activity(rank)
    every = (*activity.alarms, *activity.secondary_errors)
    about = [e for e in activity.alarms if isinstance(e, CallTimeout)]
    if call is not None:
        about = [e for e in about if e.seq == call.seq and group_of(facts.case, e) in (call.group, None)]
    elif seq is not None:
        about = [e for e in about if e.seq == seq]
    return Complaints(tuple(about), next(filter(is_gloo_timeout, every), None), every)


def wait_times(
    facts: Facts, rank: int, call: StuckCall | None, said: Complaints, began: float | None = None
) -> WaitTimes:
    """When the rank began to wait, and when it timed out or ended.

    ``began``: when the first member issued the call, for a rank of which no file shows that.
    """
    row = _entry_of(facts, rank, call)
    since, start, has_zone = _since(facts, row, said)
    recorded = int(facts.case.calls.timeout_ms[row]) if row >= 0 else 0
    limit = said.limit_ms or (recorded if recorded > 0 else None)
    until, end = _until(facts, rank, since if since is not None else began, limit, said)
    printed = next((e.ran_ms for e in said.about if e.ran_ms is not None), None)
    is_measured = since is not None and until is not None and end is not WaitEnd.BEFORE_EXIT
    ran_ms = printed if printed is not None else (said.limit_ms if not is_measured else None)
    if since is None and began is None:
        since, start, has_zone = _since_at_latest(facts, facts.liveness.activity(rank), said)
        until = since + said.limit_ms / 1e3 if since is not None and said.limit_ms is not None else until
    return WaitTimes(
        since=since,
        until=until,
        end=end,
        start=start,
        is_zoned=has_zone,
        ran_ms=float(ran_ms) if ran_ms is not None else None,
        timeout_ms=next((e.timeout_ms for e in said.about if e.timeout_ms is not None), None) or limit,
    )


def _entry_of(facts: Facts, rank: int, call: StuckCall | None) -> int:
    """The row of the rank's own entry of the call; -1 where none is recorded."""
    if call is None:
        return -1
    if call.pair is not None:
        transfers = facts.progress.transfers.get(rank, ())
        return next((transfer.row for transfer in transfers if call.key in pair_keys(transfer)), -1)
    own = facts.progress.by_group_rank.get((call.group, rank))
    return own.row if own is not None and own.pending == call.seq else -1


_Start = tuple[float | None, WaitStart | None, bool]
"""When a wait began, how that is known, and whether what shows it names its zone."""


def _since(facts: Facts, row: int, said: Complaints) -> _Start:
    """When the rank issued the call: as recorded, else the time of its timeout less what the call ran."""
    if row >= 0 and facts.case.calls.created_ns[row] > 0:
        return float(facts.case.calls.created_ns[row]) / 1e9, WaitStart.RECORDED, True
    ran = [(facts.liveness.issued(e), is_zoned(e)) for e in said.about if e.ran_ms is not None]
    began = [start for start in ran if not math.isnan(start[0])]
    if not began and said.gloo is not None and said.limit_ms is not None:
        at = facts.liveness.time(said.gloo) - said.limit_ms / 1e3
        began = [] if math.isnan(at) else [(at, is_zoned(said.gloo))]
    if not began:
        return None, None, False
    since, named = min(began)
    return since, WaitStart.CALCULATED, named


def _since_at_latest(facts: Facts, activity: RankActivity, said: Complaints) -> _Start:
    """The end of its process less the limit: the rank timed out before, in a line without a time."""
    ended = _ended_by(facts, activity) if said.gloo is not None else None
    if ended is None or said.limit_ms is None:
        return None, None, False
    return ended[0] - said.limit_ms / 1e3, WaitStart.AT_LATEST, is_zoned(ended[1])


def _ended_by(facts: Facts, activity: RankActivity) -> tuple[float, Event] | None:
    """When the process had ended, and what shows it; None where no record has a time.

    The table of a launcher that had to kill a process has the time of the kill for all that it closed: those which the closing signal
    ended were gone when it was sent.
    """
    time = facts.liveness.time
    exits = [e for e in activity.exits if not math.isnan(time(e))]
    if not exits:
        return None
    first = min(exits, key=time)
    latest = time(first) + (SECOND if time(first) == math.floor(time(first)) else 0)
    closing = [e for e in activity.teardown if e.what == "closing-signal" and e.detail == first.signal]
    sent = min((e for e in closing if time(e) <= latest), key=time, default=None)
    return (time(sent), sent) if sent is not None else (latest, first)


def is_zoned(event: Event) -> bool:
    """True where its line names the time zone."""
    return event.time is not None and event.time.tzinfo is not None


def _until(
    facts: Facts, rank: int, since: float | None, limit: int | None, said: Complaints
) -> tuple[float | None, WaitEnd | None]:
    """When the rank timed out, else when its process ended.

    The clock of a line without a zone may not be the recorder's: it counts when it follows within the limit, or a little later.
    """
    activity = facts.liveness.activity(rank)
    earliest = since - SECOND if since is not None else -math.inf
    latest = since + limit / 1e3 + LATE if since is not None and limit is not None else math.inf

    def fitting(events: Iterable[Event]) -> list[float]:
        timed = ((facts.liveness.time(e), is_zoned(e)) for e in events)
        return [at for at, has_zone in timed if at >= earliest and (has_zone or at <= latest)]

    timed_out = min(fitting(said.about) or fitting(said.every), default=math.inf)
    ended = min(fitting(activity.exits), default=math.inf)
    is_timeless = said.gloo is not None and math.isnan(facts.liveness.time(said.gloo))
    over = since + limit / 1e3 if is_timeless and since is not None and limit is not None else math.inf
    if over < min(timed_out, ended + SECOND):
        return over, WaitEnd.TIMEOUT
    if timed_out < math.inf:
        return max(timed_out, since or timed_out), WaitEnd.TIMED_OUT
    if ended == math.inf:
        return None, None
    # its table of exits has whole seconds: 11:33:02 for a process that got SIGTERM at 11:33:02.168
    signals = known_times(facts.liveness.time(e) for e in activity.teardown if e.what == "closing-signal")
    ended = next((at for at in signals if 0 <= at - ended < SECOND), ended)
    return max(ended, since or ended), WaitEnd.BEFORE_EXIT if said.every else WaitEnd.EXIT


def last_issued(facts: Facts, rank: int) -> float:
    """When the rank issued its last recorded call; NaN if unknown."""
    row = facts.progress.last_row.get(rank)
    created = int(facts.case.calls.created_ns[row]) if row is not None else 0
    return created / 1e9 if created > 0 else math.nan


def timed_out_or_ended(facts: Facts, rank: int) -> float:
    """When the rank first complained, else when its process ended; NaN where neither has a time."""
    activity = facts.liveness.activity(rank)
    complained = known_times(map(facts.liveness.time, (*activity.alarms, *activity.secondary_errors)))
    return min(complained) if complained else time_of_exit(facts, activity)


def time_of_exit(facts: Facts, activity: RankActivity) -> float:
    """When its process ended; NaN where no record has a time."""
    return min(known_times(map(facts.liveness.time, activity.exits)), default=math.nan)


def known_times(times: Iterable[float]) -> list[float]:
    """Those that are a time."""
    return [at for at in times if not math.isnan(at)]
