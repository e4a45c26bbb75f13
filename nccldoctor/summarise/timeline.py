"""Draws up the time around the stall: what each rank did, when it gave up, when it ended.

Recorder entries give the calls, log lines the rest; all on the job's one clock (:mod:`nccldoctor.identify.event_times`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np
from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.events import DumpNote, Event, Stack
from nccldoctor.identify.event_times import QUARTER, YEARLESS
from nccldoctor.model import Finding
from nccldoctor.model.figures import Mark, Timeline, TimeRow
from nccldoctor.model.ranks import Ranks

ROWS = 16
"""Ranks with a row of their own."""

CALLS = 8
"""Calls before the stall that are in the picture."""

MARKS = 8
"""Of one row at most."""

MARGIN = 30.0
"""Seconds before the stall that are shown at most where no earlier call was recorded."""

BEFORE_STALL = 60.0
"""Seconds before the stall in which a fault may have begun it."""

FLAGS = 8

LATEST = 1e11
"""Seconds since the epoch that no clock shows: order alone is known beyond."""

LONGEST = 14 * 86400.0
"""Seconds after the stall in which an event still belongs to it."""


class _Frame(Struct, frozen=True):
    """The time in the picture, and when the stall began; guessed from the newest call where that is not known."""

    start: float
    end: float
    stall: float
    is_known: bool = True


def timeline(facts: Facts, findings: tuple[Finding, ...]) -> Timeline | None:
    """The rows to look at; None where nothing that happened has a time."""
    ranks = _ranks_shown(facts, findings)
    frame = _time_frame(facts, findings, ranks)
    if frame is None:
        return None
    rows = [TimeRow(Ranks([rank]), _marks(facts, _events_of(facts, rank), frame)) for rank in ranks]
    blamed = Ranks(r for f in findings for r in (*f.ranks, *f.suspects))
    rows = [row for row in rows if row.marks or row.ranks & blamed]
    events = [e for e in facts.case.events if e.rank is None and e.symbol == "trouble"]
    others = TimeRow(Ranks(), _marks(facts, events, frame))
    if others.marks:
        rows.append(others)
    if not rows:
        return None
    recorded = bool(len(facts.case.calls)) and int(facts.case.calls.created_ns.max()) > 0
    zoned = recorded or any(e.time is not None and e.time.tzinfo is not None for e in facts.case.events)
    shown = Ranks(r for row in rows for r in row.ranks)
    return Timeline(
        tuple(rows),
        frame.start,
        frame.end,
        "UTC" if zoned else "",
        hidden=max(len(facts.case.world - shown), 0),
        began=frame.stall if frame.is_known else None,
        flags=_decisive_moments(facts, findings, frame),
        ahead=_ahead(facts),
    )


def _decisive_moments(facts: Facts, findings: tuple[Finding, ...], frame: _Frame) -> tuple[Mark, ...]:
    """The fault, the first timeout, looks, dumps, steps of a culprit, and exits, in order.

    Of each kind the first, and of faults the first one that the verdict cites. Another fault must have come before the stall: what
    follows it, such as a job that is cancelled, did not begin it.
    """
    cited = {item.where for item in findings[0].evidence if item.where is not None}
    timed = ((facts.liveness.time(e), n, e) for n, e in enumerate(facts.case.events) if e.symbol)
    known = sorted((e.symbol == "trouble" and e.place not in cited, at, n) for at, n, e in timed if not math.isnan(at))
    firsts: dict[str, Mark] = {}
    for is_uncited_fault, at, number in known:
        event = facts.case.events[number]
        kind = f"stack:{event.look}" if isinstance(event, Stack) else _flag_kind(event)
        is_telling = kind != "life" or (event.rank in findings[0].ranks and event.place in cited)
        earliest = frame.stall - (BEFORE_STALL if kind == "trouble" else 0.0)
        latest = frame.stall if is_uncited_fault else frame.end
        if is_telling and earliest <= at <= latest:
            who = f"rank {event.rank}: " if event.rank is not None else f"{event.host}: " if event.host else ""
            firsts.setdefault(kind, Mark(_flag_kind(event), at, f"{who}{event.phrase()}", str(event.place)))
    return tuple(sorted(firsts.values(), key=lambda mark: mark.at)[:FLAGS])


def _flag_kind(event: Event) -> str:
    """The symbol of an event; a dump that a line only asks for, or announces, is a request."""
    is_written = isinstance(event, DumpNote) and event.what in ("written", "by-the-job", "on-request")
    return "dump-request" if event.symbol == "dump" and not is_written else event.symbol


def _ahead(facts: Facts) -> float:
    """Seconds that lines without a zone print more than the job's clock; 0 where none has a time."""
    for event in facts.case.events:
        at = facts.liveness.time(event)
        if event.time is not None and event.time.tzinfo is None and not math.isnan(at):
            years = (datetime.fromtimestamp(at + days * 86_400, UTC).year for days in (-1, 0, 1))
            is_whole = event.time.year > YEARLESS
            clocks = [event.time] if is_whole else [event.time.replace(year=year) for year in years]
            ahead = (clock.replace(tzinfo=UTC).timestamp() - at for clock in clocks)
            return min((round(seconds / QUARTER) * QUARTER for seconds in ahead), key=abs)  # zones differ by no less
    return 0.0


