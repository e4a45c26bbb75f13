"""A rank ended: a signal, the out-of-memory killer, a lost node, or an early exit.

What it means: the process is gone, and its peers wait for it or see their connections to it break.
How we know: an exit record, a kernel or scheduler line, that the tear-down did not cause; or that connections to the
rank broke while it was silent itself. A whole host without a sign of life is one lost node.
What would refute it: lines, a dump or a stack of that rank from after the supposed end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nccldoctor.align.exits import FATAL
from nccldoctor.align.facts import Facts
from nccldoctor.align.failures import Failure
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.align.world.hosts import is_usual_block
from nccldoctor.diagnose.citations import Citation, Line, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import are_only_ones_left, is_shown_whole
from nccldoctor.diagnose.signs.silence import show_lost_connections
from nccldoctor.events import (
    Event,
    ExceptionRaised,
    OutOfMemory,
    PeerTimeout,
    ProcessExit,
    RasStatus,
    SchedulerEvent,
    SocketError,
)
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import failed_node, is_slurm_out_of_memory
from nccldoctor.words.names import ranks_phrase

_TAKEN = {"requeue": "requeued", "oom": "out of memory"}

UNSAID = "no file says how"

BRIEF = 120
"""Characters of a scheduler's message in a headline."""


def process_name(event: Event) -> str:
    """A process whose global rank is not known, as its launcher calls it."""
    name = _called(event) if isinstance(event, ProcessExit) else "a process"
    where = f" on {event.host}" if event.host is not None else ""
    return f"{name} (pid {event.pid}){where}" if event.pid is not None else f"{name}{where}"


def _called(event: ProcessExit) -> str:
    if event.name:
        return event.name
    if event.local_rank is not None:
        return f"local rank {event.local_rank}"
    return f"task {event.task} of srun" if event.task is not None else "a process"


def _whose_end(event: Event) -> str:
    """What ended where no rank is known: a job for the scheduler, else a process."""
    if isinstance(event, SchedulerEvent) and event.is_withdrawal:
        return "a pod" if event.what == "evicted" else "the job"
    return process_name(event)


def describe_end(events: Sequence[Event]) -> str:
    """The end of a process in words, by the first of these events."""
    event = events[0]
    if isinstance(event, OutOfMemory):
        return f"killed because memory ran out ({event.process or event.scope})"
    if isinstance(event, SchedulerEvent):
        what = _TAKEN.get(event.what) or event.what.replace("-", " ")
        return f"{what} ({_short_message(event.detail)})" if event.detail else what
    if isinstance(event, RasStatus):
        return "RAS, NCCL's own service, considers the process dead"
    if isinstance(event, ProcessExit):
        name = (
            event.signal
            or FATAL.get(event.exitcode or 0)
            or (FATAL.get(128 - event.exitcode) if event.exitcode and event.exitcode > 128 else None)
        )
        if is_slurm_out_of_memory(event.text) or any(isinstance(e, SchedulerEvent) and e.what == "oom" for e in events):
            return f"killed by {name}; the scheduler says that memory ran out"
        if name is None and event.exitcode is None:
            return "its heartbeats stopped" if event.is_heartbeat_loss else UNSAID
        return f"killed by {name}" if name else f"exit code {event.exitcode}"
    return event.text[:80]


def _short_message(text: str) -> str:
    """The first sentences of a scheduler's message that fit; a longer first one is cut at a word."""
    flat = " ".join(text.split())
    if len(flat) <= BRIEF:
        return flat
    whole = flat[: BRIEF + 1].rpartition(". ")[0]
    return whole or flat[:BRIEF].rpartition(" ")[0] + "…"


def who_ended(event: Event) -> str:
    """The rank or process, and its end in words."""
    who = f"rank {event.rank}" if event.rank is not None else process_name(event)
    return f"{who}: {describe_end([event])}"


def observer_of(event: Event) -> str:
    """The observer that reports an end."""
    if isinstance(event, OutOfMemory):
        return f"kernel:{event.host or ''}"
    if isinstance(event, RasStatus):
        return "ras"
    return "scheduler" if isinstance(event, SchedulerEvent) else "launcher"


CAUSE = CauseClass.DIED


def _silent_end(facts: Facts, rank: int) -> list[Citation]:
    """The last line of a rank, where nothing contradicts its end: its log simply stops."""
    signs = facts.liveness.activity(rank)
    if signs.dump != "none" or signs.dump_replies or signs.alarms or signs.last_event is None:
        return []
    return [Line(signs.last_event, f"the last line of rank {rank}; no complaint, no dump after it")]


