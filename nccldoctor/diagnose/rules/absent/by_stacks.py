"""A rank stands outside the call that its peers wait in, by stacks taken while the job hung.

What it means: the ranks in the call wait for those outside it. Ranks 0-2 stand in ``all_reduce``, rank 3 in ``next_batch``.
How we know: ranks are grouped by where their main threads stand. One look is a snapshot of a job that may go on; two looks at which the
same ranks wait and the same ones are elsewhere say more, and so do logs whose steps stopped long before the look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.align.standing.outside import Standing, comparable, standing_of
from nccldoctor.align.standing.stances import Posture, Stance, is_transfer
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import ongoing, who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs import where_ranks_stand as where
from nccldoctor.events import ProcessState
from nccldoctor.model import CauseClass, Doubt, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.questions.patience import has_waited_long, is_on_its_way
from nccldoctor.questions.process import ASKS_A_PERSON


@rule(CauseClass.FROZEN, refuted_by=say("refuted.runs-later"), before=CauseClass.INIT)
def judge_process(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The processes that are stopped or gone while others wait."""
    standing = where.standing_at_rest(facts, stall)
    gone = tuple(s for s in standing.outside if s.posture.is_gone)
    return _outside(facts, replace(standing, outside=gone)) if gone and standing.waiting else None


