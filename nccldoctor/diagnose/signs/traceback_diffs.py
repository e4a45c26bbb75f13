"""Tracebacks of ranks that all gave up: one waited at another place of the program than all others.

Gloo's lines name neither call nor group; the traceback quotes the line of code. Example: ranks 0-6 waited at train.py:40, in
``dist.all_reduce(loss)``, rank 7 at train.py:52, in ``dist.barrier()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import is_failed_wait
from nccldoctor.align.stack_activity import as_any_tool_prints, user_frames
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.sides import MOST
from nccldoctor.diagnose.signs.recorded_diffs import size_complaints
from nccldoctor.diagnose.signs.silence import has_connection_broken_first
from nccldoctor.events import ExceptionRaised
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks, ranks_by
from nccldoctor.model.stack_frames import innermost, is_later_line
from nccldoctor.parsers.event_details import can_end_early, has_group, is_call_of_all_ranks


def judge(facts: Facts, stall: Stall, *, other_group: bool) -> Hypothesis | None:
    """The few ranks whose call needs everybody, and that wait in it without all the others."""
    case = facts.case
    if stall.kind not in (StallKind.NOTHING, StallKind.CRASH) or facts.progress.recorded_ranks or facts.failures:
        return None
    waits = {r: e for r in case.world if (e := final_traceback(facts, r)) is not None}
    if case.world_size is None or len(waits) < max(3, len(case.world)) or has_connection_broken_first(facts):
        return None
    places = ranks_by((own_frames(event.frames), rank) for rank, event in waits.items())
    if len(places) != 2:
        return None
    odd, rest = sorted(places.values(), key=len)
    ours, theirs = waits[min(odd)], waits[min(rest)]
    if 3 * len(odd) > len(waits) or not is_call_of_all_ranks(ours.code):
        return None
    # a rank that waits further up in the function where they part took another branch: line 40 of train_step, peers 52
    pairs = zip(own_frames(ours.frames), own_frames(theirs.frames), strict=False)
    branched = next((is_later_line(mine, other) is False for mine, other in pairs if mine != other), False)
    grouped = has_group(theirs.code) and branched
    if grouped is not other_group:
        return None
    here, there = own_place(ours), own_place(theirs)
    if here == there:
        here, there = parting_places([own_frames(ours.frames), own_frames(theirs.frames)])
    evidence: list[Citation] = [Line(waits[r], _wait_claim(waits[r], r, here)) for r in list(odd)[:2]]
    evidence += [Line(waits[r], say("disagree.waited-at", rank=r, frame=there)) for r in list(rest)[:3]]
    return Hypothesis(
        headline_of("disagree.apart-in-program", odd=odd, here=here, there=there),
        evidence,
        (doubt_of("last-call-not-due-one", odd=odd),),
        ranks=odd,
        refuted_by=say("refuted.traceback-at-peers", odd=odd),
    )


def judge_size_complaint(facts: Facts) -> Hypothesis | None:
    """Ranks whose calls differ: gloo received a message of the wrong size, and the tracebacks show different calls.

    Gloo numbers the calls of a group and compares the sizes of two ranks under one number. Example: rank 3 received 4,228 bytes and
    expected 4; rank 0 waited in ``loss.backward()``, rank 2 in ``dist.all_reduce(t)`` of another function. Where all ranks wait at one
    line and only their callers differ, the operation is the same and its size differs.
    """
    complaints = size_complaints(facts)
    if not complaints or facts.progress.recorded_ranks:
        return None
    waits = {r: e for r in facts.case.world if (e := final_traceback(facts, r)) is not None}
    paths = ranks_by((own_frames(event.frames), rank) for rank, event in waits.items())
    codes = [event.code for event in waits.values()]
    if len(paths) < 2 or not all(paths) or any(map(has_group, codes)):
        return None  # the lines may belong to two groups, or to a call that some ranks leave early
    if not any(is_call_of_all_ranks(code) and not can_end_early(code) for code in codes):
        return None
    sides = sorted(((ranks, path) for path, ranks in paths.items()), key=lambda side: (len(side[0]), min(side[0])))
    few = sides[0][0]
    is_minority = len(sides) == 2 and 3 * len(few) <= len(waits) and len(waits) + 1 >= len(facts.case.world)
    is_one_line = len({own_place(event) for event in waits.values()}) == 1
    if is_one_line:
        places = parting_places([path for _, path in sides])
        parts = [say("disagree.from-place", ranks=s, place=at) for (s, _), at in zip(sides, places, strict=True)][:MOST]
        headline = headline_of("disagree.one-line-from-places", few=few, place=places[0], others=parts[1:])
    else:
        parts = [say("disagree.at-line", ranks=side, frame=own_place(waits[min(side)])) for side, _ in sides[:MOST]]
        headline = headline_of("disagree.different-lines", places=parts)
    return Hypothesis(
        headline,
        [
            *(
                Line(waits[r], _wait_claim(waits[r], r, own_place(waits[r])))
                for r in (min(side) for side, _ in sides[:4])
            ),
            *(Line(e, say("disagree.unexpected-size", rank=e.rank)) for e in complaints[:2]),
        ],
        (doubt_of("lines-of-two-groups"),),
        ranks=few if is_minority else Ranks(),
        suspects=Ranks() if is_minority else facts.case.world,
        cause=CauseClass.SIZE_MISMATCH if is_one_line else CauseClass.OP_MISMATCH,
    )


def parting_places(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Of each path of frames, outermost first, the frame at which they part: ``step (train.py:241)``."""
    shared = next(n for n, frames in enumerate(zip_longest(*paths)) if len(set(frames)) > 1)
    return [innermost((path[min(shared, len(path) - 1)],)) for path in paths]