def _lost_node(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a node may be lost: all ranks of one host, or of a node-sized block, left nothing."""
    call, gone = stall.call, _silent_block(facts, stall)
    ended = gone & facts.liveness.exited
    if call is None or not gone or (ended and ended != gone):  # who recorded the end of some of them outlived it
        return None
    host = facts.hosts.name(gone)
    is_read = bool(gone & facts.liveness.logged) or (
        host is not None and any(s.host == host for s in facts.case.sources)
    )
    sure = facts.hosts.is_whole(gone) and is_read  # else its files may merely not have been fetched
    # the other ranks of the block may wait for one that failed
    has_failure = any((f.ranks | f.suspects) & gone for f in facts.failures)
    known = Confidence.HIGH if are_only_ones_left(facts, gone) and not has_failure else Confidence.MEDIUM
    fell_silent = _has_fallen_silent(facts, gone)
    where = f" on {host}" if host else "" if facts.hosts.is_whole(gone) else ", a block that one node may have held,"
    return Hypothesis(
        f"{ranks_phrase(gone).capitalize()}{where} left no sign of life: the node may be lost",
        [Waiting(call), *(e for r in list(gone)[:2] if fell_silent for e in _silent_end(facts, r))],
        (
            Doubt("no scheduler and no kernel line records the loss of the node", known, Confidence.MEDIUM)
            if sure
            else Doubt.at_most(Confidence.LOW, "the files of that node may merely not have been collected"),
        ),
        ranks=gone if sure or fell_silent else Ranks(),
        suspects=gone,
        call=call,
        refuted_by="a dump or a log of any of them",
    )


def _silent_block(facts: Facts, stall: ObservedStall) -> Ranks:
    """Returns the missing ranks when they are those of one host, or a block that one host may hold.

    They are the missing ranks of one call, or all that nothing proves to wait, and none of them shows a sign of life; else empty.
    Example: ranks 0-7 wait in ALLREDUCE #18, and ranks 8-15 left no record of it.
    """
    call = stall.call
    if call is None or stall.proven_absent:
        return Ranks()
    few = len(call.entered) < max(2, len(call.unknown) // 2)
    is_open = all(s.kind is StallKind.ABSENT and not s.proven_absent for s in facts.stalls)
    for gone in (Ranks() if few else call.unknown, facts.ledger.open if is_open else Ranks()):
        if len(gone) < 2 or 2 * len(gone) > len(facts.case.world) or any(stall.alive[r] for r in gone):
            continue
        if facts.hosts.is_whole(gone) or is_usual_block(gone):
            return gone
    return Ranks()


def _has_fallen_silent(facts: Facts, gone: Ranks) -> bool:
    """True when these ranks wrote lines before, and every other rank gave up after they had stopped."""
    return gone <= facts.liveness.logged and facts.ledger.open <= gone


CAUSE = CauseClass.DIED
REFUTED = "lines, a dump or a stack of that rank from after its end"


@rule(CAUSE, refuted_by=REFUTED)
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """An end on record; else a lost node; else broken connections to a silent rank."""
    found = [
        f for f in facts.failures if f.cause is CAUSE and not any(facts.wait_graph.waits_in.get(r) for r in f.ranks)
    ]
    if stall.kind is StallKind.ABSENT:
        lost = [
            f
            for f in found
            if not f.ranks and isinstance(f.events[0], SchedulerEvent) and f.events[0].what == "node-failure"
        ]
        found = [f for f in found if f.ranks & stall.ranks] or [
            replace(f, ranks=stall.ranks) for f in lost if is_usual_block(stall.ranks)
        ]
        found = found or _nameless_end(facts, stall)
        if found:
            return _recorded_end(facts, stall, found)
        return _early_exit(facts, stall) or _broken_connection(facts, stall) or _lost_node(facts, stall)
    if stall.kind is StallKind.FULL and stall.call is not None and not _is_closed_group(facts, stall.call):
        ended = sorted((f for f in found if _can_end_member(f)), key=lambda f: not _is_of_named_node(f.events[0]))
        return _recorded_end(facts, stall, ended) if ended else None
    if stall.kind is StallKind.CRASH and found:
        certain = [f for f in found if f.certain]
        untimed = all(f.when != f.when for f in found)
        ordered = sorted(found, key=lambda f: not f.ranks) if untimed else found
        return _recorded_end(facts, stall, [f for f in certain if f.ranks] or certain or ordered)
    return _quiet_and_gone(facts, stall)


def _is_closed_group(facts: Facts, call: StuckCall) -> bool:
    """True when nobody can be missing from a call.

    More must be known of its members than which ranks were seen: the size of the job, or the members' own dumps.
    """
    return is_shown_whole(facts, call) and facts.case.groups[call.group].learned != "listed"


def _is_of_named_node(event: Event) -> bool:
    """True when the scheduler says which node failed, and not only where the job's first host is."""
    return isinstance(event, SchedulerEvent) and failed_node(event.detail) is not None


def _can_end_member(failure: Failure) -> bool:
    """True of an end that may have taken a member whose lines were not read.

    Not the time limit of a job, which ends a job that hangs as well, and no end of which nobody says how it came.
    """
    event = failure.events[0]
    if isinstance(event, ProcessExit):
        return event.signal is not None or event.exitcode not in (None, 1)
    return not (isinstance(event, SchedulerEvent) and event.what == "time-limit")


def _quiet_and_gone(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that few ranks ended: they never complained, and the others first lost a connection."""
    gone = stall.quiet
    if gone is None or not gone.connection_broke or any(stall.alive[r] for r in gone.ranks):
        return None
    return stall.conclude_quiet(gone, "ended without a word")


def _nameless_end(facts: Facts, stall: ObservedStall) -> list[Failure]:
    """Returns the failure for a kill that a launcher reports under a local rank only.

    It is of the one rank that can be missing, else of any rank that others wait for. One kill ends one rank: where the
    others wait for several, it may be of each.
    """
    kills = [f for f in facts.failures if f.cause is CAUSE and not f.ranks and _is_single_kill(f, stall)]
    ranks = stall.named
    one = ranks if len(ranks) == 1 and stall.ranks == facts.wait_graph.roots else Ranks()
    return [replace(f, ranks=one, suspects=facts.wait_graph.roots - one, certain=False) for f in kills[:1]]


def _is_single_kill(failure: Failure, stall: ObservedStall) -> bool:
    """True when it reports one killed process that can be a rank of the stall, or one of its workers."""
    near = not failure.suspects or bool(failure.suspects & stall.ranks)
    return near and isinstance(failure.events[0], ProcessExit | OutOfMemory)


def _recorded_end(facts: Facts, stall: ObservedStall, found: Sequence[Failure]) -> Hypothesis:
    first = found[0]
    together = [f for f in found if stall.kind is StallKind.ABSENT or _is_of_one_moment(f, first)]
    ranks = Ranks(r for f in together for r in f.ranks)
    evidence: list[Citation] = [
        Line(e, who_ended(e), observer=observer_of(e)) for f in together[:6] for e in f.events[:2]
    ]
    evidence.append(Waiting(stall.call))
    evidence += [e for r in list(ranks)[:2] for e in _silent_end(facts, r)] + show_lost_connections(facts, ranks)
    wait = f"; the others wait for it in {stall.what}" if stall.call is not None else ""
    who = ranks_phrase(ranks) if ranks else _whose_end(first.events[0])
    end = first.events[0]
    unsaid = isinstance(end, ProcessExit) and end.exitcode in (None, 1) and end.signal is None
    doubts = []
    if isinstance(end, ProcessExit) and end.is_heartbeat_loss:
        says = "only its heartbeats are missed: a stopped process or a lost link looks the same"
        doubts.append(Doubt(says, cause=Confidence.MEDIUM))
    elif unsaid:
        doubts.append(Doubt.at_most(Confidence.LOW, "nothing says how it ended: the end may have followed the stall"))
    if not first.certain:
        doubts.append(
            Doubt.at_most(Confidence.MEDIUM, "the process may have been ended because another one failed first")
        )
    if not ranks:
        doubts.append(Doubt(_unnamed(facts, end), Confidence.MEDIUM))
    said = describe_end(first.events)
    how = f", and {said}" if said == UNSAID else f": {said}"
    if said == UNSAID and (others := [e for e in _other_ends(found) if e.pid not in (None, end.pid)]):
        how += f"; so did {process_name(others[0])}" + (f" and {len(others) - 1} more" if len(others) > 1 else "")
    return Hypothesis(
        f"{who[0].upper()}{who[1:]} ended{how}{wait}",
        evidence,
        doubts,
        ranks=ranks,
        suspects=first.suspects,
        call=stall.call,
    )


def _unnamed(facts: Facts, end: Event) -> str:
    """Why the rank of an end is open; HCCL may tell which rank of a group was waited for."""
    peers = Ranks(e.peer for e in facts.case.of(PeerTimeout) if e.peer is not None)
    if len(peers) == 1 and isinstance(end, ProcessExit) and end.is_heartbeat_loss:
        return (
            f"rank {peers} of a group was waited for; that number counts inside the group, and no line gives the job's"
        )
    return "no line says which rank the process was"


def _other_ends(found: Sequence[Failure]) -> list[ProcessExit]:
    """The ends of further processes whose ranks no line names."""
    return [e for f in found[1:] for e in f.events[:1] if isinstance(e, ProcessExit) and e.rank is None]


def _is_of_one_moment(end: Failure, first: Failure) -> bool:
    """True when two ends have one time, or stand in one line: ``tasks 1-3: Out Of Memory`` ends three ranks."""
    return end.when == first.when or end.events[0].place == first.events[0].place


def _early_exit(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a rank ended too early: it exited with 0 while the others still wait for it."""
    ranks = Ranks(
        r
        for r in stall.named | stall.proven_absent
        for e in facts.liveness.activity(r).exits
        if e.exitcode == 0 and facts.liveness.activity(r).dump == "none"
    )
    if not ranks:
        return _missing_from_table(facts, stall)
    evidence: list[Citation] = [
        Line(e, f"rank {r} exited with code 0", observer="launcher")
        for r in ranks
        for e in facts.liveness.activity(r).exits[:1]
    ]
    evidence.append(Waiting(stall.call))
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} exited early, with code 0; the others wait for it in {stall.what}",
        evidence,
        (),
        ranks=ranks,
        call=stall.call,
    )


