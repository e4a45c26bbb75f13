"""Finds what shows ranks outside a stuck call, and which of those ranks may be named."""

from __future__ import annotations

from collections.abc import Collection

from nccldoctor.align.descriptions import describe_missing
from nccldoctor.align.exits import can_precede_alarm
from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import is_manual_dump
from nccldoctor.align.nccl_counter_evidence import answered_ras, counter_evidence, counters_of, no_ras_answer
from nccldoctor.align.stack_activity import activity_of, is_waiting, split_frame
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Dump, Line
from nccldoctor.events import DesyncReport, DumpNote, ExceptionRaised, MonitoredBarrier, NcclError, SocketError, Stack
from nccldoctor.model.ranks import Ranks, names
from nccldoctor.parsers.event_details import is_gloo_timeout, is_lost_connection

ABORTED = (-6, 134)
"""Exit codes of SIGABRT."""

RANKS_PER_SILENT = 8
"""Ranks of the job for each one that may be silent together with others and be named all the same."""

WELL_INTO = 60.0
"""Seconds after the stalled call was issued from which on a line is one of the stall, whatever the clocks."""

NOT_WORK = frozenset({"starting", "ready", "finished", "epoch-end"})
"""Phases that are moments, and no work that a rank may be busy with."""

WORK = {
    "checkpoint": "writes a checkpoint",
    "evaluation": "evaluates",
    "sampling": "generates samples",
    "data": "prepares data",
    "compile": "compiles",
}
"""Phases as the rest of a sentence about a rank."""


def show_outside(facts: Facts, call: StuckCall | None, rank: int) -> list[Citation]:
    """Cites the dump, the counters or the report that shows a rank outside the call."""
    citations: list[Citation] = []
    if call is not None:
        progress = facts.progress.by_group_rank.get((call.group, rank))
        what = describe_missing(facts, call)
        if rank in facts.progress.recorded_ranks:
            last = "it never called in that group"
            if progress is not None and progress.enqueued >= 0:
                last = f"its last call there was #{progress.enqueued}"
            citations.append(Dump(rank, f"rank {rank} recorded no {what}; {last}"))
        elif progress is None:
            citations += no_ras_answer(facts, rank)
        elif progress.event is not None and progress.enqueued < call.seq:
            says = f"rank {rank} had issued #{progress.enqueued} as its last call, not {what}"
            line, counters = progress.event, counters_of(facts, call)
            citations.append(Line(line, says) if counters is None else counter_evidence(line, counters, says))
    desync = (e for e in facts.case.of(DesyncReport) if rank in e.laggards)
    citations += [Line(e, f"PyTorch's desync report names {names(e.laggards)}") for e in desync][:1]
    barriers = (e for e in facts.case.of(MonitoredBarrier) if rank in e.missing)
    return citations + [Line(e, f"the monitored barrier misses {names(e.missing)}") for e in barriers][:1]


def show_activity(facts: Facts, rank: int) -> tuple[str, list[Citation]]:
    """Returns the activity of a rank outside the call, as the rest of a sentence, with citations.

    The rank's stack says it, else its last phase; "" where neither does. Example: "is in load_batch".
    """
    activity = facts.liveness.activity(rank)
    for stack in activity.stacks:
        if stack.main and not is_waiting(stack.frames):
            words = activity_of(stack.frames) or "is in " + (stack.frames[0] if stack.frames else "code of its own")
            return words, [Line(stack, f"rank {rank} {words}", observer=f"stack:{rank}")]
    begun = [p for p in activity.phases if not p.detail.startswith("done") and p.what not in NOT_WORK]
    if begun:
        last = begun[-1]
        since = activity.phases[activity.phases.index(last) :]
        if not any(p.what == last.what and p.detail.startswith("done") for p in since):
            words = WORK.get(last.what, last.what)
            return words, [Line(last, f"rank {rank} {words}: {last.detail[:80]}")]
    return "", []