def _ranks_shown(facts: Facts, findings: tuple[Finding, ...]) -> list[int]:
    """The ranks with a row: culprits, suspects, the first to complain, members of the stalled call, then the others."""
    mates = list(findings[0].members)[:ROWS]
    alarm = facts.liveness.first_alarm
    first = [alarm.rank] if alarm is not None and alarm.rank is not None else []
    blamed = [r for f in findings for r in (*f.ranks, *f.suspects)]
    chosen = dict.fromkeys([*blamed[: ROWS // 2], *first, *mates, *list(facts.case.world)[:ROWS]])
    return sorted(list(chosen)[:ROWS])


def _time_frame(facts: Facts, findings: tuple[Finding, ...], ranks: Sequence[int]) -> _Frame | None:
    case, calls = facts.case, facts.case.calls
    stall = _stall_began(facts, findings)
    times = [facts.liveness.time(e) for e in case.events if e.symbol not in ("", "life", "stack")]
    known = [t for t in times if not math.isnan(t)]
    is_known = not math.isnan(stall)
    if not is_known:
        recorded = calls.created_ns[calls.created_ns > 0]
        if not len(recorded) and not known:
            return None
        stall = float(recorded.max()) / 1e9 if len(recorded) else min(known)
    wanted = np.isin(case.call_rank, ranks) & (calls.created_ns > 0) if len(calls) else np.empty(0, dtype=bool)
    before = np.unique(calls.created_ns[wanted])
    before = before[before / 1e9 < stall]
    if len(before):
        start = float(before[-min(len(before), CALLS * max(len(ranks), 1))]) / 1e9
    else:
        start = max(stall - MARGIN, min((t for t in np.asarray(case.seconds).tolist() if t <= stall), default=stall))
    late = [t for t in known if stall <= t <= stall + LONGEST]
    last = float(calls.created_ns[wanted].max()) / 1e9 if wanted.any() else stall
    end = max([*late, last, stall])
    return _Frame(start, max(end, start + 0.001), stall, is_known)


def _stall_began(facts: Facts, findings: tuple[Finding, ...]) -> float:
    """When the stalled call was first issued, else when the first rank began to wait; NaN where neither is known."""
    stalled = findings[0].stalled
    if stalled is not None:
        times = [
            facts.issued_at[key]
            for key, call in facts.wait_graph.calls.items()
            if call.seq == stalled.seq
            and facts.case.groups[call.group].label == stalled.group
            and 0 < facts.issued_at.get(key, 0.0) < LATEST
        ]
        if times:
            return min(times)
    return facts.liveness.began


def _events_of(facts: Facts, rank: int) -> list[Event]:
    signs = facts.liveness.activity(rank)
    raised = (*signs.alarms, *signs.own_exceptions, *signs.secondary_errors, *signs.exits)
    steps = (signs.step_event,) if signs.step_event is not None else ()
    return list(dict.fromkeys((*raised, *signs.dump_replies, *signs.stacks, *signs.phases, *steps)))


def _marks(facts: Facts, events: Iterable[Event], frame: _Frame) -> tuple[Mark, ...]:
    """One symbol for each kind of thing that happened, the first time it did, in order of time."""
    firsts: dict[tuple[str, str], Mark] = {}
    timed = sorted(
        (facts.liveness.time(e), n, e) for n, e in enumerate(events) if not math.isnan(facts.liveness.time(e))
    )
    for at, _, event in timed:
        kind = event.symbol
        if kind and frame.start <= at <= frame.end:
            about = "" if kind in ("timeout", "dump", "exception", "exit") else event.phrase()
            firsts.setdefault((kind, about), Mark(kind, at, event.phrase(), str(event.place)))
    return tuple(firsts.values())[:MARKS]
