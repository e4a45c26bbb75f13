"""What rules about absent ranks share: that the others wait, that this rank is outside, and what it was last seen doing."""

from __future__ import annotations

from collections.abc import Collection

from nccldoctor.align.descriptions import describe_missing
from nccldoctor.align.exits import can_precede_alarm
from nccldoctor.align.facts import Facts
from nccldoctor.align.gloo import is_gloo_timeout, is_lost_connection
from nccldoctor.align.liveness import RankActivity, is_manual_dump
from nccldoctor.align.nccl_counter_evidence import answered_ras, counter_evidence, counters_of, no_ras_answer
from nccldoctor.align.stack_activity import activity_of, is_waiting, split_frame
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Dump, Line
from nccldoctor.events import (
    DesyncReport,
    DumpNote,
    DumpSignal,
    ExceptionRaised,
    MonitoredBarrier,
    NcclError,
    SocketError,
    Stack,
    WorkStatus,
)
from nccldoctor.model.ranks import Ranks, names

ABORTED = (-6, 134)
"""Exit codes of SIGABRT."""

FEW = 8
"""Ranks for each one that may be silent together with others and be named all the same."""

WELL_INTO = 60.0
"""Seconds after the stalled call was issued from which on a line is one of the stall, whatever the clocks."""


def shown_outside(facts: Facts, call: StuckCall | None, rank: int) -> list[Citation]:
    """What puts a rank outside the call: its dump, its own counters, or a report that names it."""
    out: list[Citation] = []
    if call is not None:
        front = facts.progress.by_group_rank.get((call.group, rank))
        what = describe_missing(facts, call)
        if rank in facts.progress.recorded_ranks:
            last = (
                f"its last call there was #{front.enqueued}"
                if front is not None and front.enqueued >= 0
                else "it never called in that group"
            )
            out.append(Dump(rank, f"rank {rank} recorded no {what}; {last}"))
        elif front is not None and front.event is not None and front.enqueued < call.seq:
            says = f"rank {rank} had issued #{front.enqueued} as its last call, not {what}"
            counts = counters_of(facts, call)
            out.append(Line(front.event, says) if counts is None else counter_evidence(front.event, counts, says))
        elif front is None:
            out += no_ras_answer(facts, rank)
    out += [
        Line(e, f"PyTorch's desync report names {names(e.laggards)}")
        for e in facts.case.of(DesyncReport)
        if rank in e.laggards
    ][:1]
    out += [
        Line(e, f"the monitored barrier misses {names(e.missing)}")
        for e in facts.case.of(MonitoredBarrier)
        if rank in e.missing
    ][:1]
    return out


def busy_with(facts: Facts, rank: int) -> tuple[str, list[Citation]]:
    """What a rank does instead, in words, from its stack or its last lines; "" where nothing tells."""
    signs = facts.liveness.activity(rank)
    for stack in signs.stacks:
        if stack.main and not is_waiting(stack.frames):
            said = activity_of(stack.frames) or "is in " + (stack.frames[0] if stack.frames else "code of its own")
            return said, [Line(stack, f"rank {rank} {said}", observer=f"stack:{rank}")]
    open_ = [
        p
        for p in signs.phases
        if not p.detail.startswith("done") and p.what not in ("starting", "ready", "finished", "epoch-end")
    ]
    if open_ and not any(
        p.what == open_[-1].what and p.detail.startswith("done") for p in signs.phases[signs.phases.index(open_[-1]) :]
    ):
        last = open_[-1]
        said = {
            "checkpoint": "writes a checkpoint", "evaluation": "evaluates", "sampling": "generates samples", "data": "prepares data",
            "compile": "compiles",
        }.get(last.what, last.what)  # fmt: skip
        return said, [Line(last, f"rank {rank} {said}: {last.detail[:80]}")]
    return "", []


def waits_by_stack(signs: RankActivity) -> Stack | None:
    """The main stack of a rank that waits for its peers, if one was taken."""
    return next((s for s in signs.stacks if s.main and is_waiting(s.frames)), None)


