"""Looks for the proof that a job is well, and for what speaks against it.

Silence is no proof: a log that just stops is that of a job that stands as well. A job is shown to be well where every rank that was read
ended well, where steps follow everything that stood open, where every recorded call completed on every rank and no log leaves
open when it dumped, where the stacks of all ranks moved between two looks, or where a person stopped it before anything else went wrong.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from nccldoctor.align.exits import fatal_exceptions
from nccldoctor.align.facts import Facts
from nccldoctor.align.health.good_ends import TELLING, good_ends, is_step
from nccldoctor.align.health.passed_calls import has_passed_looks, unpassed_stalls
from nccldoctor.align.health.troubles import unanswered_lines, unanswered_troubles
from nccldoctor.align.liveness import Liveness, RankActivity
from nccldoctor.align.nccl_counter_evidence import has_lagging_coll_lines, uneven_communicators
from nccldoctor.align.stack_activity import is_waiting
from nccldoctor.events import CommInit, DumpNote, Event, ExceptionRaised, Phase, Progress
from nccldoctor.identify.case import Case
from nccldoctor.model import SourceKind, Unexplained
from nccldoctor.model.ranks import Ranks

LATER = 5.0
"""Seconds by which a step may follow the end of the job: hosts differ, and lines are written late."""


class Proof(StrEnum):
    """What shows that a job is well."""

    ENDED = "ended"
    STOPPED = "stopped"
    WENT_ON = "went on"
    COMPLETED = "completed"
    MOVED = "moved"
    NOTHING = "nothing"


class Health(Struct, frozen=True):
    """What shows that a job is well, and what speaks against it.

    ``ends`` are the lines that show a good end, ``ended`` the ranks that they speak of. ``troubles`` are lines that
    nothing answers, ``unexplained`` those among them that were not understood. ``stops`` are lines of a person's SIGINT that explain all
    trouble. ``standing`` are ranks that wait in a call or have not come up, and are not seen to go on.
    """

    proof: Proof
    ends: tuple[Event, ...]
    ended: Ranks
    troubles: tuple[Event, ...]
    standing: Ranks
    unexplained: tuple[Unexplained, ...] = ()
    stops: tuple[Event, ...] = ()

    @property
    def is_proven(self) -> bool:
        """True when something shows that the job is well and nothing speaks against it."""
        return self.proof is not Proof.NOTHING and not (self.troubles or self.standing or self.unexplained)


def observe_health(facts: Facts) -> Health:
    """The health of the job; none of it where there is no proof."""
    ends = good_ends(facts.case, facts.liveness)
    told = Ranks(e.rank for e in ends if e.rank is not None)
    ended = Ranks(r for r in told if not _is_hurt(facts.liveness, facts.liveness.activity(r)))
    over = ended | (_carried(facts, ends) if ends else Ranks())
    troubles = unanswered_troubles(facts.case, facts.liveness, ends, ended, over)
    seen = facts.liveness.logged | facts.liveness.dumped
    moved = facts.looks.has_gone_on
    found = Ranks(r for s in unpassed_stalls(facts) for c in s.calls for r in c.entered)
    stances = () if moved or has_passed_looks(facts) else facts.looks.newest.values()
    waiting = (s.rank or 0 for s in stances if s.posture.is_wait or s.posture.is_gone)
    uneven = any(uneven_communicators(facts, {one.comm for one in facts.case.nccl_counters}))
    lagging = uneven or has_lagging_coll_lines(facts)
    unready = (e.rank or 0 for e in unfinished_starts(facts.case))
    stand = found | waiting | unready | (facts.case.world if lagging else Ranks())
    stops = _stops_by_person(facts, troubles)
    if stops and _was_at_work(facts, stops):
        proof, troubles = Proof.STOPPED, ()
    elif ends and not seen - over:
        proof = Proof.ENDED
    elif facts.stalls and not stand:
        proof = Proof.WENT_ON
    elif _has_completed_everything(facts):
        proof = Proof.COMPLETED
    else:
        proof = Proof.MOVED if moved else Proof.NOTHING
    unexplained = unanswered_lines(facts.case, facts.liveness, ends, ended)
    return Health(proof, ends, ended, troubles, stand, unexplained, stops)


def _is_hurt(liveness: Liveness, own: RankActivity) -> bool:
    """True when a rank complains, ended by an exception or badly, or a stack shows it waiting."""
    bad = own.alarms or own.waiting_stack or fatal_exceptions(liveness, own)
    return bool(bad) or any(e.exitcode for e in own.exits)


def _carried(facts: Facts, ends: tuple[Event, ...]) -> Ranks:
    """The ranks for which another one's good end speaks. They complain of nothing, came as far as that one, and do no step after it."""
    done = [e for e in ends if not isinstance(e, Progress)] or list(ends)
    # the exit of one rank says nothing of the others
    if not (done := [e for e in done if e.rank is None or isinstance(e, Phase)]):
        return Ranks()
    end = max((t for e in done if not math.isnan(t := facts.liveness.time(e))), default=math.nan)
    last = max((s for e in done for s in facts.liveness.activity(e.rank or 0).reported_steps[-1:]), default=None)
    found = []
    for rank, own in facts.liveness.by_rank.items():
        late = [e for e in own.steps if facts.liveness.time(e) > end + LATER]
        # it reports steps, and never came as far as the one that ended
        is_short = last is not None and bool(own.steps) and not own.has_reached(last)
        if not late and not is_short and not _is_hurt(facts.liveness, own):
            found.append(rank)
    return Ranks(found)