def show_inside_function(facts: Facts, rank: int, functions: Collection[str]) -> Line | None:
    """A main stack or a traceback of a rank inside one of these functions of ``torch.distributed``."""
    stacks: list[Stack | ExceptionRaised] = [s for s in facts.liveness.activity(rank).stacks if s.main]
    for event in stacks + [e for e in facts.case.of(ExceptionRaised, rank) if e.origin != "own"]:
        for frame in event.frames:
            function, file = split_frame(frame)
            if function in functions and "torch/distributed/" in file:
                return Line(event, f"rank {rank} is in {function}")
    return None


def show_alive(facts: Facts, rank: int) -> list[Citation]:
    """Cites the evidence that a rank was alive after the stall began.

    A dump, a reply to the dump signal or to RAS, a stack, a line, or that the rank obeyed the closing signal.
    """
    activity, liveness = facts.liveness.activity(rank), facts.liveness
    citations: list[Citation] = []
    if activity.dump == "good" and (rank in facts.progress.last_row or rank in facts.progress.recorded_ranks):
        citations.append(Dump(rank, f"rank {rank} wrote a dump: it was alive"))
    citations += [Line(e, f"rank {rank} answered the dump signal") for e in activity.dump_replies[:1]]
    manual = manual_dumps(facts, rank) if activity.dump == "none" else []
    citations += [Line(e, f"rank {rank} wrote a dump while the job stood still: it was alive") for e in manual[:1]]
    citations += answered_ras(facts, rank)
    stack = next((s for s in activity.stacks if s.main), None)
    if stack is not None:
        citations.append(Line(stack, f"a stack of rank {rank} was taken", observer=f"stack:{rank}"))
    last = activity.last_event
    if not citations and last is not None and activity.last >= min(liveness.alarm, liveness.began + WELL_INTO):
        citations.append(Line(last, f"rank {rank} still wrote lines while the others waited"))
    closed = next((e for e in activity.exits if e.was_closed), None)
    if closed is not None:
        citations.append(Line(closed, f"rank {rank} obeyed the launcher's closing signal", observer="launcher"))
    return citations


def manual_dumps(facts: Facts, rank: int) -> list[DumpNote]:
    """The lines with which the training script of a rank says that it dumped by itself."""
    return [e for e in facts.case.of(DumpNote, rank) if is_manual_dump(e)]


def is_every_member_known(facts: Facts, stall: Stall) -> bool:
    """True when every member of the stalled call is known to be in it or proven to be outside."""
    call = stall.call
    return call is not None and not call.unknown and facts.case.groups[call.group].learned not in ("assumed", "log")


def nameable_ranks(facts: Facts, stall: Stall) -> Ranks:
    """Returns the ranks that may be named: proven absent, or the only ones not shown to be waiting.

    Example: ranks 0-6 gave up on ALLREDUCE #18 of the default group of 8 ranks; rank 7 may be named although it left nothing. Not so
    where it may have waited as well: NCCL reported a lost peer to it, its own watchdog took it down, or it aborted as the others did. A
    dump or a log that was not collected shows neither.
    """
    if stall.proven_absent:
        return stall.proven_absent
    left = _last_ones_left(facts, stall)
    return left - {
        r for r in left if _has_lost_peer(facts, r) or _was_stopped_by_watchdog(facts, r) or _was_aborted_too(facts, r)
    }


def _last_ones_left(facts: Facts, stall: Stall) -> Ranks:
    """Returns the ranks of the stall when all others are known to wait.

    Empty where another rank may be the missing one.
    """
    call, case = stall.call, facts.case
    if call is None:
        return Ranks()
    not_waiting = Ranks(r for r in facts.wait_graph.roots if not _has_failed_on_gloo(facts, r))
    is_only_one = len(stall.ranks) == 1 and stall.ranks == not_waiting
    if (is_only_one and _are_all_others_waiting(facts, stall.ranks)) or _are_few_silent(facts, facts.wait_graph.roots):
        return stall.ranks
    if len(call.unknown) != 1 or call.missing or not call.entered:
        return Ranks()
    group = case.groups[call.group]
    sized = case.world_size is not None and (group.learned != "assumed" or bool(facts.liveness.dumped))
    whole = group.learned in ("config", "entries") or (group.desc == "default_pg" and sized)
    return call.unknown if whole else Ranks()


