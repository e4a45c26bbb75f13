"""Whether a wait is trouble yet.

What the late ranks do, the earlier pauses of the job and the limit of the group tell.
"""

from __future__ import annotations

import math

from nccldoctor.align.facts import Facts
from nccldoctor.align.standing.outside import Standing
from nccldoctor.align.standing.stances import Posture
from nccldoctor.events import CallTimeout, ExceptionRaised, MonitoredBarrier, Setting
from nccldoctor.identify.case import Case
from nccldoctor.parsers.event_details import gloo_limit_ms

DEFAULT_LIMIT_MS = {"nccl": 600_000, "gloo": 1_800_000}
"""Timeouts of a process group that sets none (pytorch, distributed/constants.py)."""

SHARE = 3
"""The part of the limit that work may hold up the others before it is trouble."""


def limit_ms(case: Case, stalled: int | None = None) -> int | None:
    """The shortest limit that a line prints; else that of the ``stalled`` call.

    Without either it is the shortest of the recorded calls, or what a script sets; None where no file tells.
    """
    printed = [e.timeout_ms for e in case.of(CallTimeout)] + [e.timeout_ms for e in case.of(MonitoredBarrier)]
    printed += [gloo_limit_ms(e) for e in case.of(ExceptionRaised)]
    recorded = case.calls.timeout_ms[case.calls.timeout_ms > 0]
    written = [e.value.removesuffix(" s") for e in case.of(Setting) if e.name.endswith("(timeout=)")]
    for known in (
        [ms for ms in printed if ms],
        [stalled] if stalled else [],
        [int(recorded.min())] if len(recorded) else [],
        [round(float(value) * 1000) for value in written if value.replace(".", "", 1).isdecimal()],
    ):
        if known and min(known) > 0:
            return min(known)
    return None


def has_waited_long(facts: Facts) -> bool:
    """True where the looks, or the lines before them, show a wait longer than work may take. Without times they show none."""
    lines = [own.printed for own in facts.liveness.by_rank.values() if not math.isnan(own.printed)]
    steps = [at for at, _ in facts.looks.steps if not math.isnan(at)]
    limit = (limit_ms(facts.case) or min(DEFAULT_LIMIT_MS.values())) / 1000
    waits = (facts.looks.last_at - at for at in (facts.looks.first_at, max(steps or lines, default=math.nan)))
    return any(wait > limit / SHARE for wait in waits)


def is_on_its_way(facts: Facts, standing: Standing) -> bool:
    """True where ranks outside the call of their peers hold them up no longer than work may.

    They were seen at work, which has a name or no stack shows it, or the job has made no step yet. Two looks have to show what each does.
    """
    seen = [facts.looks.did(s.process) for s in standing.outside]
    if not (standing.waiting and seen) or None in seen or any(s.posture.is_gone for s in standing.outside):
        return False
    idle = 4 * max((did.threads for s in standing.waiting if (did := facts.looks.did(s.process))), default=0)
    works = all(d is not None and (d.is_progress or (2 * d.threads >= d.ms and d.threads > idle)) for d in seen)
    moving = [d is not None and d.manner == "moves data" for d in seen]
    starts = not facts.looks.steps and (works or all(s.posture is Posture.SET_UP for s in standing.waiting))
    is_usual = (
        facts.looks.is_quiet is False
        or starts
        or (works and all(s.words or not s.path or moves for s, moves in zip(standing.outside, moving, strict=True)))
    )
    return is_usual and not has_waited_long(facts)