def unfinished_starts(case: Case) -> list[CommInit]:
    """The start of each communicator that did not come up; none where calls are recorded."""
    begun = {(e.comm_id, e.nranks): e for e in case.of(CommInit) if e.what == "start"}
    up = {(e.comm_id, e.nranks) for e in case.of(CommInit) if e.what == "complete"}
    return [e for key, e in begun.items() if key not in up] if not len(case.calls) else []


def _has_completed_everything(facts: Facts) -> bool:
    """True when all ranks left whole dumps, in which every call completed and all members end in one call.

    A rank with a log that does not say when it dumped may stand where no call is recorded: at the store, or in a monitored barrier.
    Some recorders count a call as ended as soon as it is issued: #9 on ranks 0, 2 and 3 has not ended while rank 1 did not issue it.
    """
    newest: dict[int, set[int]] = defaultdict(set)
    for own in facts.progress.by_group_rank.values():
        newest[own.group].add(own.enqueued)
    known = Ranks(r for g in facts.case.groups for r in g.members)
    dumped = facts.liveness.dumped
    dated = Ranks(note.rank for note in facts.case.of(DumpNote) if note.rank is not None)
    is_level = all(len(numbers) == 1 for numbers in newest.values())
    is_idle = is_level and not has_open_calls(facts) and not has_flawed_dumps(facts)
    return len(dumped) > 1 and not (facts.case.world | known) - dumped and is_idle and not facts.liveness.logged - dated


def has_open_calls(facts: Facts) -> bool:
    """True where a dump holds a call that nothing shows to be completed."""
    return bool(facts.stalls) or not all(call.completed for call in facts.wait_graph.calls.values())


def has_flawed_dumps(facts: Facts) -> bool:
    """True where a dump is damaged or odd: what it lacks may be unfinished."""
    dumps = {source.id for source in facts.case.sources if source.kind is SourceKind.RECORDER}
    return any(gap.source in dumps and (gap.lost or gap.odd) for gap in facts.case.gaps)


def _stops_by_person(facts: Facts, troubles: tuple[Event, ...]) -> tuple[Event, ...]:
    """The lines of a person's SIGINT; none where something else went wrong before it."""
    stops = tuple(e for e in facts.case.events if e.is_stop_by_person)
    follows = all(e.is_stop_by_person or (e.consequence is not None and _can_follow(facts, e, stops)) for e in troubles)
    return stops if follows and not facts.failures else ()


def _was_at_work(facts: Facts, stops: Sequence[Event]) -> bool:
    """True when steps were made, and SIGINT found ranks at work and nobody waiting for a peer."""
    found = [e for e in stops if isinstance(e, ExceptionRaised) and e.rank is not None]
    has_stepped = any(map(is_step, facts.case.events.of_kind(*TELLING)))
    return bool(found) and has_stepped and not any(is_waiting(e.frames) for e in found)


def _can_follow(facts: Facts, event: Event, stops: Sequence[Event]) -> bool:
    """True unless times, or lines of one file, show an event before all of these."""
    when = facts.liveness.time(event)
    times = [t for e in stops if not math.isnan(t := facts.liveness.time(e))]
    if times and not math.isnan(when):
        return when >= min(times) - LATER
    lines = [e.place.line or 0 for e in stops if e.place.source == event.place.source]
    return not lines or (event.place.line or 0) > min(lines)