@rule(CauseClass.EXTRA_CALL, refuted_by=say("refuted.later-look"), before=CauseClass.INIT)
def judge_group_of_few(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The few that make a group while most wait in a call: ranks 0-1 in ``new_group``, 2-5 in ``all_reduce``."""
    standing = where.standing_at_rest(facts, stall)
    makes = bool(standing.apart) and all(s.posture is Posture.SET_UP for s in standing.apart)
    return _apart(facts, standing) if makes else None


@rule(CauseClass.UNDETERMINED, refuted_by=say("refuted.later-look"), before=CauseClass.NOT_ARRIVED)
def judge_work(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks that work while others wait for them, no longer than work may take: nobody is blamed yet."""
    is_open = facts.liveness.first_alarm is None and not facts.failures and not facts.looks.has_gone_on
    standing = standing_of(facts.looks, facts.case.world) if is_open else Standing()
    late, first = standing.outside, where.in_most_common_call(standing.waiting)
    is_same = where.has_no_record(facts, stall) or stall.ranks == where.known_ranks(late)
    if not is_same or not is_on_its_way(facts, standing):
        return None
    name, peers, does = where.who(facts.case, late), where.who(facts.case, first), where.what_it_does(facts, late)
    wait = where.waits_in(first) if first[0].path else None
    return Hypothesis(
        headline_of("stacks.on-its-way", who=name, many=late, doing=does, waiting=peers, are_many=first, wait=wait),
        [*where.show(facts, late), *where.show(facts, first)[:4]],
        (doubt_of("may-end-by-itself"),),
        suspects=where.known_ranks(late),
    )


@rule(CauseClass.NOT_ARRIVED, refuted_by=say("refuted.later-look"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The ranks outside; else those apart, else those without a stack, else nobody where all are in one call."""
    standing = where.standing_at_rest(facts, stall)
    arrived = any(facts.looks.has_arrived(s.process) for s in standing.waiting)
    if not standing.waiting or facts.looks.is_quiet is False or arrived:
        return None
    if standing.outside and (2 * len(standing.outside) <= len(facts.looks.newest) or _is_unmoved(facts, standing)):
        return _outside(facts, standing)
    if standing.outside or standing.unclear:
        return None
    if standing.apart:
        return _apart(facts, standing)
    return _silent(facts, standing) or _all_inside(facts, standing)


@rule(CauseClass.NOT_ARRIVED, refuted_by=say("refuted.others-outside"), before=CauseClass.UNDETERMINED)
def judge_before_alarm(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The few ranks outside, where peers gave up after the looks and no line names their call."""
    if not where.was_taken_before_alarm(facts, stall):
        return None
    standing = standing_of(facts.looks, facts.case.world)
    is_few = 0 < 2 * len(standing.outside) <= len(facts.looks.newest)
    return _outside(facts, standing) if is_few and standing.waiting else None


def _is_unmoved(facts: Facts, standing: Standing) -> bool:
    return all(facts.looks.has_moved(s.process) is False for s in (*standing.waiting, *standing.outside))


def _outside(facts: Facts, standing: Standing) -> Hypothesis:
    """The ranks outside the call of their peers."""
    culprits = standing.outside
    cause = _cause(standing, culprits)
    ranks, is_open = where.known_ranks(culprits), _is_first_end_open(standing, culprits)
    unclear = where.known_ranks(standing.unclear)
    return Hypothesis(
        _words_of_places(facts, standing, culprits),
        [
            *where.show(facts, culprits),
            *where.show(facts, where.in_most_common_call(standing.waiting))[:4],
            *where.show_helpers(facts, culprits),
        ],
        tuple(_doubts_of_outside(facts, standing, culprits)),
        ranks=Ranks() if is_open else ranks,
        suspects=unclear | standing.silent | ranks if is_open else unclear - ranks,
        stalled=_stalled(standing.waiting, ranks),
        victims=where.known_ranks(standing.waiting),
        cause=cause,
    )


def _words_of_places(facts: Facts, standing: Standing, culprits: Sequence[Stance]) -> Headline:
    """Who is not in the call of its peers, where it is instead, and who waits."""
    name, many = where.who(facts.case, culprits), len(culprits) > 1
    first = where.in_most_common_call(standing.waiting)
    does = ", ".join(filter(None, (where.what_it_does(facts, culprits), where.where_its_worker_is(facts, culprits))))
    wait = where.waits_in(first)
    peers, are_many = where.who(facts.case, first), len(first) > 1
    if culprits[0].posture.is_gone:
        return headline_of("stacks.gone", who=name, many=many, state=does, waiting=peers, are_many=are_many, wait=wait)
    if not first[0].path and isinstance(first[0].event, ProcessState):
        return headline_of("stacks.by-work", who=name, many=many, doing=does, waiting=peers, are_many=are_many)
    has_ended = bool(facts.liveness.exited) or where.has_given_up(facts)
    if culprits[0].posture is Posture.LEAVING:
        key = "stacks.left-loop-then" if has_ended else "stacks.left-loop"
        return headline_of(key, who=name, many=many, waiting=peers, are_many=are_many, wait=wait)
    if all(is_transfer(s.op) for s in standing.waiting):
        held, are_many = where.who(facts.case, standing.waiting), len(standing.waiting) > 1
        key, transfer = "stacks.holds-up-then" if has_ended else "stacks.holds-up", first[0].op
        return headline_of(key, who=name, many=many, doing=does, waiting=held, are_many=are_many, transfer=transfer)
    moved = not many and any(facts.looks.has_moved(s.process) for s in culprits)
    key = "stacks.outside-then" if has_ended else "stacks.outside"
    briefly = ongoing(culprits[0].shown) or does
    return headline_of(
        key, who=name, many=many, doing=does, briefly=briefly, moved=moved, waiting=peers, are_many=are_many, wait=wait
    )


def _cause(standing: Standing, culprits: Sequence[Stance]) -> CauseClass:
    postures = {s.posture for s in culprits}
    if postures <= {Posture.STOPPED}:
        return CauseClass.FROZEN
    if postures <= {Posture.GONE}:
        return CauseClass.DIED
    if all(s.posture is Posture.SET_UP for s in standing.waiting):
        return CauseClass.INIT
    return CauseClass.MISSED_CALL if postures <= {Posture.LEAVING} else CauseClass.NOT_ARRIVED


def _doubts_of_outside(facts: Facts, standing: Standing, culprits: Sequence[Stance]) -> Iterator[Doubt]:
    """Stacks show where ranks stand, not which call they are in, nor that they stay there.

    A process that a signal stopped makes no call, whatever the numbers are.
    """
    if not all(facts.looks.is_stopped_throughout(s.process) for s in culprits):
        yield doubt_of("no-call-numbers", shown=True)
    if unseen := standing.silent - facts.ledger.waiting:
        yield doubt_of("no-stack-of", ranks=unseen)
    if standing.is_guessed:
        yield doubt_of("no-wait-frame") if any(s.path for s in standing.waiting) else doubt_of("no-call-seen")
    if any((did := facts.looks.did(s.process)) and did.is_progress for s in culprits):
        yield doubt_of("still-works")
    elif all(s.words in where.ENDS for s in culprits) and not (where.has_stopped(facts) or has_waited_long(facts)):
        yield doubt_of("work-may-end")
    if unshown := where.known_ranks([s for s in culprits if facts.looks.can_wait(s)]):
        yield doubt_of("may-wait-itself", ranks=unshown)
    if _is_first_end_open(standing, culprits):
        yield doubt_of("first-end-unknown")
    if facts.looks.interrupted:
        yield doubt_of("ctrl-c-only")
    if any(s.rank is None for s in culprits):
        yield doubt_of("process-rank-unknown")
    if where.has_stopped(facts) or all(s.posture.is_gone for s in culprits):
        return
    if any(facts.looks.has_moved(s.process) for s in culprits):
        yield doubt_of("moved")
    elif len(facts.looks.all) > 1:
        yield from _doubts_of_unmoved(facts, standing, culprits)
    else:
        yield doubt_of("one-snapshot", blocked=all(s.shown in where.BLOCKED for s in culprits))


def _is_first_end_open(standing: Standing, culprits: Sequence[Stance]) -> bool:
    """True where processes ended and another one may have ended before them: each end breaks the calls of its peers."""
    ended = [s for s in culprits if s.posture is Posture.GONE]
    return len(ended) > 1 or bool(ended and standing.silent)


def _doubts_of_unmoved(facts: Facts, standing: Standing, culprits: Sequence[Stance]) -> Iterator[Doubt]:
    """Two equal looks catch a rank that is late in every step at the same work, too.

    Example: of each second rank 1 computes 0.8 s and its peers wait for it. A prompt that two looks show ends by nobody's work.
    """
    if facts.looks.steps and not all(s.words in where.RARE for s in culprits):
        undated = doubt_of("steps-undated")
        yield doubt_of("steps-may-be-long") if facts.looks.is_unlogged else undated
    elif facts.looks.steps and not all(s.shown for s in culprits):
        yield doubt_of("rare-by-name")
    elif not all(s.shown in ASKS_A_PERSON for s in culprits):
        stood = where.known_ranks((*standing.waiting, *standing.outside)) if _is_unmoved(facts, standing) else Ranks()
        yield doubt_of("steps-may-continue", known=facts.case.world <= stood)


def _doubts_of_all(facts: Facts, standing: Standing) -> Iterator[Doubt]:
    """Doubts where every rank that was looked at waits."""
    if not where.has_stopped(facts) and not _is_unmoved(facts, standing):
        moved = any(facts.looks.has_moved(stance.process) for stance in standing.waiting)
        yield doubt_of("wait-may-end", several=len(facts.looks.all) > 1, moved=moved)
    yield doubt_of("no-call-numbers", shown=False)


def _apart(facts: Facts, standing: Standing) -> Hypothesis:
    """A few ranks wait in a different call from most: neither call can end. Of two ranks neither is named.

    Two calls of one operation may be of two groups that both wait for a rank without a stack.
    """
    few = list(standing.apart)
    most = [s for s in standing.waiting if s not in few and s.is_comparable]
    ranks = where.known_ranks(few)
    cause = where.mismatch(few[0], most[0])
    names = [where.who(facts.case, side) for side in (few, most)]
    waits = [where.waits_in(few, most), where.waits_in(most, few)]
    is_even = len(few) == len(most)
    is_behind = few[0].posture is Posture.DEVICE and cause is CauseClass.EXTRA_CALL  # one rank may read its loss alone
    # the peers have passed the line: one of them may have sent nothing, and which one a stack doesn't tell
    lacks_end = is_transfer(few[0].op) and where.is_later(few[0], most[0]) is False
    is_open = is_even or is_behind or lacks_end or (bool(standing.silent) and few[0].op == most[0].op)
    doubts = list(_doubts_of_all(facts, standing))
    if any(s.posture is Posture.DEVICE for s in (few[0], most[0])):
        doubts.append(doubt_of("device-queue", behind=is_behind))
    elif cause is CauseClass.EXTRA_CALL and few[0].posture is not Posture.SET_UP:
        doubts.append(doubt_of("may-be-a-step-ahead", ranks=ranks))
    if standing.silent:
        doubts.insert(0, doubt_of("may-all-wait-for", silent=standing.silent))
    return Hypothesis(
        headline_of("stacks.two-calls", few=names[0], few_wait=waits[0], most=names[1], most_wait=waits[1]),
        [*where.show(facts, few, most), *where.show(facts, most, few)[:4]],
        doubts,
        ranks=Ranks() if is_open else ranks,
        suspects=standing.silent
        | where.known_ranks(standing.waiting if is_even or lacks_end else few if is_open else ()),
        stalled=_stalled(most, ranks),
        victims=where.known_ranks(most),
        cause=cause,
    )


def _silent(facts: Facts, standing: Standing) -> Hypothesis | None:
    """The rank that alone has no stack, where every other one waits in the same call."""
    silent = standing.silent
    if not silent or 3 * len(silent) > len(facts.case.world) or facts.case.world_size is None:
        return None
    if any(e.rank in silent and e.state in ("running", "sleeping") for e in facts.case.of(ProcessState)):
        return None  # its process was found and is no other than its peers': no tool has read its stack
    if any(facts.liveness.activity(rank).alarms for rank in silent):
        return None  # it says itself that it makes no step
    setting_up = all(s.posture is Posture.SET_UP for s in standing.waiting)
    asked = where.show_asked_in_vain(facts, silent)
    doubt = doubt_of("debug-server-link") if asked else doubt_of("stack-uncollected")
    name, peers = who(facts.case, silent), where.who(facts.case, standing.waiting)
    wait, are_many = where.waits_in(standing.waiting), len(standing.waiting) > 1
    return Hypothesis(
        headline_of("stacks.no-stack", who=name, asked=bool(asked), waiting=peers, are_many=are_many, wait=wait),
        [*asked, *where.show(facts, standing.waiting)[:6]],
        (doubt, *(_doubts_of_all(facts, standing) if asked else ())),
        ranks=silent,
        stalled=_stalled(standing.waiting, silent),
        victims=where.known_ranks(standing.waiting),
        cause=CauseClass.INIT if setting_up else CauseClass.FROZEN,
        refuted_by=say("refuted.stack-inside"),
    )


def _all_inside(facts: Facts, standing: Standing) -> Hypothesis | None:
    """Every rank that was looked at waits in the same call: nobody is named."""
    waiting = standing.waiting
    calls, ops = {s.call for s in comparable(waiting)}, {s.op for s in waiting if s.posture is not Posture.DEVICE}
    if len(waiting) < 2 or max(len(calls), len(ops)) > 1 or standing.is_guessed or standing.silent:
        return None
    ranks = where.known_ranks(waiting)
    setting_up = all(s.posture is Posture.SET_UP for s in waiting)
    return Hypothesis(
        headline_of("stacks.all-wait", who=where.who(facts.case, waiting), wait=where.waits_in(waiting)),
        where.show(facts, waiting)[:6],
        (*_doubts_of_all(facts, standing), *(() if setting_up else (doubt_of("one-line"),))),
        stalled=_stalled(waiting, Ranks()),
        victims=ranks,
        cause=CauseClass.INIT if setting_up else CauseClass.UNFINISHED,
        refuted_by=say("refuted.one-elsewhere"),
    )


def _stalled(waiting: Sequence[Stance], missing: Ranks) -> Stalled | None:
    """The call that most of the ranks wait in; others may wait in an earlier or a later one."""
    first = where.in_most_common_call([s for s in waiting if s.op])
    return Stalled(first[0].op, None, entered=where.known_ranks(first), missing=missing) if first else None


@rule(CauseClass.NONE, refuted_by=say("refuted.still-waiting"), before=CauseClass.FROZEN)
def judge_running(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The job goes on: steps follow the first look, or every wait of that look has ended."""
    if where.has_given_up(facts) or not where.has_no_record(facts, stall) or not facts.looks.has_gone_on:
        return None
    steps = facts.looks.later_steps
    writers = Ranks(e.rank for e in steps if e.rank is not None)
    cited: list[Citation] = [Line(e, say("stacks.step-after")) for e in steps[-3:]]
    cited += where.show(facts, list(facts.looks.newest.values()))[: 2 if steps else 6]
    headline = (
        headline_of("stacks.running-by-steps", writers=writers) if steps else headline_of("stacks.running-by-waits")
    )
    whole = bool(steps) and frozenset(facts.case.world) <= frozenset(writers)
    stopped = any(s.posture.is_gone for s in facts.looks.newest.values())
    if stopped or any(e.state == "stopped" for e in facts.case.of(ProcessState)):
        return None
    doubts = () if whole else (doubt_of("not-all-log"),)
    return Hypothesis(headline, cited, (*doubts, doubt_of("may-have-stopped")))
