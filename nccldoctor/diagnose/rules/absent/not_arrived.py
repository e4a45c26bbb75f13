"""A rank is alive and never issued the call that the others wait in.

What it means: it is busy or blocked elsewhere: data, a checkpoint, evaluation, a lock, another phase. Ranks 0-6 wait in ALLREDUCE #18,
rank 7 last enqueued #17 and its stack is in ``save_checkpoint``.
How we know: its dump or its counters stop before the call, or it is the only member not in it; and it shows life after the stall
began: a dump, an answer to the dump signal, a line, a stack, death by the closing SIGTERM.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.align.descriptions import describe_missing
from nccldoctor.align.exits import last_trouble
from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import counters_of
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.unrecorded_waits import has_hidden_transfers
from nccldoctor.align.world.ledger import ranks_with_lost_peer
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting, is_cited
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import BLOCKED, was, who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.framework_reports import cite, end_of_chain, named_ranks
from nccldoctor.diagnose.signs.log_endings import has_lost_its_end
from nccldoctor.diagnose.signs.silence import doubts_of_silence, is_telling, ranks_with_damaged_dumps
from nccldoctor.diagnose.signs.traceback_diffs import own_place
from nccldoctor.events import (
    DesyncReport,
    DumpSignal,
    ExceptionRaised,
    FrAnalysis,
    MonitoredBarrier,
    NcclError,
    NcclWarn,
    Note,
)
from nccldoctor.model import CauseClass, Doubt, Group, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import call_title

STATE_UNKNOWN = doubt_of("state-unknown")


@rule(CauseClass.NOT_ARRIVED, refuted_by=say("refuted.record"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks outside the call that show life; else those that a report names."""
    if stall.kind is not StallKind.ABSENT:
        return (
            _named_by_report(facts, stall)
            or _named_by_framework(facts, stall)
            or _end_of_peers(facts)
            or _quiet_and_not_gone(facts, stall)
            or _at_prompt(facts, stall)
        )
    if stall.is_scattered:
        return None
    activity = facts.liveness.activity
    busy = Ranks(rank for rank in stall.ranks if activity(rank).busy_stack)
    outside = stall.named or busy or _closed_by_launcher(facts, stall)
    logged = _absent_by_coll_lines(facts, stall)
    alive = Ranks(
        rank
        for rank in outside | _without_dump(facts, stall)
        if (stall.alive(rank) or rank in logged) and (rank in stall.proven_absent or not activity(rank).waiting_stack)
    )
    if alive:
        return _never_issued(facts, stall, alive)
    silent = Ranks(r for r in stall.named if activity(r).waiting_stack is None and not activity(r).is_alive)
    silent -= ranks_with_damaged_dumps(facts)
    if not silent or (is_telling(facts, silent) and not _is_only_one_unread(facts, silent)):
        return None
    # nothing shows whether they are busy, frozen or gone, unless they ended with an exception that reports another failure
    unread = [] if silent & facts.liveness.logged else [doubt_of("uncollected")]
    state = doubt_of("ended-by-echo") if all(_last_exception(facts, rank) for rank in silent) else STATE_UNKNOWN
    state = doubt_of("blocked-in-kernel") if all(stall.busy(rank)[0] == BLOCKED for rank in silent) else state
    return _never_issued(facts, stall, silent, [state, *unread, *doubts_of_silence(facts, stall, silent)])


def _last_exception(facts: Facts, rank: int) -> ExceptionRaised | None:
    """The exception with which a rank ended, if that was the last that went wrong there and nothing caught it."""
    last = last_trouble(facts.case, facts.liveness, rank)
    if isinstance(last, NcclWarn):  # an exception of PyTorch may quote it
        quoting = {e.place for e in facts.case.of(NcclError) if e.rank == rank and last.place.is_below(e.place)}
        last = next((e for e in facts.case.of(ExceptionRaised) if e.place in quoting), last)
    return last if isinstance(last, ExceptionRaised) and last.is_uncaught and last.type else None