def _missing_from_table(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that a rank had ended earlier when torchrun's table of exits leaves it out.

    Torchrun lists all ranks of a node that it still had, with -15 for those it closed: a rank that is missing there had
    ended before, without failing.
    """
    ranks = Ranks(
        r
        for r in stall.named
        if not facts.liveness.activity(r).exits
        and not facts.liveness.activity(r).teardown
        and not facts.liveness.activity(r).is_alive
    )
    evidence: list[Citation] = []
    for rank in ranks:
        host = facts.case.rank_host.get(rank)
        mates = [
            e
            for r, s in sorted(facts.liveness.by_rank.items())
            for e in s.exits
            if e.reporter == "torchrun" and host is not None and facts.case.rank_host.get(r) == host
        ]
        if len(mates) < 2:
            return None
        evidence.append(
            Line(
                mates[0],
                f"the launcher's table of {host} lists {len(mates)} ranks and not rank {rank}: it had ended before, with code 0",
                observer="launcher",
            )
        )
        evidence += _silent_end(facts, rank)
    if not ranks:
        return None
    evidence.append(Waiting(stall.call))
    known = Confidence.HIGH if are_only_ones_left(facts, ranks) else Confidence.MEDIUM
    return Hypothesis(
        f"{ranks_phrase(ranks).capitalize()} ended early without failing; the others wait for it in {stall.what}",
        evidence,
        (Doubt("its end is inferred from a table that leaves it out", known, Confidence.MEDIUM),),
        ranks=ranks,
        call=stall.call,
    )


def _broken_connection(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that one absent, silent rank ended: connections of its peers broke.

    The others complain or dump.
    """
    silent = Ranks(
        r
        for r in stall.named
        if not facts.liveness.activity(r).is_alive and not facts.liveness.activity(r).secondary_errors
    )
    broken = [e for e in facts.case.events if _is_closed_connection(e) and e.rank not in silent]
    if not broken or not silent or len(silent) > 1 or not stall.has_connection_broken_first:
        return None
    evidence: list[Citation] = [Line(e, f"rank {e.rank} saw its connection break") for e in broken[:3]]
    evidence += [Waiting(stall.call), *(e for r in silent for e in _silent_end(facts, r))]
    logged = bool(silent & facts.liveness.logged)
    return Hypothesis(
        f"{ranks_phrase(silent).capitalize()} ended without a word: connections to it broke, and the others wait for it "
        f"in {stall.what}",
        evidence,
        () if logged else (Doubt.at_most(Confidence.MEDIUM, "no line of the rank itself was read"),),
        ranks=silent,
        call=stall.call,
    )


def _is_closed_connection(event: Event) -> bool:
    if isinstance(event, SocketError):
        return event.echo
    text = event.message if isinstance(event, ExceptionRaised) else ""
    return "Connection closed by peer" in text or "Connection reset by peer" in text