def own_place(event: ExceptionRaised) -> str:
    """The frame of the program in which a rank waited: ``evaluate (train.py:21)``."""
    return innermost((event.frame,)) if event.frame else ""


def _wait_claim(event: ExceptionRaised, rank: int, place: str) -> str:
    """``Rank 3 waited at train.py:40, in dist.barrier().``"""
    return say("disagree.waited-at", rank=rank, frame=place, code=event.code[:80])


def places_of_waits(facts: Facts) -> dict[str, Ranks]:
    """Where ranks waited when they gave up, the place of most first: the own frame that parts their tracebacks."""
    waits = [(rank, e) for rank in facts.case.world if (e := final_traceback(facts, rank)) is not None]
    paths = ranks_by((own_frames(e.frames) or (e.frame,), rank) for rank, e in waits if e.frame)
    shown = [innermost((path[-1],)) for path in paths]
    if len(set(shown)) < len(paths) > 1:
        shown = parting_places(list(paths))
    places = dict(zip(shown, paths.values(), strict=True))
    return dict(sorted(places.items(), key=lambda item: -len(item[1])))


def ranks_apart(facts: Facts) -> Ranks:
    """The few that waited elsewhere, where most waited in a call that needs every rank; empty where nothing shows that."""
    places = list(places_of_waits(facts).values())
    few = Ranks(rank for ranks in places[1:] for rank in ranks)
    most = final_traceback(facts, min(places[0])) if few and len(places[0]) > len(few) else None
    return few if most is not None and is_call_of_all_ranks(most.code) else Ranks()


def final_traceback(facts: Facts, rank: int) -> ExceptionRaised | None:
    """The traceback with which a rank gave up, where it names the place."""
    said = (e for e in facts.liveness.activity(rank).secondary_errors if isinstance(e, ExceptionRaised) and e.code)
    return next(filter(is_failed_wait, said), None)


def own_frames(frames: Sequence[str]) -> tuple[str, ...]:
    """The frames of the program itself, outermost first, as any tool prints them."""
    return tuple(map(as_any_tool_prints, reversed([*user_frames(frames)])))
