"""A rank ended: a signal, the out-of-memory killer, a lost node, or an early exit.

How we know: an exit record, a kernel or scheduler line, that the tear-down did not cause; or that connections to the
rank broke while it was silent itself. A whole host without a sign of life is one lost node.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.align.exits import can_precede_alarm, ending_signal
from nccldoctor.align.facts import Facts
from nccldoctor.align.failures import Failure
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.world.hosts import is_usual_block
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases import ends
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import are_only_ones_left, is_shown_whole
from nccldoctor.diagnose.signs.log_endings import is_end_of_log
from nccldoctor.diagnose.signs.silence import (
    has_connection_broken_first,
    is_broken,
    show_kept_connections,
    show_lost_connections,
)
from nccldoctor.events import (
    Event,
    ExceptionRaised,
    NcclError,
    OutOfMemory,
    PeerTimeout,
    ProcessExit,
    SchedulerEvent,
    SocketError,
    Stack,
)
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import failed_node
from nccldoctor.words.lists import and_list

CAUSE = CauseClass.DIED


def _silent_end(facts: Facts, rank: int) -> list[Citation]:
    """The newest line of a rank, where nothing contradicts its end: its log simply stops. A stack is no line of a log."""
    signs = facts.liveness.activity(rank)
    if signs.dump != "none" or signs.dump_replies or signs.alarms or isinstance(signs.last_event, Stack | None):
        return []
    says = "absent.nothing-after" if is_end_of_log(facts, signs.last_event) else "absent.no-error-or-dump-after"
    return [Line(signs.last_event, say(says, rank=rank))]


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
    is_left = sure and are_only_ones_left(facts, gone) and not has_failure
    # they wrote lines before, and every other rank gave up after they had stopped
    fell_silent = gone <= facts.liveness.logged and facts.ledger.open <= gone
    if not (sure or fell_silent):
        return None
    return Hypothesis(
        headline_of("absent.host-down", host=host, ranks=gone, call=stall.what)
        if host
        else headline_of("absent.host-of-ranks-down", ranks=gone, call=stall.what),
        [Waiting(call), *(e for r in list(gone)[:2] if fell_silent for e in _silent_end(facts, r))],
        (doubt_of("no-record-of-host", sure=sure, left=is_left),),
        ranks=gone if sure or fell_silent else Ranks(),
        suspects=gone,
        call=call,
        refuted_by=say("refuted.files-of-any"),
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
        if len(gone) < 2 or 2 * len(gone) > len(facts.case.world) or any(stall.alive(r) for r in gone):
            continue
        if facts.hosts.is_whole(gone) or is_usual_block(gone):
            return gone
    return Ranks()


@rule(CAUSE, refuted_by=say("refuted.after-end"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """An end on record; else a lost node; else broken connections to a silent rank."""
    waits_in = facts.wait_graph.waits_in
    found = [f for f in facts.failures if f.cause is CAUSE and not any(waits_in.get(r) for r in f.ranks)]
    if stall.kind is StallKind.ABSENT:
        told = [(f, f.events[0]) for f in found if not f.ranks]
        lost = [f for f, e in told if isinstance(e, SchedulerEvent) and e.what == "node-failure"]
        found = [_whole_host(facts, stall, f) for f in found if f.ranks & stall.ranks] or [
            replace(f, ranks=stall.ranks) for f in lost if is_usual_block(stall.ranks)
        ]
        found = found or _nameless_end(facts, stall)
        if found:
            return _recorded_end(facts, stall, found)
        return _left_early(facts, stall) or _broken_connection(facts, stall) or _lost_node(facts, stall)
    call = stall.call
    # a member may be missing unless more is known of the members than which ranks were seen
    if (
        stall.kind is StallKind.FULL
        and call is not None
        and (facts.case.groups[call.group].learned == "listed" or not is_shown_whole(facts, call))
    ):
        ended = sorted(
            (f for f in found if _can_end_member(facts, f)), key=lambda f: not _is_of_named_node(f.events[0])
        )
        return _recorded_end(facts, stall, ended) if ended else None
    if stall.kind is StallKind.CRASH and found:
        certain = [f for f in found if f.certain]
        untimed = all(f.when != f.when for f in found)
        ordered = sorted(found, key=lambda f: not f.ranks) if untimed else found
        return _recorded_end(facts, stall, [f for f in certain if f.ranks] or certain or ordered)
    return _quiet_and_gone(facts, stall)


def _whole_host(facts: Facts, stall: ObservedStall, failure: Failure) -> Failure:
    """The failure of a node with the other missing ranks that it may have held.

    No line names their host, and all missing ranks together are as many as a host holds.
    """
    is_placed = any(rank in facts.case.rank_host for rank in stall.ranks - failure.ranks)
    if is_placed or not is_usual_block(stall.ranks) or not _is_of_named_node(failure.events[0]):
        return failure
    return replace(failure, ranks=failure.ranks | stall.ranks)


def _is_of_named_node(event: Event) -> bool:
    """True when the scheduler says which node failed, and not only where the job's first host is."""
    return isinstance(event, SchedulerEvent) and failed_node(event.detail) is not None


