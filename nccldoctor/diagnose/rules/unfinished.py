"""All members entered the call and it did not finish, and no more is known.

What it means: the program did its part on every rank; the stall is in the transport, a device, or NCCL itself.
How we know: every member recorded the call, or its watchdog gave up on it, with equal operation and sizes; nobody's calls are out of
step and no device or transport reports an error. Nobody is named.
What would refute it: a member that did not issue the call, or issued another; an error of a link or a board.
"""

from __future__ import annotations

from nccldoctor.align.descriptions import describe, stalled_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.still_running import has_only_gloo_dumps
from nccldoctor.diagnose.signs.watchdog_diffs import EARLY
from nccldoctor.events import CallTimeout
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks, names, verb

CAUSE = CauseClass.UNFINISHED


def _is_not_comparable(facts: Facts, call: StuckCall) -> bool:
    """True when nobody can say that all members agree.

    The ring buffer of a dumped rank no longer holds the call, or only a line shows a rank in a call that others recorded.
    """
    fronts = [facts.progress.by_group_rank.get((call.group, r)) for r in call.entered]
    by = {f.known_by for f in fronts if f is not None}
    return "status" in by or (call.row >= 0 and "log" in by)


def _has_unread_rank(facts: Facts) -> bool:
    """True when some ranks of the job left nothing: a call may queue behind another one that waits for them."""
    return not frozenset(facts.case.world) <= facts.liveness.dumped | facts.liveness.logged


def _is_one_of_several(facts: Facts, call: StuckCall) -> bool:
    """True when ranks gave up on other calls than this one, which is known from lines only.

    Watchdogs give up on whatever queues behind, and lines of one second do not show which came first.
    """
    if call.row >= 0:
        return False
    given_up = {e.seq for e in facts.case.of(CallTimeout) if e.rank in call.entered and e.seq is not None}
    return bool(given_up - {call.seq})


def _may_be_running(facts: Facts) -> bool:
    """True when no log complains, or on gloo, whose dumps are taken by hand: a running job is in some call, too."""
    return facts.liveness.first_alarm is None and (bool(facts.liveness.logged) or has_only_gloo_dumps(facts))


@rule(CAUSE, refuted_by="a member that did not issue the call, or issued another; an error of a link or a board")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """A call that everybody is in."""
    call = stall.call
    if stall.kind is not StallKind.FULL or call is None or (len(call.entered) < 2 and call.row >= 0):
        return None
    stalled = stalled_of(facts, call)
    if (call.completed and (stalled is None or stalled.op not in EARLY)) or stall.is_scattered:
        return None
    group = facts.case.groups[call.group]
    heard = Ranks(r for r in call.inside)
    whole = frozenset(group.members) <= call.entered | call.completed and (
        group.learned in ("config", "listed")
        or (group.learned == "entries" and frozenset(facts.case.world) <= facts.progress.recorded_ranks)
        or (group.learned == "world" and facts.case.world_size is not None)
    )
    pair = group.learned == "listed" and len(facts.case.world) == 2  # any text may show two ranks of many
    alone = len(heard) < 2 or not whole or pair
    open_class = _is_not_comparable(facts, call) or (
        call.row >= 0
        and facts.case.calls.dtypes[call.row] >= 0
        and not any(facts.case.vocabulary.dtypes[facts.case.calls.dtypes[call.row]])
    )
    if len(heard) < 2 and not whole:
        return None  # one rank's word: whoever it waits for may be anybody
    waiting = f"{names(heard).capitalize()} {verb(heard, 'waits', 'wait')} in {describe(facts, call)}"
    return Hypothesis(
        f"{waiting}, which {names(call.completed)} {verb(call.completed, 'has', 'have')} passed; nobody is shown to be missing"
        if call.completed
        else f"{names(call.entered).capitalize()} are all in {describe(facts, call)} and it does not end"
        if whole
        else f"{waiting}; nobody is shown to be missing",
        (Waiting(call, 4),),
        Confidence.LOW
        if alone or _is_one_of_several(facts, call) or _may_be_running(facts)
        else Confidence.MEDIUM
        if open_class or group.learned == "listed" or facts.liveness.first_alarm is None or _has_unread_rank(facts)
        else Confidence.HIGH,
        call=call,
    )
