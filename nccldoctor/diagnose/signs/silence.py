"""Finds ranks that did not give up where all others did, from lines alone.

Ranks that did not give up had nothing to give up on.

Gloo names no call in its complaints. A rank that waits complains in the end; one that is busy, stopped or gone does not. Only records of
ends, or answers of the others to a request that reaches every running process, tell these apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, pairwise

from msgspec import Struct

from nccldoctor.align.exits import SLACK, can_precede_alarm
from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import is_manual_dump
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.align.unrecorded_waits import has_hidden_transfers
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Line
from nccldoctor.diagnose.phrases.say import doubt_of, say
from nccldoctor.diagnose.signs.where_ranks_stand import show_asked_in_vain
from nccldoctor.events import (
    CollectiveMismatch,
    DumpNote,
    Event,
    ExceptionRaised,
    OutOfMemory,
    Phase,
    ProcessExit,
    Progress,
    SchedulerEvent,
    SocketError,
    TearDown,
)
from nccldoctor.model import Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import is_gloo_timeout, is_lost_connection

AT_ONCE = 2.0
"""Seconds within which a job ends after its last step."""


class QuietRanks(Struct, frozen=True):
    """The few ranks, or the ranks of one host, that did not complain, and what the others complained of.

    ``was_closed``: the launcher may have cut them short before they complained. ``connection_broke``: the first complaint was about a
    broken connection, not about the time limit.
    """

    ranks: Ranks
    complaints: tuple[Event, ...]
    was_closed: bool
    connection_broke: bool

    @property
    def is_one_place(self) -> bool:
        """False where the tracebacks of the others end in different lines of the program: they may wait in different calls."""
        return len({e.frame for e in self.complaints if isinstance(e, ExceptionRaised) and e.frame}) < 2


def find_quiet_ranks(facts: Facts, stall: Stall) -> QuietRanks | None:
    """The few ranks, or those of one host, that did not complain.

    None where lines do not show them, or show another fault.

    Example: of 8 ranks on gloo, 0-6 raise "Timed out waiting 1800000ms", and rank 7 writes nothing: rank 7 is the quiet one.
    """
    case, liveness = facts.case, facts.liveness
    if (
        stall.kind not in (StallKind.NOTHING, StallKind.CRASH)
        or facts.failures
        or case.world_size is None
        or case.fold is not None
    ):
        return None
    complaints = {e.rank: e for e in reversed([*case.of(SocketError), *case.of(ExceptionRaised)]) if _is_complaint(e)}
    quiet = case.world - Ranks(r for r in complaints if r is not None)
    is_few = 0 < 3 * len(quiet) <= len(case.world) or facts.hosts.is_whole(quiet)
    if not is_few or not frozenset(quiet) <= liveness.log_read | liveness.exited | case.unlisted_ranks:
        return None
    if not any(is_gloo_timeout(e) or is_broken(e) for e in complaints.values()) or any(case.of(CollectiveMismatch)):
        return None
    if any(_was_done_first(facts, r) or liveness.activity(r).alarms for r in quiet):
        return None
    was_closed = any(liveness.activity(r).exits or liveness.activity(r).teardown for r in quiet)
    if was_closed and len(quiet) > 1:
        return None
    ordered = sorted(complaints.values(), key=lambda e: e.rank or 0)
    return QuietRanks(quiet, tuple(ordered), was_closed, has_connection_broken_first(facts))


def ranks_without_alarm(facts: Facts) -> Ranks:
    """Returns the few ranks of a job that did not give up, where all others did.

    At most one in eight ranks of a job of known size; on which call the others gave up is not known.
    """
    case, activity = facts.case, facts.liveness.activity
    if case.world_size is None:
        return Ranks()
    quiet = Ranks(r for r in case.world if not activity(r).alarms and not activity(r).has_finished)
    return quiet if 0 < 8 * len(quiet) <= len(case.world) else Ranks()


def has_connection_broken_first(facts: Facts) -> bool:
    """True when a connection broke before anybody had waited until the limit.

    A rank that gives up and leaves breaks connections, too: only the first complaint counts, and none behind an alarm.
    """
    errors = (*facts.case.of(SocketError), *facts.case.of(ExceptionRaised))
    complaints = [e for e in errors if _is_complaint(e)]
    early = [e for e in complaints if can_precede_alarm(facts.liveness, e)]
    timed = sorted((e for e in early if not math.isnan(facts.liveness.time(e))), key=facts.liveness.time)
    if timed or (complaints and not early):
        return bool(timed) and is_broken(timed[0])
    return not any(map(is_gloo_timeout, early))


def _was_done_first(facts: Facts, rank: int) -> bool:
    """True when a rank finished while no other did: it had no reason to complain."""
    activity = facts.liveness.activity(rank)
    others = (facts.liveness.activity(other) for other in facts.case.world if other != rank)
    is_first = activity.has_finished and not any(other.has_finished for other in others)
    return is_first or any(e.exitcode == 0 for e in activity.exits)


def show_lost_connections(facts: Facts, gone: Ranks) -> list[Citation]:
    """A peer that lost its connection before anybody had waited until the limit: a process had ended."""
    lost = (e for e in facts.case.of(ExceptionRaised) if is_lost_connection(e) and e.rank not in (None, *gone))
    first = [*lost][:1] if has_connection_broken_first(facts) else []
    return [Line(e, say("absent.lost-connection", rank=e.rank)) for e in first]


def show_kept_connections(facts: Facts, call: StuckCall) -> list[Citation]:
    """Cites a rank that waited inside a call until the limit with its connections unbroken.

    Had the process it waited for ended, its connection would have broken.
    """
    timeouts = (e for e in facts.case.of(ExceptionRaised) if e.rank in call.inside and is_gloo_timeout(e))
    first = [*timeouts][:1] if not has_connection_broken_first(facts) else []
    return [Line(e, say("absent.kept-connections", rank=e.rank)) for e in first]


def has_dumped_while_stalled(facts: Facts) -> bool:
    """True when the training script dumped long after the last step of a rank that was not done.

    At its end a script dumps at once.

    Example: steps of rank 3 follow each other by 2 s at most, and its script writes a dump 60 s after the last one.
    """
    for note in facts.case.of(DumpNote):
        activity = facts.liveness.activity(-1 if note.rank is None else note.rank)
        times = [at for e in activity.steps if not math.isnan(at := facts.liveness.time(e))]
        if not is_manual_dump(note) or len(times) < 2 or activity.has_finished:
            continue
        longest = max(later - earlier for earlier, later in pairwise(sorted(times)))
        if facts.liveness.time(note) - max(times) > max(AT_ONCE, 2 * longest):
            return True
    return False


def _is_complaint(event: Event) -> bool:
    if isinstance(event, SocketError):
        return event.echo and event.rank is not None
    return isinstance(event, ExceptionRaised) and event.origin == "echo" and event.rank is not None


def is_broken(event: Event) -> bool:
    """True of a connection that its other end closed."""
    return event.echo if isinstance(event, SocketError) else is_lost_connection(event)


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


def doubts_of_odd_dumps(facts: Facts, ranks: Ranks) -> list[Doubt]:
    """A doubt where entries of one of these ranks hold something odd."""
    dumps = zip(facts.case.dump_rank, facts.case.dumps, strict=True)
    odd = (rank for rank, dump in dumps if dump.problem and dump.entries)
    return [doubt_of("odd-dumps")] if not ranks.isdisjoint(odd) else []


def doubts_of_silence(facts: Facts, stall: Stall, ranks: Ranks) -> Iterator[Doubt]:
    """Doubts that the silence of the ranks means anything."""
    if is_cut_short(facts):
        yield doubt_of("cut-short")
    if not facts.liveness.logged:
        yield doubt_of("no-logs")
    # a process that failed by itself in a line that names no rank may be this one
    raised = (e for e in facts.case.of(ExceptionRaised) if e.rank is None and e.origin == "own" and not e.logged)
    full = (e for e in facts.case.of(OutOfMemory) if e.rank is None and e.scope == "device")
    if any(True for _ in chain(raised, full)):
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


def is_cut_short(facts: Facts) -> bool:
    """True when the only log ends amid the first complaints. The complaint of the silent rank may have followed."""
    first, liveness = facts.liveness.first_alarm, facts.liveness
    if first is None or liveness.dumped or liveness.exited or liveness.per_rank_logs:
        return False
    later = (e for e in facts.case.events if e.place.is_below(first.place))
    return not any(isinstance(e, AFTER_COMPLAINTS) or liveness.time(e) > liveness.alarm + SLACK for e in later)
