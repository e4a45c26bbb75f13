"""Nothing is wrong in what was read.

What it means: no rank complained, failed or waits for anybody in a way that a running job would not.
How we know: no alarm, no failure and no bad exit in any line, and no call that somebody is missing from.
What would refute it: a file of this job that was not read.
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import uneven_communicators
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Citation, Entry, Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.log_endings import find_broken_end, is_over
from nccldoctor.diagnose.signs.silence import has_dumped_while_stalled
from nccldoctor.diagnose.signs.still_running import has_only_gloo_dumps
from nccldoctor.diagnose.signs.where_ranks_stand import has_waits
from nccldoctor.events import ProcessExit, RasStatus, Stack, Version
from nccldoctor.model import CauseClass, Confidence, Gap

CAUSE = CauseClass.NONE

NAMED = 2
"""Files named in the headline where something of them is lost."""


@rule(CAUSE, refuted_by="a file of this job that was not read")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Nobody waits, complains or fails; a quiet log with calls in flight counts as well."""
    passed = stall.kind is StallKind.FULL and stall.call is not None and bool(stall.call.completed)
    passed = passed and not facts.wait_graph.roots
    in_flight = passed or stall.is_scattered
    if not (stall.kind is StallKind.NOTHING or in_flight) or facts.liveness.first_alarm is not None or facts.failures:
        return None
    if (
        any(e.exitcode not in (0, None) for e in facts.case.of(ProcessExit))
        or has_dumped_while_stalled(facts)
        or _has_ras_error(facts)
        or has_waits(facts)
    ):
        return None
    evidence = _newest_records(facts)
    if not evidence or find_broken_end(facts)[0]:
        return None
    case = facts.case
    world = case.world
    seen = facts.liveness.logged | facts.liveness.dumped
    whole = case.world_size is not None and frozenset(world) <= frozenset(seen)
    idle = all(c.completed and not c.missing | c.unknown for c in facts.wait_graph.calls.values())
    done = is_over(facts)
    ended = bool(facts.liveness.logged) and (done or (frozenset(world) <= facts.liveness.dumped and idle))
    # Lines that just stop are those of a job that stands as well; gloo records no sends, and counts failed calls as done.
    is_recorded = (done or bool(facts.liveness.dumped)) if facts.liveness.logged else not has_only_gloo_dumps(facts)
    ceiling = Confidence.HIGH if whole and ended else Confidence.MEDIUM if whole and is_recorded else Confidence.LOW
    head = (
        "Some calls were in flight when the dumps were written, as in any running job; nobody complains"
        if in_flight
        else "No stall and no failure in what was read"
    )
    lost = [gap for gap in case.gaps if gap.lost]
    return Hypothesis(
        f"{head}; not everything could be read: {_lost_files(lost)}" if lost else head,
        evidence,
        Confidence.LOW if (in_flight and not facts.liveness.logged) or lost else ceiling,
        refuted_by=f"what is lost of {_lost_files(lost)}" if lost else "",
    )


def _has_ras_error(facts: Facts) -> bool:
    """True when RAS reports a process without an answer, an error, or uneven counts without their ranks."""
    unclear = uneven_communicators(facts, {one.comm for one in facts.case.nccl_counters})
    return any(unclear) or any(
        e.what in ("DEAD", "ERROR") or (e.what == "INCOMPLETE" and e.missing) for e in facts.case.of(RasStatus)
    )


def _lost_files(lost: list[Gap]) -> str:
    """Names the files of which a part is lost, with the reason.

    They matter because trouble shows at the end of a log, which is the part that a cut takes.
    """
    reasons = {gap.what: gap.why.split(":")[0].split(" (")[0] for gap in lost}
    named = [f"{what} ({why})" for what, why in reasons.items()][:NAMED]
    return ", ".join(named) + (f" and {len(reasons) - NAMED} more" if len(reasons) > NAMED else "")


def _newest_records(facts: Facts) -> list[Citation]:
    """The last line and the newest call of some ranks."""
    out: list[Citation] = []
    for rank in facts.case.world:
        signs = facts.liveness.activity(rank)
        row = facts.progress.last_row.get(rank)
        if signs.last_event is not None and not isinstance(signs.last_event, Stack):
            out.append(Line(signs.last_event, f"the last line of rank {rank}: no complaint"))
        if row is not None:
            out.append(Entry(row, f"the newest call of rank {rank}"))
        if len(out) >= 6:
            return out
    said = [e for e in facts.case.events if not isinstance(e, Stack | Version)]  # stacks are taken of what stands still
    if not out and said:
        out.append(Line(said[-1], "the last line that was understood: no complaint"))
    return out