def seen_in(facts: Facts, rank: int, functions: Collection[str]) -> Line | None:
    """A main stack or a traceback of a rank inside one of these functions of ``torch.distributed``."""
    mains: list[Stack | ExceptionRaised] = [s for s in facts.liveness.activity(rank).stacks if s.main]
    for seen in mains + [e for e in facts.case.of(ExceptionRaised, rank) if e.origin != "own"]:
        for frame in seen.frames:
            function, where = split_frame(frame)
            if function in functions and "torch/distributed/" in where:
                return Line(seen, f"rank {rank} is in {function}")
    return None


def outside_by_stack(signs: RankActivity) -> Stack | None:
    """The main stack of a rank that is not in a collective, if one was taken."""
    mains = [s for s in signs.stacks if s.main]
    return mains[0] if mains and not is_waiting(mains[0].frames) else None


def lives(facts: Facts, rank: int) -> list[Citation]:
    """Signs that a rank was alive after the stall began: a dump, a reply, a stack, a line, or that it obeyed the closing signal."""
    signs = facts.liveness.activity(rank)
    out: list[Citation] = []
    if signs.dump == "good" and (rank in facts.progress.last_row or rank in facts.progress.recorded_ranks):
        out.append(Dump(rank, f"rank {rank} wrote a dump: it was alive"))
    answers = [e for e in signs.dump_replies if isinstance(e, DumpSignal | DumpNote)]
    out += [Line(e, f"rank {rank} answered the dump signal") for e in answers[:1]]
    own = own_dumps(facts, rank) if signs.dump == "none" else []
    out += [Line(e, f"rank {rank} wrote a dump while the job stood still: it was alive") for e in own[:1]]
    out += answered_ras(facts, rank)
    out += [Line(e, f"a stack of rank {rank} was taken", observer=f"stack:{rank}") for e in signs.stacks if e.main][:1]
    if (
        not out
        and signs.last_event is not None
        and signs.last >= min(facts.liveness.alarm, facts.liveness.began + WELL_INTO)
    ):
        out.append(Line(signs.last_event, f"rank {rank} still wrote lines while the others waited"))
    out += [
        Line(e, f"rank {rank} obeyed the launcher's closing signal", observer="launcher")
        for e in signs.exits
        if e.was_closed
    ][:1]
    return out


def own_dumps(facts: Facts, rank: int) -> list[DumpNote]:
    """The lines with which the training script of a rank says that it dumped by itself."""
    return [e for e in facts.case.of(DumpNote, rank) if is_manual_dump(e)]


def own_counters(facts: Facts, rank: int) -> WorkStatus | None:
    """The newest counters that a rank printed itself."""
    found = list(facts.case.of(WorkStatus, rank))
    return found[-1] if found else None


def accounted(facts: Facts, stall: Stall) -> bool:
    """Whether every member of the stalled call is known to be in it or shown to be outside."""
    call = stall.call
    return call is not None and not call.unknown and facts.case.groups[call.group].learned not in ("assumed", "log")


def _everybody_else_waits(facts: Facts, ranks: Ranks) -> bool:
    """Whether every other rank of a job of known size is in some stuck call: then it does not matter which groups they share.

    The size is known where something names it, and taken as known where ranks beyond the missing ones were heard and the missing
    ones are no mere gap in one text.
    """
    world, presence = facts.case.world_size, facts.liveness
    collected = presence.per_rank_logs or frozenset(ranks) <= presence.logged
    sure = (
        bool(presence.dumped)
        or any(g.desc == "default_pg" and g.learned != "assumed" for g in facts.case.groups)
        or (collected and max(ranks) < max(presence.logged | presence.exited, default=-1))
    )
    return (
        world is not None
        and world > 2
        and sure
        and all(
            facts.wait_graph.waits_in.get(r) or _says_it_waited(facts, r) for r in facts.case.world if r not in ranks
        )
    )


