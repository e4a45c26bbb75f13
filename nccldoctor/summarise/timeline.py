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
from nccldoctor.events import CallTimeout, DumpNote, Event, Stack
from nccldoctor.identify.event_times import QUARTER, YEARLESS
from nccldoctor.model import Family, Finding
from nccldoctor.model.figures import Mark, Stretch, Timeline, TimeRow
from nccldoctor.model.ranks import Ranks

ROWS = 16
"""Ranks with a row of their own."""

CALLS = 8
"""Calls before the stall that are in the picture."""

STRETCHES, MARKS = 48, 8
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
    rows = [_rank_row(facts, findings, rank, frame) for rank in ranks]
    blamed = Ranks(r for f in findings for r in (*f.ranks, *f.suspects))
    rows = [row for row in rows if row.stretches or row.marks or row.ranks & blamed]
    events = [e for e in facts.case.events if e.rank is None and e.symbol == "trouble"]
    others = TimeRow(Ranks(), (), _marks(facts, events, frame))
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
            firsts.setdefault(kind, Mark(_flag_kind(event), at, _flag_text(event), str(event.place)))
    return tuple(sorted(firsts.values(), key=lambda mark: mark.at)[:FLAGS])


def _flag_kind(event: Event) -> str:
    """The symbol of an event; a dump that a line only asks for, or announces, is a request."""
    is_written = isinstance(event, DumpNote) and event.what in ("written", "by-the-job", "on-request")
    return "dump-request" if event.symbol == "dump" and not is_written else event.symbol


def _flag_text(event: Event) -> str:
    """What happened, and to which rank or host."""
    who = f"rank {event.rank}" if event.rank is not None else event.host or ""
    return f"{who}: {event.phrase()}" if who else event.phrase()


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


def _rank_row(facts: Facts, findings: tuple[Finding, ...], rank: int, frame: _Frame) -> TimeRow:
    marks = _marks(facts, _events_of(facts, rank), frame)
    return TimeRow(Ranks([rank]), tuple(_stretches(facts, findings, rank, frame, marks))[-STRETCHES:], marks)


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


def _stretches(
    facts: Facts, findings: tuple[Finding, ...], rank: int, frame: _Frame, marks: Sequence[Mark]
) -> list[Stretch]:
    calls = facts.case.calls
    rows = facts.sequences.rows(rank)
    rows = rows[(calls.created_ns[rows] / 1e9 >= frame.start) & (calls.created_ns[rows] > 0)]
    out: list[Stretch] = []
    for row in rows.tolist():
        begin = float(calls.created_ns[row]) / 1e9
        finish = float(calls.completed_ns[row]) / 1e9
        if facts.progress.completed[row] and finish > begin and finish <= frame.end:
            out.append(Stretch("call", begin, finish))
    stop = _known_until(facts, rank, frame, marks)
    waiting = _waiting_since(facts, rank, frame)
    if waiting is not None and waiting < stop:
        out = [s for s in out if s.start < waiting]
        out.append(Stretch("waiting", waiting, stop))
        return [Stretch("work", frame.start, waiting), *out] if len(rows) else out
    if not len(rows) and not marks:
        return []
    absent = any(rank in f.ranks and f.family in (Family.ABSENT, Family.DISAGREE, Family.SLOW) for f in findings)
    last = max([float(calls.created_ns[r]) / 1e9 for r in rows.tolist()], default=frame.start)
    step = facts.liveness.activity(rank).step_event
    at = facts.liveness.time(step) if step is not None else math.nan
    last = max([last, *(s.end for s in out), *([at] if at <= frame.stall else [])])
    if absent and stop > max(last, frame.start):
        work = [Stretch("work", frame.start, last)] if last > frame.start else []
        return [*work, *out, Stretch("outside", last, stop)]
    return [Stretch("work", frame.start, stop), *out] if len(rows) else out


def _known_until(facts: Facts, rank: int, frame: _Frame, marks: Sequence[Mark]) -> float:
    """Returns the time until which a rank's state is known.

    Its first timeout, its exit, else its last line, or the end of the picture.
    """
    ended = [m.at for m in marks if m.kind == "exit"]
    gave_up = [m.at for m in marks if m.kind in ("timeout", "exception")]
    signs = facts.liveness.activity(rank)
    if gave_up:
        return min(gave_up)
    if ended:
        return min(ended)
    return min(signs.last, frame.end) if not math.isnan(signs.last) and signs.last > frame.stall else frame.end


def _waiting_since(facts: Facts, rank: int, frame: _Frame) -> float | None:
    """When the rank issued the call that it waits in."""
    for key in facts.wait_graph.waits_in.get(rank, ()):
        front = facts.progress.by_group_rank.get((key[1], rank))
        created = int(facts.case.calls.created_ns[front.row]) if front is not None and front.row >= 0 else 0
        if key[0] == "collective" and created > 0:
            return max(created / 1e9, frame.start)
    for event in facts.liveness.activity(rank).alarms:
        if isinstance(event, CallTimeout) and event.ran_ms is not None:
            at = facts.liveness.time(event) - event.ran_ms / 1e3
            if not math.isnan(at):
                return max(at, frame.start)
    return None
