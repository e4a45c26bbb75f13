"""Tells calls that were merely in flight when a dump was written.

A rank in them went on afterwards, or the job ended well. The zone of a log without complaints is not known, so that only the last line
of each rank counts, and its time within a quarter of an hour. Example: rank 3 issued ALLREDUCE #18 at 10:00:07 UTC and reports its last
step at 12:00:31: it left that call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from nccldoctor.align.facts import Facts
from nccldoctor.align.health.good_ends import TELLING, good_ends, is_end, is_step
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.events import DumpNote, Event
from nccldoctor.identify.event_times import QUARTER

MARGIN = 1.0
"""Seconds behind a call from which on a line of a rank in it shows that the call came to an end."""

WHOLE = 2.0
"""Seconds by which the end of the job may seem to come before its last call: logs print whole seconds."""


def unpassed_stalls(facts: Facts) -> tuple[Stall, ...]:
    """The stalls of which some call is not seen to come to an end."""
    if not facts.stalls:
        return ()
    last = [*_last_work(facts)]
    noted: dict[tuple[int | None, int], int] = {}
    since_dump = set[int | None]()  # with a line of work below their own line about a dump; None: without a rank
    events = facts.case.events
    for event in events.of_kind(DumpNote, *TELLING) if events.of_kind(DumpNote) else ():
        key = (event.rank, event.place.source)
        if isinstance(event, DumpNote):
            noted.setdefault(key, event.place.line or 0)
        elif key in noted and (is_step(event) or is_end(event)) and (event.place.line or 0) > noted[key]:
            since_dump.add(event.rank)

    def is_over(call: StuckCall) -> bool:
        return bool(since_dump & ({None} | {*call.inside})) or any(_was_after(facts, call, line) for line in last)

    return tuple(s for s in facts.stalls if not s.calls or not all(map(is_over, s.calls)))


def has_gone_on(facts: Facts) -> bool:
    """True when lines show that the job went on after the calls that dumps show unfinished, or ended well."""
    is_seen = bool(facts.stalls) or bool(good_ends(facts.case, facts.liveness))
    return is_seen and not unpassed_stalls(facts)


def has_passed_looks(facts: Facts) -> bool:
    """True when steps follow all calls that dumps show unfinished, and no time says that the stacks are any newer."""
    return bool(facts.stalls) and not facts.looks.quiet_for > 0 and not unpassed_stalls(facts)


def _last_work(facts: Facts) -> Iterator[Event]:
    """The good ends, and the last line of work of each rank by time; writers without one count as one."""
    yield from good_ends(facts.case, facts.liveness)
    last: dict[int | None, Event] = {}
    for event in filter(is_step, facts.case.events.of_kind(*TELLING)):
        when = facts.liveness.time(event)
        if not math.isnan(when):
            newest = last.get(event.rank)
            if newest is None or when >= facts.liveness.time(newest):
                last[event.rank] = event
    yield from last.values()


def _was_after(facts: Facts, call: StuckCall, line: Event) -> bool:
    """True when a line shows that a call ended.

    It is a step of a rank inside, or the end of a rank that the call does not wait for. The end of a rank that it may wait for counts
    where all ranks inside are as far by their steps.
    """
    aside = line.rank is None or (is_end(line) and line.rank not in call.blockers)
    if not aside and is_end(line) and line.rank in call.unknown:
        step = facts.liveness.activity(line.rank or 0).step
        aside = all(facts.liveness.activity(rank).has_reached(step) for rank in call.inside)
    if call.row < 0 or not (aside or line.rank in call.inside):
        return False
    behind = facts.liveness.time(line) - facts.issued_at.get(call.key, math.nan)
    if is_end(line):
        return not (behind + WHOLE) % QUARTER > QUARTER / 2  # an end without a time counts
    return MARGIN < behind % QUARTER < QUARTER / 2
