"""A rank is alive and never issued the call that the others wait in.

What it means: it is busy or blocked elsewhere: data, a checkpoint, evaluation, a lock, another phase.
How we know: its dump or its counters stop before the call, or it is the only member not in it; and it shows life after the stall
began: a dump, an answer to the dump signal, a line, a stack, death by the closing SIGTERM.
What would refute it: a record of the call on that rank, or an earlier end of it.
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import counters_of
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Citation, Line, Waiting, is_cited
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import (
    one_host,
    outside_by_stack,
    waits_by_stack,
)
from nccldoctor.diagnose.signs.silence import draft, shows_life
from nccldoctor.diagnose.signs.still_running import on_gloo
from nccldoctor.events import DesyncReport, DumpSignal, FrAnalysis, MonitoredBarrier
from nccldoctor.model import CauseClass, Confidence, Stalled
from nccldoctor.model.ranks import Ranks, names


def may_wait_unseen(facts: Facts, ranks: Ranks) -> bool:
    """Whether nothing but dumps of gloo speaks of them: those note no sends and receives, so that they may wait in one."""
    seen = any(facts.liveness.activity(r).stacks or facts.liveness.activity(r).logged for r in ranks)
    return on_gloo(facts) and not seen


def in_doubtful_company(facts: Facts, ranks: Ranks) -> bool:
    """Whether the last call of one of them was in a group that a rank without a dump belongs to, or may belong to: it may have failed
    because that one was gone, and counts as done.
    """
    silent = facts.case.world - facts.liveness.dumped
    for rank in ranks:
        row = facts.progress.last_row.get(rank)
        group = facts.case.groups[facts.case.call_group[row]] if row is not None else None
        if group is None or group.desc == "default_pg":
            continue
        sisters = [g.members for g in facts.case.groups if g.desc == group.desc]
        unplaced = silent - (r for members in sisters for r in members)
        if silent & group.members or (group.learned == "entries" and unplaced):
            return True
    return False


def split_evenly(facts: Facts, stall: ObservedStall, ranks: Ranks) -> bool:
    """Whether as many members are outside the call as in it, and both may be where they should not: no majority tells."""
    group = facts.case.groups[stall.call.group].members if stall.call is not None else Ranks()
    return len(group) > 2 and 2 * len(ranks) >= len(group)


CAUSE = CauseClass.NOT_ARRIVED
REFUTED = "a record of the call on that rank, or an end of it before the stall"


@rule(CAUSE, refuted_by=REFUTED)
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks outside the call that show life; else those that a report names."""
    if stall.kind is not StallKind.ABSENT:
        return _named_by_report(facts, stall) or _unheard(facts, stall)
    if stall.is_scattered:
        return None
    ranks = stall.named or _by_stack(facts, stall) or _closed(facts, stall)
    ranks |= _silent_too(facts, stall)
    lines = _logs_calls(facts, stall)
    alive = Ranks(
        r
        for r in ranks
        if (stall.alive[r] or r in lines)
        and (r in stall.proven_absent or waits_by_stack(facts.liveness.activity(r)) is None)
    )
    if not alive:
        return None
    evidence: list[Citation] = []
    said = ""
    for rank in list(alive)[:3]:
        evidence += stall.outside[rank]
        doing, more = stall.busy[rank]
        said = said or doing
        evidence += more
        evidence += [e for e in stall.alive[rank] if not is_cited(e, evidence)]
    evidence.append(Waiting(stall.call))
    doing = f"; it {said}" if said and len(alive) == 1 else f"; {said}" if said else ""
    closed = (bool(alive & facts.liveness.logged) and _told_apart(facts, stall)) or bool(said)
    whole = stall.is_accounted or alive >= stall.ranks
    few = bool(stall.proven_absent) or 3 * len(alive) <= len(facts.case.world)
    if (
        stall.call is not None
        and stall.call.pair is not None
        and facts.case.groups[stall.call.group].learned == "assumed"
    ):
        few = False  # whose other end it is was told from a grid that nobody recorded
    unseen = may_wait_unseen(facts, alive)
    apart = unseen and (split_evenly(facts, stall, alive) or in_doubtful_company(facts, alive))
    open_ = stall.inferred or apart or (unseen and len(facts.case.groups) > 1)
    ceiling = Confidence.LOW if open_ else Confidence.HIGH if closed and whole and few else Confidence.MEDIUM
    return Hypothesis(
        f"{names(alive).capitalize()} never issued {stall.owed}{doing}",
        evidence,
        ceiling,
        ranks=Ranks() if apart else alive,
        suspects=alive if apart else (stall.ranks - alive) if not whole else Ranks(),
        call=stall.call,
    )


def _told_apart(facts: Facts, stall: ObservedStall) -> bool:
    """Whether a rank that never complained cannot be in a call of another group, with a limit of its own, because it skipped this one."""
    return bool(stall.proven_absent) or len(facts.case.groups) == 1


def _logs_calls(facts: Facts, stall: ObservedStall) -> Ranks:
    """Ranks whose COLL lines stop before the call, where most others are as silent: whether they froze there, nothing tells."""
    one = counters_of(facts, stall.call)
    if one is None or one.observer == "ras" or stall.call is None:
        return Ranks()
    spoke = [
        r for r in stall.call.inside if facts.liveness.activity(r).alarms or facts.liveness.activity(r).secondary_errors
    ]
    return stall.proven_absent if 2 * len(spoke) < len(stall.call.inside) else Ranks()


