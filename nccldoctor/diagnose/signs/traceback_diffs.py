"""Tracebacks of ranks that all gave up: one waited at another place of the program than all others.

Gloo's lines name neither call nor group; the traceback quotes the line of code. Example: ranks 0-6 waited at train.py:40, in
``dist.all_reduce(loss)``, rank 7 at train.py:52, in ``dist.barrier()``.
"""

from __future__ import annotations

from collections import defaultdict

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.diagnose.citations import Citation, Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.sentences import disagree
from nccldoctor.diagnose.signs.silence import has_connection_broken_first
from nccldoctor.events import ExceptionRaised
from nccldoctor.model import Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost
from nccldoctor.parsers.event_details import has_group, is_call_of_all_ranks, is_gloo_timeout, is_lost_connection


def judge(facts: Facts, stall: Stall, *, other_group: bool) -> Hypothesis | None:
    """The few ranks whose call needs everybody, and that wait in it without all the others."""
    case = facts.case
    if stall.kind not in (StallKind.NOTHING, StallKind.CRASH) or facts.progress.recorded_ranks or facts.failures:
        return None
    waits = {r: e for r in case.world if (e := final_traceback(facts, r)) is not None}
    if case.world_size is None or len(waits) < max(3, len(case.world)) or has_connection_broken_first(facts):
        return None
    places: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for rank, event in waits.items():
        places[_user_frames(event)].add(rank)
    if len(places) != 2:
        return None
    few, most = sorted(places.values(), key=len)
    odd, rest = Ranks(few), Ranks(most)
    ours, theirs = waits[min(odd)], waits[min(rest)]
    if 3 * len(odd) > len(waits) or not is_call_of_all_ranks(ours.code):
        return None
    grouped = has_group(theirs.code) and _has_branched_earlier(ours, theirs)
    if grouped is not other_group:
        return None
    evidence: list[Citation] = [
        Line(waits[r], disagree.waited_at(r, waits[r].frame, waits[r].code[:80])) for r in list(odd)[:2]
    ]
    evidence += [Line(waits[r], disagree.waited_at(r, waits[r].frame)) for r in list(rest)[:3]]
    return Hypothesis(
        disagree.apart_in_program(odd, ours.frame, theirs.frame),
        evidence,
        (Doubt(disagree.last_call_not_due_one(odd), cause=Confidence.MEDIUM),),
        ranks=odd,
        refuted_by=disagree.traceback_at_peers(odd),
    )


def places_of_waits(facts: Facts) -> dict[str, Ranks]:
    """Where ranks waited when they gave up, by the own frame of their tracebacks: the place of most ranks first."""
    places: dict[str, set[int]] = defaultdict(set)
    for rank in facts.case.world:
        event = final_traceback(facts, rank)
        if event is not None and event.frame:
            places[innermost((event.frame,))].add(rank)
    return {place: Ranks(ranks) for place, ranks in sorted(places.items(), key=lambda item: -len(item[1]))}


def ranks_apart(facts: Facts) -> Ranks:
    """The few that waited elsewhere, where most waited in a call that needs every rank; empty where nothing shows that."""
    places = list(places_of_waits(facts).values())
    few = Ranks(rank for ranks in places[1:] for rank in ranks)
    most = final_traceback(facts, min(places[0])) if few and len(places[0]) > len(few) else None
    return few if most is not None and is_call_of_all_ranks(most.code) else Ranks()


def final_traceback(facts: Facts, rank: int) -> ExceptionRaised | None:
    """The traceback with which a rank gave up, where it names the place."""
    said = facts.liveness.activity(rank).secondary_errors
    return next(
        (
            e
            for e in said
            if isinstance(e, ExceptionRaised) and e.code and (is_gloo_timeout(e) or is_lost_connection(e))
        ),
        None,
    )


def _user_frames(event: ExceptionRaised) -> tuple[str, ...]:
    """The frames outside packages, outermost first."""
    return tuple(f for f in reversed(event.frames) if "-packages/" not in f)


def _has_branched_earlier(event: ExceptionRaised, other: ExceptionRaised) -> bool:
    """True when a rank waits further up in the function in which the two tracebacks part.

    The rank took another branch. Example: rank 3 waits in line 40 of ``train_step``, and its peers in line 52.
    """
    for mine, theirs in zip(_user_frames(event), _user_frames(other), strict=False):
        if mine != theirs:
            here, line = _function_and_line(mine)
            there, other_line = _function_and_line(theirs)
            return here == there and line < other_line
    return False


def _function_and_line(frame: str) -> tuple[str, int]:
    """The function with its file, and the line; 0 where there is none."""
    where, _, line = frame.rstrip(")").rpartition(":")
    return where, int(line) if line.isdigit() else 0
