"""A rank shows no sign of life at all, yet no exit is recorded.

What it means: its process is stopped, stuck in native code with the interpreter lock held, or its host hangs.
How we know: the others dumped, complained or answered after the stall began and this rank did not, and where exits are recorded
there is none of it (or the launcher had to kill it because it did not obey the closing signal).
What would refute it: any line, dump or stack of that rank from after the stall began, or an exit record.
"""

from __future__ import annotations

from itertools import chain

from nccldoctor.align.descriptions import describe
from nccldoctor.align.exits import SLACK
from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import is_manual_dump
from nccldoctor.align.nccl_counter_evidence import no_ras_answer
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Citation, Line, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.silence import show_kept_connections
from nccldoctor.events import (
    DumpNote,
    DumpSignal,
    ExceptionRaised,
    OutOfMemory,
    Phase,
    ProcessExit,
    Progress,
    SchedulerEvent,
)
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks, names, verb

CAUSE = CauseClass.FROZEN

GOES_ON = (ProcessExit, Progress, Phase, SchedulerEvent)
"""What a text tells only after all ranks had the time to complain."""


@rule(CAUSE, refuted_by="any line, dump or stack of that rank from after the stall began, or an exit record")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The only absent rank, silent where the others are not."""
    if stall.kind in (StallKind.NOTHING, StallKind.CRASH):
        found = stall.quiet
        silent = found is not None and not found.connection_broke and not any(stall.shows_life(r) for r in found.ranks)
        return stall.conclude_quiet(found, "left no sign of life") if found is not None and silent else None
    if stall.kind is not StallKind.ABSENT or stall.call is None or stall.is_scattered:
        return None
    dumps = zip(facts.case.dump_rank, facts.case.dumps, strict=True)
    damaged = {r for r, dump in dumps if r is not None and dump.problem}  # it lived to write one
    ranks = Ranks(r for r in stall.named if facts.liveness.activity(r).waiting_stack is None) - damaged
    if not ranks:
        return None
    others = facts.case.groups[stall.call.group].members - ranks
    spoke = Ranks(r for r in facts.case.world - ranks if facts.liveness.activity(r).is_alive)
    evidence: list[Citation] = []
    for rank in list(ranks)[:3]:
        evidence += stall.outside[rank]
        signs = facts.liveness.activity(rank)
        if signs.last_event is not None:
            evidence.append(Line(signs.last_event, f"the last line of rank {rank}, from before the stall"))
    evidence.append(Waiting(stall.call))
    evidence += _answers(facts, others)
    exits = facts.liveness.exited
    no_exit = bool(exits & others) and all(_kept_running(facts, r) for r in ranks)
    if no_exit:
        other = next(iter(exits & others))
        evidence += [
            Line(e, f"exits of others are on record, none of {names(ranks)}", observer="launcher")
            for e in facts.liveness.activity(other).exits[:1]
        ]
    own_log = bool(ranks & facts.liveness.logged)
    connected = show_kept_connections(facts, stall.call) if own_log else []
    evidence += connected
    short = _cut_short(facts)
    if not (no_exit or own_log) and (_uncollected(facts, spoke) or short or not _only_stall(facts, stall)):
        return _lost(facts, ranks, tuple(evidence), stall)
    open_class = not (no_exit or own_log) or len(spoke) < 2
    return Hypothesis(
        f"{names(ranks).capitalize()} {verb(ranks, 'shows', 'show')} no sign of life since before "
        f"{stall.what}, and no exit is recorded",
        evidence,
        Confidence.LOW
        if short
        or not facts.liveness.logged
        or _unsigned_failure(facts)
        or (len(ranks) > 1 and not stall.proven_absent)
        else Confidence.MEDIUM
        if open_class or not (no_exit or connected)
        else Confidence.HIGH,
        ranks=ranks,
        suspects=stall.ranks - ranks,
        call=stall.call,
    )


def _unsigned_failure(facts: Facts) -> bool:
    """Whether a process failed of itself in a line that names no rank: it may be this one."""
    raised = (e for e in facts.case.of(ExceptionRaised) if e.rank is None and e.origin == "own" and not e.logged)
    full = (e for e in facts.case.of(OutOfMemory) if e.rank is None and e.scope == "device")
    return any(True for _ in chain(raised, full))


def _kept_running(facts: Facts, rank: int) -> bool:
    """Whether the launcher still had the process when it closed the job: it had to close or kill it.

    Launchers list failures only: a rank that exited with 0 is missing from their tables as well.
    """
    signs = facts.liveness.activity(rank)
    if signs.exits:
        return all(e.exitcode in (None, -9, 137) for e in signs.exits)
    return any(t.what in ("forced-kill", "closing-signal") for t in signs.teardown)


def _cut_short(facts: Facts) -> bool:
    """Whether a single text ends amid the first complaints, and nothing else was read: this rank's own may have stood behind them."""
    first, presence = facts.liveness.first_alarm, facts.liveness
    if first is None or presence.dumped or presence.exited or presence.per_rank_logs:
        return False
    behind = [
        e
        for e in facts.case.events
        if e.place.source == first.place.source and (e.place.line or 0) > (first.place.line or 0)
    ]
    return not any(isinstance(e, GOES_ON) or presence.time(e) > presence.alarm + SLACK for e in behind)