def _is_only_one_unread(facts: Facts, silent: Ranks) -> bool:
    """True of one rank of which nothing was read. All others left something, one gave up, and none lost a connection."""
    read = facts.liveness.dumped | facts.liveness.logged
    is_alone = len(facts.stalls) == len(silent) == 1 and frozenset(facts.case.world - silent) <= read
    lost = next(ranks_with_lost_peer(facts.case, facts.liveness), None)
    return is_alone and not silent & read and facts.liveness.first_alarm is not None and lost is None


def _never_issued(facts: Facts, stall: ObservedStall, alive: Ranks, more_doubts: Sequence[Doubt] = ()) -> Hypothesis:
    citations: list[Citation] = []
    activity = ""
    for rank in list(alive)[:3]:
        words, shown = stall.busy(rank)
        activity = activity or words
        citations += [*stall.outside(rank), *shown]
        citations += [citation for citation in stall.alive(rank) if not is_cited(citation, citations)]
    ended = next((e for rank in alive if (e := _last_exception(facts, rank))), None) if not activity else None
    doing = was(alive, activity)
    if ended:
        what, place = ended.type.rpartition(".")[2], own_place(ended)
        doing = say("ends.by-exception", many=len(alive) > 1, what=what, place=place)
    # where all that is known are dumps of gloo and the like, which record no sends
    own = [facts.liveness.activity(rank) for rank in alive]
    can_wait = has_hidden_transfers(facts.case) and not any(left.stacks or left.logged for left in own)
    call = stall.call
    members = facts.case.groups[call.group].members if call is not None else Ranks()
    is_split_evenly = len(members) > 2 and 2 * len(alive) >= len(
        members
    )  # no majority says which half is in the right place
    doubtful = can_wait and (is_split_evenly or _has_doubtful_group(facts, alive))
    learned = facts.case.groups[call.group].learned if call is not None else "assumed"
    unknown = (stall.ranks | (call.unknown if call is not None else Ranks())) - alive
    if call is not None and not call.unknown and learned not in ("assumed", "log"):
        unknown = Ranks()  # every member is known to be inside, or proven to be outside
    doubts = [*more_doubts]
    if stall.inferred:
        doubts.append(doubt_of("order-of-steps"))
    if doubtful or (can_wait and len(facts.case.groups) > 1):
        doubts.append(doubt_of("unrecorded-transfers"))
    if not _is_few(facts, stall, alive):
        doubts.append(doubt_of("many-outside", count=len(alive)))
    if unknown:
        doubts.append(doubt_of("no-record-of", ranks=unknown))
    if any(has_lost_its_end(e) for e in facts.case.of(ExceptionRaised) if e.rank in alive):
        doubts.append(doubt_of("cut-traceback"))
    elif errors := _unexplained_errors(facts, alive):
        doubts.append(doubt_of("error-unexplained", ranks=errors))
    # without a line of its own a rank may wait in a call of another group, whose watchdog with a longer limit is still silent
    is_alone = bool(alive & facts.liveness.logged) and (bool(stall.proven_absent) or len(facts.case.groups) == 1)
    if not doing and not is_alone:
        doubts.append(doubt_of("no-activity", proven=alive <= stall.proven_absent))
    owed = describe_missing(facts, stall.call)
    never = "absent.never-posted" if owed != stall.what else "absent.never-reached"
    return Hypothesis(
        headline_of(never, who=who(facts.case, alive), call=owed, doing=doing),
        [*citations, Waiting(stall.call)],
        doubts,
        ranks=Ranks() if doubtful else alive,
        suspects=alive if doubtful else unknown,
        call=stall.call,
        refuted_by=say("refuted.had-a-record", ranks=alive, call=owed),
    )


def _unexplained_errors(facts: Facts, ranks: Ranks) -> Ranks:
    """Those of the ranks that marked a line as an error, in words which no parser knows."""
    marked = {e.place: e.rank for e in facts.case.of(Note) if e.what == "marked" and e.rank in ranks}
    known = {e.place for e in facts.case.events if e.rank in ranks and not isinstance(e, Note)} if marked else set()
    return Ranks(rank for place, rank in marked.items() if rank is not None and place not in known)


