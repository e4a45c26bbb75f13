"""A rank shows no sign of life at all, yet no exit is recorded.

How we know: the others dumped, complained or answered after the stall began and this rank did not, and where exits are recorded
there is none of it (or the launcher had to kill it because it did not obey the closing signal).
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import is_manual_dump
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.silence import (
    can_have_obeyed,
    doubts_of_silence,
    is_cut_short,
    is_telling,
    ranks_with_damaged_dumps,
    show_kept_connections,
)
from nccldoctor.diagnose.signs.where_ranks_stand import show_asked_in_vain
from nccldoctor.events import DumpNote, DumpSignal, ProcessExit
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks


@rule(CauseClass.FROZEN, refuted_by=say("refuted.life"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that the absent ranks froze: they are silent where the others are not."""
    if stall.kind in (StallKind.NOTHING, StallKind.CRASH):
        quiet = stall.quiet
        if quiet is None or quiet.connection_broke or any(stall.is_shown_alive(rank) for rank in quiet.ranks):
            return None
        if not is_telling(facts, quiet.ranks):
            return None
        return stall.conclude_quiet(quiet, "absent.quiet-and-silent")
    if stall.kind is not StallKind.ABSENT or stall.call is None or stall.is_scattered:
        return None
    silent = Ranks(r for r in stall.named if facts.liveness.activity(r).waiting_stack is None)
    ranks = silent - ranks_with_damaged_dumps(facts)
    return _without_life(facts, stall, stall.call, ranks) if ranks and is_telling(facts, ranks) else None


def _without_life(facts: Facts, stall: ObservedStall, call: StuckCall, ranks: Ranks) -> Hypothesis | None:
    liveness = facts.liveness
    others = facts.case.groups[call.group].members - ranks
    exits = _exits_of_others(facts, ranks, others)
    has_log = bool(ranks & liveness.logged)
    connected = show_kept_connections(facts, call) if has_log else []
    # a signal had stopped all of them
    states = [(rank, facts.liveness.activity(rank).stopped) for rank in ranks]
    shown = [Line(s, say("stacks.seen", who=f"rank {rank}", doing="stopped")) for rank, s in states if s]
    stopped = shown[:3] if len(shown) == len(ranks) else []
    signs = _last_signs(facts, stall, ranks)
    citations = [*stopped, *signs, Waiting(call), *_dump_reply(facts, others), *exits, *connected]
    spoke = Ranks(r for r in facts.case.world - ranks if liveness.activity(r).is_alive)
    is_cut = is_cut_short(facts)
    has_records = bool(exits or stopped) or has_log
    # in a merged log, and where all other ranks left a dump, silence means something; lines of one rank alone are no merged log
    is_merged = len(spoke) > 1 or bool(spoke & liveness.dumped)
    is_uncollected = liveness.per_rank_logs or not is_merged or 2 * len(spoke) < len(facts.case.world) - 1
    # dumps of a running job show calls in flight elsewhere too
    is_only_stall = bool(liveness.logged) or (len(facts.stalls) == 1 and not call.completed)
    if not has_records and (is_uncollected or is_cut or not is_only_stall):
        return None  # the files of the ranks may not have been collected: their absence shows nothing
    doubts = [*doubts_of_silence(facts, stall, ranks)]
    has_nameless = any(e.rank is None and not e.was_closed for e in facts.case.of(ProcessExit))
    if not (has_records and len(spoke) >= 2 and (exits or connected or stopped)):
        is_known = has_log and len(spoke) >= 2 and len(ranks) == 1
        doubts.append(doubt_of("no-exit-record", known=is_known, nameless=has_nameless))
    was_there = all(liveness.activity(r).last_event is not None or r in facts.progress.last_row for r in ranks)
    named = who(facts.case, ranks)
    was_asked = any(can_have_obeyed(facts, r) for r in ranks)
    has_exited_not = bool(exits) and not was_asked
    what, is_open = stall.what, not (has_exited_not or has_nameless)
    silent = headline_of("absent.went-silent", who=named, call=what, never_exited=has_exited_not, unrecorded=is_open)
    unseen = headline_of("absent.no-sign-of-life", who=named, ranks=ranks, call=what)
    return Hypothesis(
        headline_of("absent.is-stopped", who=named, ranks=ranks, call=what)
        if stopped
        else silent
        if was_there
        else unseen,
        citations,
        doubts,
        ranks=ranks,
        suspects=stall.ranks - ranks,
        call=call,
        refuted_by=say("refuted.showed-life", ranks=ranks),
    )


def _last_signs(facts: Facts, stall: ObservedStall, ranks: Ranks) -> list[Citation]:
    citations: list[Citation] = []
    for rank in list(ranks)[:3]:
        citations += stall.outside(rank)
        last = facts.liveness.activity(rank).last_event
        citations += show_asked_in_vain(facts, Ranks([rank]))
        if last is not None:
            citations.append(Line(last, _words_of_last_line(facts, stall, rank)))
    return citations


def _words_of_last_line(facts: Facts, stall: ObservedStall, rank: int) -> str:
    """That it is from before the stall; where all peers printed a timeout, that this rank did not."""
    call = stall.call
    members = facts.case.groups[call.group].members if call is not None else Ranks()
    gave_up = Ranks(r for r in members if facts.liveness.activity(r).alarms)
    if call is None or len(gave_up) < 2 or members - gave_up != Ranks([rank]):
        return say("absent.last-line-before", rank=rank)
    return say("absent.alone-without-timeout", rank=rank, others=len(gave_up), members=len(members))


def _dump_reply(facts: Facts, others: Ranks) -> list[Line]:
    """The dump signal went round: another rank answered it."""
    reply = next((e for e in facts.case.events.of_kind(DumpSignal, DumpNote) if e.rank in others), None)
    if reply is None:
        return []
    is_asked = isinstance(reply, DumpNote) and reply.what == "on-request"
    says = "absent.answered-debug-server" if is_asked else "absent.answered-dump-request"
    return [Line(reply, say("absent.wrote-dump" if is_manual_dump(reply) else says, rank=reply.rank))]


def _exits_of_others(facts: Facts, ranks: Ranks, others: Ranks) -> list[Line]:
    """An exit record of another rank, where the launcher still had the processes of all these ranks.

    Of a rank that the launcher killed, its own record shows as much.
    """
    exited = facts.liveness.exited & others
    if not exited or not all(_was_still_running(facts, rank) for rank in ranks):
        return []
    killed = [facts.liveness.activity(rank).exits[0] for rank in ranks & facts.liveness.exited]
    if killed and killed[0].signal == "SIGKILL":
        return [Line(killed[0], say("absent.still-running", rank=min(ranks & facts.liveness.exited)))]
    asked = [t for rank in ranks for t in facts.liveness.activity(rank).teardown if t.what == "closing-signal"]
    if asked and asked[0].rank is not None:
        return [Line(asked[0], say("absent.was-asked-to-exit", rank=asked[0].rank), observer="launcher")]
    exits = facts.liveness.activity(min(exited)).exits[:1]
    return [Line(e, say("absent.exits-of-others", ranks=ranks)) for e in exits]


def _was_still_running(facts: Facts, rank: int) -> bool:
    """True when the launcher had to close or kill the process as it closed the job.

    Launchers list failures only: a rank that exited with 0 is missing from their tables as well.
    """
    activity = facts.liveness.activity(rank)
    if activity.exits:
        return all(e.exitcode in (None, -9, 137) for e in activity.exits)
    return any(t.what in ("forced-kill", "closing-signal") for t in activity.teardown)