def _are_all_others_waiting(facts: Facts, ranks: Ranks) -> bool:
    """True when every other rank of a job of known size is in some stuck call.

    It does not matter which groups these ranks share.

    The size is known where something names it. It is taken as known where ranks beyond the missing ones were read, and the missing ones
    are no mere gap in one text: of ranks 0-7 with a log each, rank 3 is missing although rank 7 was read.
    """
    world_size, liveness = facts.case.world_size, facts.liveness
    collected = liveness.per_rank_logs or frozenset(ranks) <= liveness.logged
    sure = (
        bool(liveness.dumped)
        or any(g.desc == "default_pg" and g.learned != "assumed" for g in facts.case.groups)
        or (collected and max(ranks) < max(liveness.logged | liveness.exited, default=-1))
    )
    if world_size is None or world_size <= 2 or not sure:
        return False
    return all(
        facts.wait_graph.waits_in.get(r) or _has_failed_on_gloo(facts, r) for r in facts.case.world if r not in ranks
    )


def _has_failed_on_gloo(facts: Facts, rank: int) -> bool:
    """True when a rank gave up on a gloo call, or lost a peer in it, without naming it."""
    return any(is_gloo_timeout(e) or is_lost_connection(e) for e in facts.liveness.activity(rank).secondary_errors)


def _was_stopped_by_watchdog(facts: Facts, rank: int) -> bool:
    """True when a rank's own watchdog took its process down.

    The rank had a call that failed, though no line names it.
    """
    return any(t.what == "process-down" for t in facts.liveness.activity(rank).teardown)


def _was_aborted_too(facts: Facts, rank: int) -> bool:
    """True when a rank without a line ended by SIGABRT, as a rank that gave up did.

    SIGABRT is how a watchdog ends its process.
    """
    activity = facts.liveness.activity(rank)
    if activity.logged or not any(e.exitcode in ABORTED for e in activity.exits):
        return False
    return any(a.alarms and any(e.exitcode in ABORTED for e in a.exits) for a in facts.liveness.by_rank.values())


def _has_lost_peer(facts: Facts, rank: int) -> bool:
    """True when NCCL told a rank, at the first alarm or before, that a peer was gone.

    The rank was in a call itself.
    """
    errors = [e for e in facts.case.of(NcclError, rank) if e.code in ("ncclRemoteError", "ncclSystemError")]
    closed = [e for e in facts.case.of(SocketError, rank) if e.echo]
    return any(can_precede_alarm(facts.liveness, e) for e in (*errors, *closed))


def _are_few_silent(facts: Facts, ranks: Ranks) -> bool:
    """True when ``ranks``, one in eight at most, left nothing at all, and every other rank gave up."""
    activity, world = facts.liveness.activity, facts.case.world
    if not ranks or facts.case.world_size is None or RANKS_PER_SILENT * len(ranks) > len(world):
        return False
    silent = not any(activity(r).is_alive or activity(r).exits or activity(r).secondary_errors for r in ranks)
    return silent and all(activity(r).alarms for r in world if r not in ranks)


def common_host(facts: Facts, ranks: Ranks) -> str | None:
    """Returns the host that runs exactly these ranks.

    None where hosts are not known, where the ranks are on several hosts, or where the host runs further ranks.
    """
    hosts = {facts.case.rank_host.get(r) for r in ranks}
    host = hosts.pop() if len(hosts) == 1 else None
    on_host = {r for r, h in facts.case.rank_host.items() if h == host}
    return host if host is not None and frozenset(ranks) == on_host else None