def _closed(facts: Facts, stall: ObservedStall) -> Ranks:
    """Silent ranks that the launcher closed, where all others gave up by themselves: they alone had nothing to give up on.

    More than a third of the job may merely have been closed before they printed it, unless they are just the ranks of one host.
    """
    call, case = stall.call, facts.case
    if call is None or call.missing or case.world_size is None:
        return Ranks()
    if 3 * len(call.unknown) > len(case.world) and not one_host(facts, call.unknown):
        return Ranks()
    signs = facts.liveness.activity
    closed = all(any(e.was_closed for e in signs(r).exits) for r in call.unknown)
    covered = frozenset(case.world) <= call.entered | call.unknown
    others = all(signs(r).alarms for r in (call.inside if covered else case.world - call.unknown))
    return call.unknown if closed and others else Ranks()


def _silent_too(facts: Facts, stall: ObservedStall) -> Ranks:
    """Beside ranks that their dumps show outside: those whose dump is lost, whose lines go on, and who did not give up as every rank
    in the call did.
    """
    call, signs = stall.call, facts.liveness.activity
    if call is None or not stall.proven_absent or not all(signs(r).alarms for r in call.entered):
        return Ranks()
    return Ranks(r for r in call.unknown if signs(r).dump_replies and not signs(r).alarms)


def _by_stack(facts: Facts, stall: ObservedStall) -> Ranks:
    """Among several silent ranks, those whose stack shows them outside every collective, if stacks of the others do not."""
    return Ranks(r for r in stall.ranks if outside_by_stack(facts.liveness.activity(r)) is not None)


def _named_by_report(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A monitored barrier, a desync report or a rank's own counters name who did not come; no dump says otherwise.

    A monitored barrier is no call that a recorder notes, so that nothing in the dumps seems to wait.
    """
    barriers = [e for e in facts.case.of(MonitoredBarrier) if e.missing]
    idle = bool(barriers) and stall.kind in (StallKind.NOTHING, StallKind.CRASH)
    if stall.kind is StallKind.CYCLE or (facts.progress.recorded_ranks and not idle):
        return None
    reports = [e for e in facts.case.of(DesyncReport) if e.laggards]
    analysed = [e for e in facts.case.of(FrAnalysis) if e.missing]
    named = [e.missing for e in barriers] + [e.missing for e in analysed]
    ranks = Ranks(r for found in named for r in found) or Ranks(
        r for e in reports for r in e.laggards if not facts.wait_graph.waits_in.get(r)
    )
    if not ranks or 2 * len(ranks) > max(2, len(facts.case.world)):
        return _idle(facts) if stall.kind is StallKind.NOTHING else None
    evidence: list[Citation] = [Line(e, f"the monitored barrier misses {names(e.missing)}") for e in barriers[:3]]
    evidence += [Line(e, f"PyTorch's desync report names {names(e.laggards)}") for e in reports[:3]]
    evidence += [Line(e, f"PyTorch's analyser misses {names(e.missing)}") for e in analysed[:3]]
    what = "the monitored barrier" if barriers else "the collective that the report is about"
    calls = [(e.op, e.seq) for e in reports] + [(e.op, e.seq) for e in analysed]
    calls = [(op, seq) for op, seq in calls if op or seq is not None]
    stalled = Stalled(*calls[0], missing=ranks) if calls else None
    head = f"{names(ranks).capitalize()} never came to {what}"
    alive = [e for r in list(ranks)[:3] for e in stall.alive[r][:2]]
    there = Ranks(e.rank for e in facts.case.of(MonitoredBarrier) if e.rank is not None)
    sure = bool(barriers) and frozenset(facts.case.world) <= there | ranks and all(stall.alive[r] for r in ranks)
    ceiling = Confidence.HIGH if sure else Confidence.MEDIUM
    return Hypothesis(head, (*evidence, *alive), ceiling, ranks=ranks, stalled=stalled)


def _unheard(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks that alone did not give up, and show life."""
    found = stall.holdouts
    if found is None or found.broken or not all(shows_life(facts, r) for r in found.ranks):
        return None
    return draft(facts, found, "never came to what the others waited in")


def _idle(facts: Facts) -> Hypothesis | None:
    """Ranks that report nothing outstanding while another rank's watchdog fired; only where they are few and no other group is known."""
    signals = [
        e
        for e in facts.case.of(DumpSignal)
        if e.rank is not None and e.last_enqueued is not None and e.last_completed is not None
    ]
    idle = Ranks(
        e.rank
        for e in signals
        if e.rank is not None and e.last_enqueued == e.last_completed and (e.last_completed or 0) >= 0
    )
    fired = Ranks(e.from_rank for e in signals if e.from_rank is not None and e.from_rank >= 0) - idle
    busy = Ranks(e.rank for e in signals if e.rank is not None) - idle
    if not idle or not fired or len(facts.case.groups) > 1 or len(idle) > max(1, len(busy)):
        return None
    evidence = [
        Line(e, f"rank {e.rank} has nothing outstanding, although {names(fired)} gave up on a call")
        for e in signals
        if e.rank in idle
    ][:3]
    return Hypothesis(
        f"{names(idle).capitalize()} is not in the call that {names(fired)} gave up on",
        evidence,
        Confidence.LOW,
        ranks=idle,
    )
