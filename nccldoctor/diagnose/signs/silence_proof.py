"""Says what the silence of ranks proves.

A rank in a data loader writes no line while its peers wait, and neither does one that was stopped or killed. Only records of ends, or
answers of the others to a request that reaches every running process, tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from nccldoctor.align.exits import SLACK
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall
from nccldoctor.align.unrecorded_waits import has_hidden_transfers
from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.diagnose.signs.where_ranks_stand import show_asked_in_vain
from nccldoctor.events import ExceptionRaised, OutOfMemory, Phase, ProcessExit, Progress, SchedulerEvent, TearDown
from nccldoctor.model import Doubt
from nccldoctor.model.ranks import Ranks

AFTER_COMPLAINTS = (ProcessExit, Progress, Phase, SchedulerEvent)
"""Events that a log shows only after all ranks had the time to complain."""


def is_telling(facts: Facts, ranks: Ranks) -> bool:
    """True when the input would show that one of these ranks exited or answered.

    A launcher that records one end records them all. NCCL's watchdog has every running process dump its calls; a process on gloo dumps
    only where its own program does so. Ranks that logged nothing are not judged here: their files may be missing.
    """
    closes = (e.is_by_launcher for e in facts.case.of(TearDown))
    if not ranks & facts.liveness.logged or any(facts.case.of(ProcessExit)) or any(closes):
        return True
    if show_asked_in_vain(facts, ranks) or any(facts.liveness.activity(rank).stopped for rank in ranks):
        return True
    others = [facts.liveness.activity(rank) for rank in facts.case.world - ranks]
    has_dumped = any(other.dump != "none" for other in others) and not has_hidden_transfers(facts.case)
    return has_dumped or any(other.dump_replies for other in others)


def ranks_with_damaged_dumps(facts: Facts) -> Ranks:
    """Ranks that wrote a dump which cannot be read whole: they were alive."""
    dumps = zip(facts.case.dump_rank, facts.case.dumps, strict=True)
    return Ranks(rank for rank, dump in dumps if rank is not None and dump.problem)


def doubts_of_silence(facts: Facts, stall: Stall, ranks: Ranks) -> Iterator[Doubt]:
    """Doubts that the silence of the ranks means anything."""
    if is_cut_short(facts):
        yield doubt_of("cut-short")
    if not facts.liveness.logged:
        yield doubt_of("no-logs")
    if _has_failure_without_rank(facts):
        yield doubt_of("nameless-end")
    ended = Ranks(r for f in facts.failures if f.certain for r in f.ranks) - ranks
    if ended and not stall.proven_absent:
        yield doubt_of("may-wait-for", ranks=ended)
    if len(ranks) > 1 and not stall.proven_absent:
        yield doubt_of("several-silent")
    if any(can_have_obeyed(facts, rank) for rank in ranks):
        yield doubt_of("sigterm-only")


def can_have_obeyed(facts: Facts, rank: int) -> bool:
    """True when the launcher asked a process to end, and neither killed it nor reports how it ended."""
    activity = facts.liveness.activity(rank)
    what = {t.what for t in activity.teardown}
    return not activity.exits and "closing-signal" in what and "forced-kill" not in what


def _has_failure_without_rank(facts: Facts) -> bool:
    """True when a process failed by itself in a line that names no rank: it may be this one."""
    raised = (e for e in facts.case.of(ExceptionRaised) if e.rank is None and e.origin == "own" and not e.logged)
    full = (e for e in facts.case.of(OutOfMemory) if e.rank is None and e.scope == "device")
    return any(True for _ in chain(raised, full))


def is_cut_short(facts: Facts) -> bool:
    """True when a single log ends amid the first complaints, and nothing else was read.

    The complaint of the silent rank may have followed.
    """
    first, liveness = facts.liveness.first_alarm, facts.liveness
    if first is None or liveness.dumped or liveness.exited or liveness.per_rank_logs:
        return False
    later = (e for e in facts.case.events if e.place.is_below(first.place))
    return not any(isinstance(e, AFTER_COMPLAINTS) or liveness.time(e) > liveness.alarm + SLACK for e in later)