def _can_end_member(facts: Facts, failure: Failure) -> bool:
    """True of an end that may have taken a member whose lines were not read.

    Not the time limit of a job, which ends a job that hangs as well, and no end of which nobody says how it came, unless a peer lost it.
    """
    event = failure.events[0]
    if isinstance(event, ProcessExit):
        is_missed = event.exitcode is None and any(e.code == "ncclRemoteError" for e in facts.case.of(NcclError))
        return event.signal is not None or event.exitcode not in (None, 1) or is_missed
    return not (isinstance(event, SchedulerEvent) and event.what == "time-limit")


def _quiet_and_gone(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that few ranks ended: they never complained, and the others first lost a connection."""
    gone = stall.quiet
    if gone is None or not gone.connection_broke or any(stall.alive(r) for r in gone.ranks):
        return None
    if not frozenset(gone.ranks) <= facts.case.unlisted_ranks.keys():
        return stall.conclude_quiet(gone, "absent.quiet-and-gone")
    found = stall.conclude_quiet(gone, "absent.quiet-and-unlisted")
    rows = [_row_beside(facts, r) for r in list(gone.ranks)[:2]]
    doubts = (doubt_of("inferred-from-table", left=True),)
    return replace(found, citations=[*rows, *found.citations], doubts=doubts)


def _nameless_end(facts: Facts, stall: ObservedStall) -> list[Failure]:
    """Returns the failure for a kill that a launcher reports under a local rank only.

    It is of the one rank that can be missing, else of any rank that others wait for. One kill ends one rank: where the
    others wait for several, it may be of each.
    """
    nameless = (f for f in facts.failures if f.cause is CAUSE and not f.ranks)
    near = (f for f in nameless if not f.suspects or f.suspects & stall.ranks)
    kills = [f for f in near if isinstance(f.events[0], ProcessExit | OutOfMemory)]
    ranks = stall.named
    one = ranks if len(ranks) == 1 and stall.ranks == facts.wait_graph.roots else Ranks()
    return [replace(f, ranks=one, suspects=facts.wait_graph.roots - one, certain=False) for f in kills[:1]]


def _recorded_end(facts: Facts, stall: ObservedStall, found: Sequence[Failure]) -> Hypothesis:
    first = found[0]
    # one line may end several: "tasks 1-3: Out Of Memory"
    at, is_any = first.events[0].place, stall.kind is StallKind.ABSENT
    together = [f for f in found if is_any or f.when == first.when or f.events[0].place == at]
    ranks = Ranks(r for f in together for r in f.ranks)
    evidence: list[Citation] = [Line(e, ends.ended_by_record(e)) for f in together[:6] for e in f.events[:2]]
    evidence.append(Waiting(stall.call))
    evidence += [e for r in list(ranks)[:2] for e in _silent_end(facts, r)] + show_lost_connections(facts, ranks)
    end = first.events[0]
    unsaid = isinstance(end, ProcessExit) and end.exitcode in (None, 1) and end.signal is None
    doubts = []
    if isinstance(end, ProcessExit) and end.is_heartbeat_loss:
        doubts.append(doubt_of("heartbeats-only"))
    elif unsaid:
        doubts.append(doubt_of("unsaid-end"))
    elif isinstance(end, ProcessExit) and end.is_unexplained_abort:
        doubts.append(doubt_of("unread-abort"))
    if not first.certain:
        doubts.append(doubt_of("may-have-followed"))
    if not ranks:
        peers = Ranks(e.peer for e in facts.case.of(PeerTimeout) if e.peer is not None)  # HCCL tells who was waited for
        is_loss = len(peers) == 1 and isinstance(end, ProcessExit) and end.is_heartbeat_loss
        doubts.append(doubt_of("peer-in-group", peers=peers) if is_loss else doubt_of("rank-unknown"))
    return Hypothesis(
        _words_of_end(facts, stall, found, ranks),
        evidence,
        doubts,
        ranks=ranks,
        suspects=first.suspects,
        call=stall.call,
        refuted_by=say("refuted.ran-after-end", ranks=ranks),
    )


def _words_of_end(facts: Facts, stall: ObservedStall, found: Sequence[Failure], ranks: Ranks) -> Headline:
    """Who ended and how, and the call that the ranks did not reach."""
    events = found[0].events
    call = stall.what if stall.call is not None else ""
    if stall.kind is StallKind.ABSENT and ranks:
        lost = ends.host_lost(events, ranks, call)
        return lost or ends.before(ends.ended(who(facts.case, ranks), ranks, events), call)
    if lost := ends.host_lost(events, ranks, ""):
        return lost
    named = _processes(found, who(facts.case, ranks) if ranks else ends.subject_of_end(events[0]))
    ended = ends.ended(named, ranks, events)
    return ends.with_waiting(ended, stall.call.inside - ranks, call) if stall.call is not None else ended


def _processes(found: Sequence[Failure], name: str) -> str:
    """The process that ended; more where no record says how. A line without a pid adds none: Ray tells of one end repeatedly."""
    end = found[0].events[0]
    is_unsaid = isinstance(end, ProcessExit) and end.exitcode is None and ending_signal(end) is None
    if not is_unsaid or (isinstance(end, ProcessExit) and end.is_heartbeat_loss):
        return name
    ends_of_others = (e for f in found[1:] for e in f.events[:1] if isinstance(e, ProcessExit) and e.rank is None)
    others = [e for e in ends_of_others if e.pid not in (None, end.pid)]
    if others and end.pid is None and name == ends.process_name(end):
        name, others = ends.process_name(others[0]), others[1:]
    more = [f"{len(others) - 1} more"] if len(others) > 1 else []
    return and_list([name, *(ends.process_name(e) for e in others[:1]), *more])


def _left_early(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that ranks ended without failing while the others still wait for them: with 0, or unlisted.

    Torchrun's table lists all ranks of a node that it still had, with -15 for those it closed: a rank that is missing there had
    ended before.
    """
    own = facts.liveness.activity
    undumped = [r for r in stall.named | stall.proven_absent if own(r).dump == "none"]
    zeros = {r: e for r in undumped for e in own(r).exits if e.exitcode == 0}
    gone = (r for r in stall.named if not (own(r).exits or own(r).teardown or own(r).is_alive))
    ranks = Ranks(zeros or gone)
    is_left_out = frozenset(ranks - zeros) <= facts.case.unlisted_ranks.keys()
    has_kept = stall.call is not None and bool(show_kept_connections(facts, stall.call))
    if not ranks or not is_left_out or (has_kept and not zeros):
        return None
    evidence: list[Citation] = [
        Line(own(r).exits[0], say("ends.exited-by-record", rank=r, code=0)) for r in sorted(zeros)
    ]
    evidence += [citation for r in ranks - zeros for citation in (_row_beside(facts, r), *_silent_end(facts, r))]
    key = "ends.exited-early" if zeros else "ends.exited-unlisted"
    return Hypothesis(
        headline_of(key, who=who(facts.case, ranks), call=stall.what),
        [*evidence, Waiting(stall.call)],
        () if zeros else (doubt_of("inferred-from-table", left=are_only_ones_left(facts, ranks)),),
        ranks=ranks,
        call=stall.call,
    )


def _row_beside(facts: Facts, rank: int) -> Citation:
    """A row of the launcher's table that leaves this rank out."""
    rows = facts.case.unlisted_ranks[rank]
    return Line(rows[0], say("ends.unlisted", host=rows[0].host, listed=len(rows), rank=rank))


def _broken_connection(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that one absent, silent rank ended: connections of its peers broke. The others complain or dump."""
    own = facts.liveness.activity
    silent = Ranks(r for r in stall.named if not own(r).is_alive and not own(r).secondary_errors)
    errors = (e for e in facts.case.events.of_kind(SocketError, ExceptionRaised) if e.rank not in silent)
    broken = [e for e in errors if is_broken(e) and can_precede_alarm(facts.liveness, e)]
    if not broken or not silent or len(silent) > 1 or not has_connection_broken_first(facts):
        return None
    evidence: list[Citation] = [Line(e, say("ends.connection-broke", rank=e.rank)) for e in broken[:3]]
    evidence += [Waiting(stall.call), *(e for r in silent for e in _silent_end(facts, r))]
    exits = [e for r in silent for e in facts.liveness.activity(r).exits]
    doubts = [doubt_of("unread-abort") for e in exits[:1] if e.is_unexplained_abort]
    if not silent & facts.liveness.logged:
        doubts.append(doubt_of("no-lines-of-rank"))
    return Hypothesis(
        headline_of("ends.connections-broke", who=who(facts.case, silent), call=stall.what),
        evidence,
        doubts,
        ranks=silent,
        call=stall.call,
    )