def _is_few(facts: Facts, stall: ObservedStall, alive: Ranks) -> bool:
    """True when they are proven absent or a third of the job at most.

    False for a transfer of a group whose members are assumed: then a grid that nobody recorded says whose other end it is.
    """
    call = stall.call
    if call is not None and call.pair is not None and facts.case.groups[call.group].learned == "assumed":
        return False
    return bool(stall.proven_absent) or 3 * len(alive) <= len(facts.case.world)


def _has_doubtful_group(facts: Facts, ranks: Ranks) -> bool:
    """True when a rank made its last call in a group of which a possible member left no dump.

    Example: ranks 2 and 3 share a group, rank 3 left no dump, and rank 2 recorded BROADCAST #9 as completed. Gloo retires a call that
    fails as well, so that #9 may have failed because rank 3 was gone.
    """
    without_dump = facts.case.world - facts.liveness.dumped
    for rank in ranks:
        row = facts.progress.last_row.get(rank)
        group = facts.case.groups[facts.case.call_group[row]] if row is not None else None
        if group is None or group.desc == "default_pg":
            continue
        placed = {r for sister in facts.case.groups if sister.desc == group.desc for r in sister.members}
        if without_dump & group.members or (group.learned == "entries" and without_dump - placed):
            return True
    return False


def _absent_by_coll_lines(facts: Facts, stall: ObservedStall) -> Ranks:
    """Ranks whose COLL lines stop before the call, where most others are as silent: nothing says that they froze there."""
    counters, call = counters_of(facts, stall.call), stall.call
    if call is None or counters is None or counters.observer == "ras":
        return Ranks()
    activities = [facts.liveness.activity(rank) for rank in call.inside]
    complaining = [activity for activity in activities if activity.alarms or activity.secondary_errors]
    return stall.proven_absent if 2 * len(complaining) < len(call.inside) else Ranks()


def _closed_by_launcher(facts: Facts, stall: ObservedStall) -> Ranks:
    """Silent ranks that the launcher closed, where all others gave up by themselves: they had nothing to give up on.

    More than a third of the job may merely have been closed before they printed it, unless they are just the ranks of one host.
    """
    call, case = stall.call, facts.case
    if call is None or call.missing or case.world_size is None:
        return Ranks()
    if 3 * len(call.unknown) > len(case.world) and not facts.hosts.is_whole(call.unknown):
        return Ranks()
    activity = facts.liveness.activity
    closed = all(any(e.was_closed for e in activity(rank).exits) for rank in call.unknown)
    is_whole_job = frozenset(case.world) <= call.entered | call.unknown
    others = call.inside if is_whole_job else case.world - call.unknown
    return call.unknown if closed and all(activity(rank).alarms for rank in others) else Ranks()


def _without_dump(facts: Facts, stall: ObservedStall) -> Ranks:
    """Returns the ranks whose dump is lost, but which answered the dump signal and did not give up.

    Every rank in the call must have given up. These ranks join ranks that are proven absent: rank 6 has no record of
    ALLREDUCE #18 in its dump, and the dump of rank 7 is lost.
    """
    call, activity = stall.call, facts.liveness.activity
    if call is None or not stall.proven_absent or not all(activity(rank).alarms for rank in call.entered):
        return Ranks()
    return Ranks(rank for rank in call.unknown if activity(rank).dump_replies and not activity(rank).alarms)


