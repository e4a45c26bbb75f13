"""Signs that a job still moved when its dumps were written: its unfinished calls were merely in flight."""

from __future__ import annotations

import math

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.diagnose.signs.log_endings import has_clean_end
from nccldoctor.events import DumpNote, Heartbeat, Progress
from nccldoctor.identify.event_times import QUARTER
from nccldoctor.model.ranks import Ranks

MARGIN = 1.0
"""Seconds behind a call from which on a line of a rank in it shows that the call came to an end."""


def has_only_gloo_dumps(facts: Facts) -> bool:
    """True when all dumps are of gloo."""
    return bool(facts.case.dumps) and all(d.backend == "gloo" for d in facts.case.dumps)


def is_scattered(facts: Facts) -> bool:
    """True when the waiting ends in several places without common members, nobody complains, and all ranks there left dumps.

    Example: one pair of 8 ranks waits in a call of its own and another pair in a third one: each would need a cause of its own. Only for
    gloo, because a network that all of them share may stop several NCCL calls at once.
    """
    is_proven = all(
        s.kind is StallKind.FULL or (s.kind is StallKind.ABSENT and s.proven_absent == s.ranks) for s in facts.stalls
    )
    quiet = facts.liveness.first_alarm is None and not facts.failures
    return has_only_gloo_dumps(facts) and quiet and is_proven and len(_separate_parts(facts)) > 1


def _separate_parts(facts: Facts) -> list[Ranks]:
    """The members of the calls in which the waiting ends; calls with a common member are one part."""
    members = {g.index: g.members for g in facts.case.groups}
    parts: list[Ranks] = []
    for stall in facts.stalls:
        whole = Ranks(r for c in stall.calls for r in members[c.group])
        whole = Ranks(r for part in (whole, *(p for p in parts if p & whole)) for r in part)
        parts = [p for p in parts if not p & whole] + [whole]
    return parts


def has_gone_on(facts: Facts) -> bool:
    """True when lines show that the job went on after the calls shown unfinished, or ended.

    Dumps show these calls unfinished; lines report later steps.
    """
    lines: list[Heartbeat | Progress] = [*facts.case.of(Heartbeat), *facts.case.of(Progress)]
    bars = [e for e in facts.case.of(Progress) if e.total]
    done = bool(bars) and (bars[-1].step or 0) >= (bars[-1].total or 0)
    return done or has_clean_end(facts) or any(_was_after_issue(facts, e) or _was_after_dump(facts, e) for e in lines)


def has_open_call(facts: Facts, stall: Stall) -> bool:
    """True when a dump holds a call of the stall as unfinished.

    On gloo a failed call is only inferred from others.
    """
    rows = [
        f.row
        for c in stall.calls
        for r in c.inside
        if (f := facts.progress.by_group_rank.get((c.group, r))) is not None
    ]
    return any(row < 0 or not facts.case.calls.retired[row] for row in rows) or any(c.pair for c in stall.calls)


def _was_after_dump(facts: Facts, line: Heartbeat | Progress) -> bool:
    """True when a rank reported a step after its line about a dump."""
    notes = facts.case.of(DumpNote) if line.rank is None else facts.case.of(DumpNote, line.rank)
    return any(n.place.source == line.place.source and (n.place.line or 0) < (line.place.line or 0) for n in notes)


def _was_after_issue(facts: Facts, line: Heartbeat | Progress) -> bool:
    """True when a rank inside a stuck call reported a step after that call was issued.

    The zone of a log without complaints is not known: times are compared within a quarter of an hour.
    """
    now = facts.liveness.time(line)
    issued = [
        facts.issued_at[key]
        for key, call in facts.wait_graph.calls.items()
        if call.row >= 0 and (line.rank is None or line.rank in call.inside)
    ]
    return bool(issued) and not math.isnan(now) and MARGIN < (now - max(issued)) % QUARTER < QUARTER / 2
