"""A rank is late but alive; the job went on, or the limit is shorter than the work.

How we know: its own record of the call is later than its peers' by as much as the limit; or its lines go on with its work after
the first complaint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from nccldoctor.align.descriptions import describe
from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.divergence.step_counters import ENDS
from nccldoctor.align.exits import SLACK
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.tracks import Bounds
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Entry, Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import are_only_ones_left
from nccldoctor.events import CollectiveTimeout, DumpSignal, Event, ExceptionRaised, Heartbeat, Phase, Progress
from nccldoctor.identify.event_times import QUARTER
from nccldoctor.model import CauseClass, Doubt, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import elapsed_seconds
from nccldoctor.words.names import op_name

LIMITS = (600, 1800)
"""Seconds that PyTorch lets ranks wait for each other by default: collectives since 2.2 and before."""

FREED = 10.0
"""Seconds after a timeout in which the end of the peers may have freed a rank: of a lock, or of a wait for one of them."""

LOOKED_AT = 8
"""Waiting ranks whose lines are compared with those of an absent one."""

_WRONG = 60.0
"""Seconds by which a clock that nothing compared may be wrong; zones differ by quarters of an hour."""

_PREPARES = ("Map", "Filter", "Tokeniz", "Running tokenizer", "Packing", "Generating", "Grouping", "Scanning")


@rule(CauseClass.STRAGGLER, refuted_by=say("refuted.never-arrived"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that ranks straggle: they came late, or were still working when the others gave up."""
    if stall.kind is StallKind.FULL and stall.call is not None:
        return _late_entry(facts, stall.call)
    if stall.kind is StallKind.ABSENT:
        return _work_went_on(facts, stall)
    return _progress_bar_went_on(facts) or _still_preparing_data(facts)


def _late_entry(facts: Facts, call: StuckCall) -> Hypothesis | None:
    """Concludes that a member entered the call too late.

    That is after its first member had timed out, or later than most members by half of the limit. A timer that did not fire tells the
    earliest moment only: then the member is late where it came after its peers, and may have come after the timeout.
    """
    entries, limit = facts.tracks.entries(call), facts.tracks.limit(call)
    times = {rank: entry for rank, entry in entries.items() if math.isfinite(entry.earliest)}
    came = sorted(entry.latest for entry in times.values())
    if len(times) < 2 or not limit > 0:
        return None
    deadline, usual, is_pair = came[0] + limit, float(np.median(came)), len(times) == 2
    late = Ranks(r for r, entry in times.items() if _is_late(entry, came[0] if is_pair else usual, deadline, is_pair))
    if not late or (len(late) * 2 >= len(times) and not is_pair) or len(late) > len(_on_time(facts, times, deadline)):
        return None
    since = came[0] if is_pair else usual
    evidence: list[Citation] = [*_came_late(facts, call, late, since)]
    evidence += [Waiting(replace(call, inside=call.inside - late), 2)]
    return Hypothesis(
        headline_of(
            "slow.reached-late",
            who=who(facts.case, late),
            call=describe(facts, call),
            late=max(times[r].earliest for r in late) - since,
            at_least=any(times[r].known_by == "silent timer" for r in late),
            limit=limit,
        ),
        evidence,
        list(_doubts_of_entry(facts, times, late, deadline)),
        ranks=late,
        call=call,
    )


def _is_late(entry: Bounds, usual: float, deadline: float, is_pair: bool) -> bool:
    """True of an entry after the first member's timeout, or of one that kept the others waiting too long."""
    if entry.known_by == "silent timer":
        return entry.latest > deadline and entry.earliest > usual + SLACK
    return entry.earliest > deadline or (not is_pair and entry.earliest - usual > (deadline - usual) / 2)


def _came_late(facts: Facts, call: StuckCall, late: Ranks, since: float) -> Iterator[Citation]:
    """The record of each late entry, or the line at which its timer had not run out."""
    rows = rows_at(facts.case, facts.progress, call.group, call.seq)
    for rank in list(late)[:3]:
        entry = facts.tracks.entries(call)[rank]
        if entry.known_by == "recorder":
            yield Entry(rows[rank], say("slow.came-late", rank=rank, late=entry.earliest - since))
            continue
        shown = next((span for span in facts.tracks.track(rank).spans if span.key == call.key), None)
        if shown is not None and shown.event is not None:
            is_silent = entry.known_by == "silent timer"
            says = "slow.timer-silent" if is_silent else "slow.came-late"
            yield Line(shown.event, say(says, rank=rank, late=entry.earliest - since))