def _says_it_waited(facts: Facts, rank: int) -> bool:
    """Whether a rank gave up on a call itself, or lost a peer in it: on gloo, where no line names the call."""
    return any(is_gloo_timeout(e) or is_lost_connection(e) for e in facts.liveness.activity(rank).secondary_errors)


def _without_excuse(facts: Facts) -> Ranks:
    """Ranks that others wait for and that do not say that they waited themselves."""
    return Ranks(r for r in facts.wait_graph.roots if not _says_it_waited(facts, r))


def nameable(facts: Facts, stall: Stall) -> Ranks:
    """The ranks that may be named: shown to be outside, or the only one left when every other member is shown to be inside.

    A dump or a log that was not collected shows neither. A rank that NCCL told of a lost peer was in a call itself, and so was one
    that left no line and aborted as those did who gave up.
    """
    left = _left_over(facts, stall)
    waited = {r for r in left if _lost_a_peer(facts, r) or _gave_up_itself(facts, r) or _aborted_alike(facts, r)}
    return stall.proven_absent or left - waited


def _gave_up_itself(facts: Facts, rank: int) -> bool:
    """Whether its own watchdog took the process of a rank down: then it had a call that failed, though no line tells which."""
    return any(t.what == "process-down" for t in facts.liveness.activity(rank).teardown)


def _aborted_alike(facts: Facts, rank: int) -> bool:
    """Whether a rank of which no line was read ended by SIGABRT, as a watchdog ends its process, and ranks that gave up did so, too."""
    signs = facts.liveness.activity
    if signs(rank).logged or not any(e.exitcode in ABORTED for e in signs(rank).exits):
        return False
    return any(s.alarms and any(e.exitcode in ABORTED for e in s.exits) for s in facts.liveness.by_rank.values())


def _lost_a_peer(facts: Facts, rank: int) -> bool:
    """Whether NCCL failed under a rank for want of another one, or told it of a closed connection, when the others gave
    up or before.
    """
    errors = [e for e in facts.case.of(NcclError, rank) if e.code in ("ncclRemoteError", "ncclSystemError")]
    closed = [e for e in facts.case.of(SocketError, rank) if e.echo]
    return any(can_precede_alarm(facts.liveness, e) for e in (*errors, *closed))


def _left_over(facts: Facts, stall: Stall) -> Ranks:
    call = stall.call
    if (
        call is not None
        and len(stall.ranks) == 1
        and stall.ranks == _without_excuse(facts)
        and _everybody_else_waits(facts, stall.ranks)
    ):
        return stall.ranks
    if call is not None and _only_silent(facts, facts.wait_graph.roots):
        return stall.ranks
    if call is None or len(call.unknown) != 1 or call.missing:
        return Ranks()
    group = facts.case.groups[call.group]
    whole = group.learned in ("config", "entries") or (
        group.desc == "default_pg"
        and facts.case.world_size is not None
        and (group.learned != "assumed" or bool(facts.liveness.dumped))
    )
    return call.unknown if whole and call.entered else Ranks()


def _only_silent(facts: Facts, ranks: Ranks) -> bool:
    """Whether very few ranks of a job of known size left nothing at all, and each of the many others gave up: who waits does so, too."""
    signs, world = facts.liveness.activity, facts.case.world
    few = facts.case.world_size is not None and FEW * len(ranks) <= len(world)
    nothing = not any(signs(r).is_alive or signs(r).exits or signs(r).secondary_errors for r in ranks)
    return bool(ranks) and few and nothing and all(signs(r).alarms for r in world if r not in ranks)


def one_host(facts: Facts, ranks: Ranks) -> str | None:
    """The host whose ranks these are, all of them and no others; None where hosts are not known or cut across."""
    hosts = {facts.case.rank_host.get(r) for r in ranks}
    host = hosts.pop() if len(hosts) == 1 else None
    return (
        host
        if host is not None and frozenset(ranks) == {r for r, h in facts.case.rank_host.items() if h == host}
        else None
    )
