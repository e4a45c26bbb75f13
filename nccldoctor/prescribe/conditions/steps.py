"""Questions about the steps of a job: where in a step a rank stopped."""

from __future__ import annotations

import numpy as np

from nccldoctor.align.stack_activity import first_meaningful, user_frames, wait_of
from nccldoctor.events import ExceptionRaised, FailedStack, Heartbeat, Progress, Stack
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks
from nccldoctor.prescribe.conditions.base import Context, Who, predicate
from nccldoctor.prescribe.conditions.stacks import DEPTH, is_frame_of, recorded_stacks
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, excerpt, quoted

LOOKED_AT = 400
"""Calls before the stalled one that are looked at."""
LONGEST_PAUSE = 2.0
"""How many times longer than the other pauses of a step the one between two steps is."""

_BACKWARD = ("_engine_run_backward", "run_backward")


@predicate(weight=0.4)
def between_steps(context: Context, *, of: Who = "culprit") -> Answer:
    """Such a rank stopped between two steps, where a batch is loaded.

    It made the stalled call after its longest pause in earlier steps. Without dumps: its last line is a step, and the others wait in
    the backward pass.
    """
    asked = f"{context.in_words(of)} stopped between two steps"
    ranks = context.ranks_of(of)
    if context.finding.confidence not in (Confidence.HIGH, Confidence.MEDIUM):
        return NotCheckable(asked, "proof that the rank was late and didn't skip the call")
    if context.finding.cause is CauseClass.FROZEN:
        return NotCheckable(asked, "proof that the process still runs")
    # a stack shows what the rank did, and nobody has to guess
    stacks = (stack for rank in ranks for stack in context.survey.stacks.get(rank, ()) if stack.main)
    if at := next(filter(None, (next(iter(user_frames(stack.frames)), "") for stack in stacks)), ""):
        return Unmet(asked, f"its stack shows it in {excerpt(at)}")
    pauses = _pauses(context, ranks)
    if pauses is not None:
        if by_hand := _made_by_hand(context):
            return Unmet(asked, f"the waiting ranks are in a call that the program makes in {excerpt(by_hand)}")
        before, others = pauses
        says = f"in earlier steps the pause before this call was {before:.3g} s, other pauses were {others:.3g} s"
        return Met(asked, says) if before > LONGEST_PAUSE * others else Unmet(asked, says)
    last = next((event for (rank, _), event in context.survey.last_activity.items() if rank in ranks), None)
    if last is None:
        return NotCheckable(asked, "flight recorder dumps, or a log of each rank's steps")
    place = _backward_of_others(context, ranks)
    if place is None or not (isinstance(last, Progress | Heartbeat) and last.is_step):
        return Unmet(asked, f"the last line is {quoted(last)}")
    return Met(asked, f"the waiting ranks are in the backward pass; the last line is {quoted(last)}", place)


def _made_by_hand(context: Context) -> str:
    """The own line that made the stalled call, outside any backward pass and hook; empty where a framework made it.

    The first call of a step of a framework follows the loading of a batch. What a program does before a call that it makes by
    itself is its own affair, such as the playing of a game.
    """
    for frames, _ in recorded_stacks(context):
        own = next(iter(user_frames(frames)), "")
        inner = frames[: frames.index(own)] if own else ()
        if own and all(wait_of([frame]) or first_meaningful([frame]) == ("", "") for frame in inner):
            return own
    return ""


def _pauses(context: Context, ranks: Ranks) -> tuple[float, float] | None:
    """The median pause before the stalled call and before other calls, in seconds, by the dump of the first culprit.

    None where dumps do not show such a call in two earlier steps, or no call of another kind.
    """
    case, call = context.survey.case, context.finding.stalled
    calls, culprit = case.calls, next(iter(ranks), None)
    if call is None or call.seq is None or culprit is None or not len(calls):
        return None
    labels = np.array([g.label == call.group or g.uid == call.group for g in case.groups] + [False])
    of_group = labels[case.call_group] & ~calls.is_p2p & (calls.created_ns > 0)
    others = np.flatnonzero(of_group & (calls.seq == call.seq) & (case.call_rank != culprit))
    own = np.flatnonzero(of_group & (case.call_rank == culprit) & (calls.seq < call.seq))
    if not len(others) or len(own) < 4:
        return None
    own = own[np.argsort(calls.seq[own], kind="stable")][-LOOKED_AT:]
    columns = (calls.op, calls.sizes, calls.stack)  # the operation, the sizes and the call site
    alike = np.all([column[own[1:]] == column[others[0]] for column in columns], axis=0)
    gaps = np.diff(calls.created_ns[own]) / 1e9
    if alike.sum() < 2 or alike.all():
        return None
    return float(np.median(gaps[alike])), float(np.median(gaps[~alike]))


def _backward_of_others(context: Context, culprits: Ranks) -> str | None:
    """The place of a stack or traceback that shows a waiting rank in its backward pass."""
    survey = context.survey
    for kind in (Stack, ExceptionRaised, FailedStack):
        for event in survey.events_of(kind):
            frames = getattr(event, "frames", ())
            if event.rank not in culprits and any(is_frame_of(f, _BACKWARD, ()) for f in frames[:DEPTH]):
                return str(event.place)
    return None