def _uncollected(facts: Facts, spoke: Ranks) -> bool:
    """Whether the rank's files may simply be missing: the others' logs are one file each, or too few others left anything.

    In a merged log, and where all other ranks left a dump, silence says something; lines of one rank alone show no merged log.
    """
    merged = len(spoke) > 1 or bool(spoke & facts.liveness.dumped)
    return facts.liveness.per_rank_logs or not merged or 2 * len(spoke) < len(facts.case.world) - 1


def _only_stall(facts: Facts, stall: ObservedStall) -> bool:
    """Whether everything that waits leads to this rank: a snapshot of a running job shows calls in flight elsewhere too."""
    return bool(facts.liveness.logged) or (
        len(facts.stalls) == 1 and stall.call is not None and not stall.call.completed
    )


def _lost(facts: Facts, ranks: Ranks, evidence: tuple[Citation, ...], stall: ObservedStall) -> Hypothesis:
    """Neither dump nor log of the rank was collected. It is named where somebody complained, everybody else left something and all
    waiting ends at it; why it did not come is open even then.
    """
    left = facts.liveness.dumped | facts.liveness.logged
    alone = len(facts.stalls) == 1 and len(ranks) == 1 and frozenset(facts.case.world - ranks) <= left
    only = alone and facts.liveness.first_alarm is not None
    silent = any(no_ras_answer(facts, r) for r in ranks)
    said = "did not answer RAS" if silent else "left neither a dump nor a log"
    call = stall.call
    passed = call is not None and bool(call.completed)
    inside = call.inside if call is not None else Ranks()
    who = f"{names(inside)} {verb(inside, 'waits', 'wait')}" if passed else "the others wait"
    return Hypothesis(
        f"{names(ranks).capitalize()} {said}; {who} in {describe(facts, call)}"
        f"{', and others are ahead of it' if passed else ''}",
        evidence,
        Confidence.LOW,
        ranks=ranks if only else Ranks(),
        suspects=Ranks() if only else ranks,
        call=call,
        refuted_by="its dump or its log",
    )


def _answers(facts: Facts, others: Ranks) -> list[Citation]:
    """That the dump signal went round: this rank alone did not answer."""
    found = [e for e in facts.case.events if isinstance(e, DumpSignal | DumpNote) and e.rank in others]
    return [
        Line(e, f"rank {e.rank} {'wrote its dump' if is_manual_dump(e) else 'answered the dump signal'}")
        for e in found[:1]
    ]