def _named_by_report(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A monitored barrier, a desync report or PyTorch's analyser names who did not come, and no dump says otherwise.

    A monitored barrier is no call that a recorder notes, so that nothing in the dumps seems to wait.
    """
    case = facts.case
    barriers = [e for e in case.of(MonitoredBarrier) if e.missing]
    is_idle = bool(barriers) and stall.kind in (StallKind.NOTHING, StallKind.CRASH)
    if stall.kind is StallKind.CYCLE or (facts.progress.recorded_ranks and not is_idle):
        return None
    reports = [e for e in case.of(DesyncReport) if e.laggards]
    analysed = [e for e in case.of(FrAnalysis) if e.missing]
    missing = [e.missing for e in barriers] + [e.missing for e in analysed]
    ranks = Ranks(rank for ranks in missing for rank in ranks)
    ranks = ranks or Ranks(r for e in reports for r in e.laggards if not facts.wait_graph.waits_in.get(r))
    size = max(2, len(case.world), *(e.expected or 0 for e in analysed))
    are_most = 2 * len(ranks) > size
    if not ranks or (are_most and not (analysed and len(ranks) < size)):
        return _nothing_outstanding(facts) if stall.kind is StallKind.NOTHING else None
    citations: list[Citation] = [Line(e, say("absent.missing-at-barrier", ranks=e.missing)) for e in barriers[:3]]
    citations += [Line(e, say("absent.named-by-desync", ranks=e.laggards)) for e in reports[:3]]
    citations += [Line(e, say("absent.missing-by-analyzer", ranks=e.missing)) for e in analysed[:3]]
    citations += [citation for rank in list(ranks)[:3] for citation in stall.alive(rank)[:2]]
    refs = [(e, e.group) for e in analysed]
    groups = [Group(0, ref.uid or "", ref.desc or "", e.members, "entries").label if ref else None for e, ref in refs]
    compared = [Stalled(e.op, e.seq, group=g, entered=e.members - ranks) for e, g in zip(analysed, groups, strict=True)]
    calls = [one for one in (*(Stalled(e.op, e.seq) for e in reports), *compared) if one.op or one.seq is not None]
    entered = Ranks(e.rank for e in case.of(MonitoredBarrier) if e.rank is not None)
    sure = bool(barriers) and frozenset(case.world) <= entered | ranks and all(stall.alive(rank) for rank in ranks)
    call = next((call_title(one.op, one.seq) for one in calls if one.op and one.seq is not None), "the collective")
    doubts = [] if sure else [doubt_of("only-pytorch-report")]
    named = who(case, ranks)
    return Hypothesis(
        headline_of("absent.never-reached", who=named, call="the monitored barrier", doing="")
        if barriers
        else headline_of("absent.never-reached-by-report", who=named, call=call, by="PyTorch's own report"),
        citations,
        [doubt_of("most-outside"), *doubts] if are_most else doubts,
        ranks=Ranks() if are_most else ranks,
        suspects=ranks if are_most else Ranks(),
        stalled=replace(calls[0], missing=ranks) if calls else None,
    )


def _named_by_framework(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The coordinator of another framework shows which ranks did not come, and they are no majority."""
    world = facts.case.world
    reports = [e for e in stall.job.open_reports if e.what != "set-up" and e.absent_ranks(world)]
    ranks = named_ranks(reports, world)
    size = max((e.size or 0 for e in reports), default=0)
    if not ranks or 2 * len(ranks) > max(2, size, len(world)):
        return None
    first = reports[0]
    is_logged = ranks <= facts.liveness.logged
    others = Ranks(e.rank for e in reports if e.rank is not None) | (r for e in reports for r in e.reached)
    doubts = [doubt_of("only-framework", by=first.by)]
    if first.arrived is not None and first.size is not None and len(ranks) < first.size - first.arrived:
        doubts.append(doubt_of("lists-some", by=first.by))
    elif not first.missing and facts.case.world_size is None:
        doubts.append(doubt_of("lists-arrived", by=first.by))
    elif is_logged:
        doubts = [doubt_of("framework-without-stack", by=first.by)]
    came_late = [
        e for e in reports if e.rank in ranks and any(o.rank not in ranks and o.is_of_same_call(e) for o in reports)
    ]
    is_late = {e.rank for e in came_late} == set(ranks)
    misses = "reports.framework-misses-late" if is_late else "reports.framework-misses"
    life = [citation for rank in list(ranks)[:3] for citation in stall.alive(rank)[:2]]
    own = [Line(e, say("reports.framework-own-timeout", rank=e.rank, what=e.what)) for e in came_late[:3]]
    return Hypothesis(
        headline_of(misses, who=who(facts.case, ranks), what=first.what, call=first.call, by=first.by),
        [*cite([e for e in reports if e not in came_late]), *own, *life],
        doubts,
        ranks=ranks,
        victims=others - ranks,
        stalled=Stalled(first.call, None, entered=others - ranks, missing=ranks),
        refuted_by=say("refuted.in-time") if is_late else say("refuted.same-call"),
    )


def _end_of_peers(facts: Facts) -> Hypothesis | None:
    """Ranks that gave up on peers, and the one peer that complains of nobody."""
    ranks, waits = end_of_chain(facts)
    if not ranks or any(facts.liveness.activity(rank).alarms for rank in ranks):
        return None
    waiting = Ranks(e.rank for e in waits if e.rank is not None) - ranks
    group = waits[0].group.spoken if waits[0].group is not None else None
    key = "absent.missed-by-all" if len({e.peer for e in waits}) == 1 else "absent.end-of-chain"
    call = waits[0].op
    is_named = call is not None and " " in call and "#" not in call  # such as *DeepEP barrier*: it has no number
    return Hypothesis(
        headline_of(key, who=who(facts.case, ranks), call=call, is_named=is_named),
        [Line(e, say("absent.waited-for-peer", rank=e.rank, peer=e.peer)) for e in waits[:4]],
        (doubt_of("group-numbers"),),
        ranks=ranks,
        victims=waiting,
        stalled=waits[0].stalled(waiting, group, missing=ranks),
    )


def _quiet_and_not_gone(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks that alone did not give up: they show life, or nothing would show whether they froze."""
    quiet = stall.quiet
    if quiet is None or quiet.connection_broke:
        return None
    found = stall.conclude_quiet(quiet, "absent.quiet-but-alive" if quiet.is_one_place else "absent.quiet-while-apart")
    if all(stall.is_shown_alive(rank) for rank in quiet.ranks):
        return found
    if any(stall.is_shown_alive(rank) for rank in quiet.ranks) or is_telling(facts, quiet.ranks):
        return None
    return replace(found, doubts=(*found.doubts, STATE_UNKNOWN))


def _at_prompt(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The few ranks that stand at a breakpoint, or a question of the program, where nobody complains or fails.

    The prompt is the last thing that they wrote, and no step of them follows it.
    """
    if stall.kind is not StallKind.NOTHING or facts.liveness.first_alarm is not None or facts.failures:
        return None
    prompts = {
        e.rank: e for e in stall.job.health.troubles if isinstance(e, Note) and e.is_prompt and e.rank is not None
    }
    ranks = Ranks(rank for rank in prompts if rank is not None)
    if not 0 < 2 * len(ranks) < len(facts.case.world):
        return None
    return Hypothesis(
        headline_of("absent.at-prompt", who=who(facts.case, ranks), ranks=ranks),
        [Line(e, say("absent.waits-for-input", rank=e.rank)) for e in [*prompts.values()][:3]],
        [doubt_of("no-proof-of-wait")],
        ranks=ranks,
        refuted_by=say("refuted.answered-prompt"),
    )


def _nothing_outstanding(facts: Facts) -> Hypothesis | None:
    """Ranks whose counters report nothing outstanding while the watchdog of another rank fired.

    Only where they are few and no other group is known: their last call in another group would be finished as well.
    """
    signals = [e for e in facts.case.of(DumpSignal) if None not in (e.rank, e.last_enqueued, e.last_completed)]
    level = (e for e in signals if e.last_enqueued == e.last_completed and (e.last_completed or 0) >= 0)
    idle = Ranks(e.rank for e in level if e.rank is not None)
    fired = Ranks(e.from_rank for e in signals if e.from_rank is not None and e.from_rank >= 0) - idle
    busy = Ranks(e.rank for e in signals if e.rank is not None) - idle
    if not idle or not fired or len(facts.case.groups) > 1 or len(idle) > max(1, len(busy)):
        return None
    return Hypothesis(
        headline_of("absent.not-in-timed-out-call", who=who(facts.case, idle), fired=fired),
        [Line(e, say("absent.nothing-outstanding", rank=e.rank, fired=fired)) for e in signals if e.rank in idle][:3],
        (doubt_of("may-be-other-group"),),
        ranks=idle,
    )