def _on_time(facts: Facts, entries: Mapping[int, Bounds], deadline: float) -> Ranks:
    """The ranks that had made their newest call by the deadline: the one on record, else the stuck one."""
    ranks, created = facts.case.call_rank, facts.case.calls.created_ns / 1e9
    known = created > 0
    recorded = Ranks({*ranks[known].tolist()} - {*ranks[known & (created > deadline)].tolist()})
    return recorded or Ranks(rank for rank, entry in entries.items() if entry.latest <= deadline)


def _doubts_of_entry(facts: Facts, entries: Mapping[int, Bounds], late: Ranks, deadline: float) -> Iterator[Doubt]:
    """Doubts where the timeout itself may have freed the late ranks, or as many ranks were early as late."""
    if 0 < min(entries[r].earliest for r in late) - deadline <= FREED:
        yield doubt_of("freed-by-timeout")
    if len(late) == len(_on_time(facts, entries, deadline)):
        yield doubt_of("as-many-early")
    if any(entries[r].known_by == "silent timer" for r in late):
        yield doubt_of("may-have-failed-otherwise")


def _work_went_on(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that an absent rank was still working when the first complaint came.

    Its lines show that its work finished, or went on, afterwards; or that it took longer than the limit. Where those who wait in the call
    went on as well, the lines are of another run, or by another clock.
    """
    limit = (stall.details.timeout_ms or 0) / 1e3 if stall.details is not None else 0.0
    done = {rank: event for rank in stall.named if (event := _late_work(facts, rank, limit)) is not None}
    if not done and len(stall.named) == 1:
        unsigned = [p for p in facts.case.of(Phase) if p.rank is None and p.seconds is not None]
        done = dict(zip(stall.named, [p for p in unsigned if _is_late_end(facts, p, limit)][-1:], strict=False))
    waiting = Ranks(rank for rank, one in facts.liveness.by_rank.items() if one.alarms)
    waiting |= stall.call.inside if stall.call is not None else Ranks()
    if not done or sum(_late_work(facts, rank, math.inf) is not None for rank in list(waiting)[:LOOKED_AT]) > 1:
        return None
    evidence: list[Citation] = [
        Line(e, _says(rank, e, limit), observer=f"rank:{rank}" if e.rank is None else "") for rank, e in done.items()
    ]
    ranks = Ranks(done)
    kinds = {e.work if isinstance(e, Phase) else "" for e in done.values()}
    work = kinds.pop() if len(kinds) == 1 else ""
    doubts = []
    for rank, line in done.items():
        after = facts.liveness.time(line) - facts.liveness.alarm
        if line.rank is None:
            doubts.append(doubt_of("line-without-rank", left=are_only_ones_left(facts, ranks)))
        if _is_longer(line, limit):
            continue
        if math.isnan(facts.liveness.time(line)):
            doubts.append(doubt_of("line-without-time"))
        if after > 0 and math.isnan(_alarm_by_clock_of(facts, rank)):
            is_far = _WRONG < after < QUARTER - _WRONG
            doubts.append(doubt_of("clocks-unknown", far=is_far))
    return Hypothesis(
        headline_of("slow.still-working", who=who(facts.case, ranks), ranks=ranks, call=stall.what, doing=work),
        [*evidence, Waiting(stall.call)],
        doubts,
        ranks=ranks,
        call=stall.call,
    )


def _late_work(facts: Facts, rank: int, limit: float) -> Event | None:
    """The line of a rank about work or a step that ended after the others had given up."""
    activity = facts.liveness.activity(rank)
    ended = [p for p in activity.phases if _is_late_end(facts, p, limit)]
    moved = [e for e in facts.case.events.of_kind(Heartbeat, Progress) if e.rank == rank]
    moved = [e for e in moved if facts.liveness.time(e) > facts.liveness.alarm and _is_surely_later(facts, e)]
    return (*ended[-1:], *moved[-1:], None)[0]


def _is_surely_later(facts: Facts, event: Event) -> bool:
    """True unless the clocks of two hosts alone may put a line behind the first complaint.

    Where its rank answers the signal of a peer's timeout further below, and far later than the others gave up, its clock is ahead.
    """
    when, alarm = facts.liveness.time(event), _alarm_by_clock_of(facts, event.rank)
    signals = (e for e in facts.case.of(DumpSignal, event.rank) if e.from_rank not in (None, e.rank))
    if any(e.place.is_below(event.place) and facts.liveness.time(e) > facts.liveness.alarm + FREED for e in signals):
        return False
    return not when < (facts.liveness.alarm + FREED if math.isnan(alarm) else alarm)


def _alarm_by_clock_of(facts: Facts, rank: int | None) -> float:
    """The first complaint by a clock that goes with that of a rank; NaN where there is none."""
    alarms = (e for own in facts.liveness.by_rank.values() for e in own.alarms if facts.case.has_clock_of(rank, e.rank))
    return min((at for e in alarms if not math.isnan(at := facts.liveness.time(e))), default=math.nan)


def _is_late_end(facts: Facts, phase: Phase, limit: float) -> bool:
    """True of work that ended after the first complaint, or took longer than the limit."""
    is_later = facts.liveness.is_after_alarm(phase) and _is_surely_later(facts, phase)
    return phase.is_over and (is_later or _is_longer(phase, limit))


def _is_longer(event: Event, limit: float) -> bool:
    """True of work that took longer than the limit; an epoch may, since it is full of calls."""
    return isinstance(event, Phase) and event.what not in ENDS and 0 < limit <= (event.seconds or 0.0)


def _progress_bar_went_on(facts: Facts) -> Hypothesis | None:
    """Concludes that rank 0 straggles when a progress bar advances after all other ranks gave up.

    Bars are drawn by rank 0, and only rank 0 did not give up. For lines without sequence numbers (before PyTorch 1.12),
    of which no graph can be made.
    """
    gave_up = [e for e in facts.case.of(CollectiveTimeout) if e.rank is not None]
    waiting = Ranks(e.rank for e in gave_up if e.rank is not None)
    if not waiting or waiting != Ranks(range(1, len(waiting) + 1)) or len({e.op for e in gave_up}) > 1:
        return None
    if facts.case.world_size not in (None, len(waiting) + 1) or 0 in facts.progress.recorded_ranks:
        return None
    first = min(gave_up, key=lambda e: (e.place.source, e.place.line or 0))
    for bar in facts.case.of(Progress):
        before = [
            e for e in facts.case.of(Progress)
            if e.place.source == bar.place.source == first.place.source and e.label == bar.label and e.total == bar.total
            and (e.place.line or 0) <= (first.place.line or 0)
        ]  # fmt: skip
        later = (bar.place.line or 0) > (first.place.line or 0) and bar.rank in (None, 0) and bar.step is not None
        if later and before and (bar.step or 0) > max(e.step or 0 for e in before):
            return Hypothesis(
                headline_of("slow.bar-moved", waiting=waiting, call=op_name(first.op)),
                (
                    Line(bar, say("slow.bar-after"), observer="rank:0"),
                    *(Line(e, say("slow.timed-out-before", rank=e.rank)) for e in gave_up[:3]),
                ),
                (doubt_of("bar-may-mislead", many=len(waiting) > 1),),
                ranks=Ranks([0]),
                stalled=Stalled(
                    op=first.op, seq=None, entered=waiting, missing=Ranks([0]), timeout_ms=first.timeout_ms
                ),
            )
    return None


def _says(rank: int, event: Event, limit: float) -> str:
    if not isinstance(event, Phase):
        return say("slow.made-progress", rank=rank)
    if _is_longer(event, limit) and event.seconds is not None:
        return say("slow.work-took", rank=rank, took=event.seconds, limit=limit)
    return say("slow.work-finished", rank=rank)


def _still_preparing_data(facts: Facts) -> Hypothesis | None:
    """Concludes that one process still prepares data when another raises after just a default limit.

    The progress bar of the first is unfinished. The error of the other is cut off, and most likely says that it waited
    for the first.
    """
    cut = [e for e in facts.case.of(ExceptionRaised) if not e.type and not e.logged]
    if not cut or facts.liveness.first_alarm is not None or facts.failures:
        return None
    preparing = (e for e in facts.case.of(Progress) if (e.label or "").startswith(_PREPARES))
    bars = [e for e in preparing if e.step is not None and e.total is not None and e.step < e.total]
    for bar in bars[-1:]:
        spent = elapsed_seconds(bar.text)
        limit = next((n for n in LIMITS if abs(spent - n) <= n // 50), None)
        if limit is not None:
            return Hypothesis(
                headline_of("slow.still-preparing", label=bar.label, minutes=limit // 60),
                (Line(bar, say("slow.data-unfinished")), *(Line(e, say("slow.cut-error")) for e in cut[:2])),
                (doubt_of("guessed-wait"),),
                refuted_by=say("refuted.end-of-error"),
            )
    return None
