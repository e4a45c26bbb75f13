"""Whether a job still moved when its dumps were written: then its unfinished calls were merely in flight."""

from __future__ import annotations

import math

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.diagnose.signs.log_endings import ended_well
from nccldoctor.events import DumpNote, Heartbeat, Progress
from nccldoctor.identify.clocks import QUARTER
from nccldoctor.model.ranks import Ranks

MARGIN = 1.0
"""Seconds behind a call from which on a line of a rank in it shows that the call came to an end."""


def has_only_gloo_dumps(facts: Facts) -> bool:
    """Whether all dumps are of gloo."""
    return bool(facts.case.dumps) and all(d.backend == "gloo" for d in facts.case.dumps)


def is_scattered(facts: Facts) -> bool:
    """Whether the waiting ends in several places without common members, nobody complains, and every rank at such an end left a dump:
    each would need a cause of its own, and a network that all of them share is none of gloo's.
    """
    told = all(
        s.kind is StallKind.FULL or (s.kind is StallKind.ABSENT and s.proven_absent == s.ranks) for s in facts.stalls
    )
    quiet = facts.liveness.first_alarm is None and not facts.failures
    return has_only_gloo_dumps(facts) and quiet and told and len(_parts(facts)) > 1


def _parts(facts: Facts) -> list[Ranks]:
    """The members of the calls in which the waiting ends, those together that have any in common."""
    members = {g.index: g.members for g in facts.case.groups}
    parts: list[Ranks] = []
    for stall in facts.stalls:
        whole = Ranks(r for c in stall.calls for r in members[c.group])
        whole = Ranks(r for part in (whole, *(p for p in parts if p & whole)) for r in part)
        parts = [p for p in parts if not p & whole] + [whole]
    return parts


def went_on(facts: Facts) -> bool:
    """Whether lines show that the job went on behind the calls that the dumps show unfinished, or came to its end."""
    lines: list[Heartbeat | Progress] = [*facts.case.of(Heartbeat), *facts.case.of(Progress)]
    bars = [e for e in facts.case.of(Progress) if e.total]
    done = bool(bars) and (bars[-1].step or 0) >= (bars[-1].total or 0)
    return done or ended_well(facts) or any(_behind(facts, e) or _behind_dump(facts, e) for e in lines)


def still_open(facts: Facts, stall: Stall) -> bool:
    """Whether a dump holds a call of the stall as unfinished; on gloo it may be concluded from others that a call failed."""
    rows = [
        f.row
        for c in stall.calls
        for r in c.inside
        if (f := facts.progress.by_group_rank.get((c.group, r))) is not None
    ]
    return any(row < 0 or not facts.case.calls.retired[row] for row in rows) or any(c.pair for c in stall.calls)


def _behind_dump(facts: Facts, line: Heartbeat | Progress) -> bool:
    """Whether a rank wrote of a step behind its line about a dump."""
    notes = facts.case.of(DumpNote) if line.rank is None else facts.case.of(DumpNote, line.rank)
    return any(n.place.source == line.place.source and (n.place.line or 0) < (line.place.line or 0) for n in notes)


def _behind(facts: Facts, line: Heartbeat | Progress) -> bool:
    """Whether a line about a step was written by a rank inside a stuck call after that was issued.

    The zone of a quiet log is not known: times are compared within a quarter of an hour.
    """
    now = facts.liveness.time(line)
    issued = [
        facts.issued_at[key]
        for key, call in facts.wait_graph.calls.items()
        if call.row >= 0 and (line.rank is None or line.rank in call.inside)
    ]
    return bool(issued) and not math.isnan(now) and MARGIN < (now - max(issued)) % QUARTER < QUARTER / 2
