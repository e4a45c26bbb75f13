"""Tells from stacks and process states whether a rank computes, is blocked, or waits for a person."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from nccldoctor.align.stack_activity import activity_of, as_any_tool_prints
from nccldoctor.events import Note, ProcessState, Stack
from nccldoctor.prescribe.conditions.base import Context, OneOf, Who, listed, predicate
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet
from nccldoctor.words.kernel_waits import waits_for

PROMPTS = ("is in a debugger", "waits for input")
"""What a stack shows of a process that waits for a person, in the words of :mod:`nccldoctor.align.stack_activity`."""


class Motion(StrEnum):
    """Whether a rank moves: *computing* also where it is slow, *blocked* where two looks show the same idle frame."""

    COMPUTING = "computing"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


def lasting_states(events: Iterable[ProcessState]) -> list[ProcessState]:
    """The states of the newest look at each rank.

    A process is *traced* for a moment whenever somebody takes its stack: that state counts only where every look shows it.
    """
    of_rank: dict[int | None, list[ProcessState]] = {}
    for event in events:
        of_rank.setdefault(event.rank, []).append(event)
    kept = []
    for states in of_rank.values():
        lasting = [state for state in states if state.state != "traced"] or states
        newest = max(state.look for state in lasting)
        kept += [state for state in lasting if state.look == newest]
    return kept


def motion_of(ranks: Iterable[int], survey: Survey) -> Motion:
    """What the newest looks show of the first of these ranks that left one.

    py-spy's *active* and state R are a thread that runs: it computes, also where both looks caught it at the same line, in a loop.
    State D and T stand still. Otherwise it is blocked where a second look shows the same frames, and idle.
    """
    for rank in ranks:
        stacks = [stack for stack in survey.stacks.get(rank, ()) if stack.main and not stack.helper]
        states = lasting_states(event for event in survey.events_of(ProcessState) if event.rank == rank)
        if not stacks and not states:
            continue
        newest = max((stack.look for stack in stacks), default=0)
        last = [stack for stack in stacks if stack.look == newest]
        if any(state.state in ("blocked", "stopped", "traced") for state in states):
            return Motion.BLOCKED
        if any((stack.state or "").startswith("active") for stack in last) or any(s.state == "running" for s in states):
            return Motion.COMPUTING
        earlier = [stack for stack in stacks if 0 < stack.look < newest]
        if not earlier:
            return Motion.UNKNOWN
        return (
            Motion.BLOCKED
            if all(_python_frames(stack) == _python_frames(last[0]) for stack in earlier)
            else Motion.COMPUTING
        )
    return Motion.UNKNOWN


def kernel_wait_of(rank: int, survey: Survey) -> tuple[str, str] | None:
    """What a rank's process waits for in the kernel, and the function; None where no file tells."""
    states = lasting_states(event for event in survey.events_of(ProcessState) if event.rank == rank)
    found = ((waits_for(state.waits_in), state.waits_in) for state in states if state.waits_in)
    return next(((what, function) for what, function in found if what), None)


def is_stopped(ranks: Iterable[int], survey: Survey) -> bool:
    """True where a signal had stopped the process of such a rank, wherever it stood in its program."""
    states = {state.rank: state for state in survey.events_of(ProcessState)}
    return any(states[rank].state == "stopped" for rank in ranks if rank in states)


def _python_frames(stack: Stack) -> tuple[str, ...]:
    """The Python frames of a stack, which another tool or option shows as well."""
    return tuple(as_any_tool_prints(frame) for frame in stack.frames if ".py:" in frame)


def is_at_prompt(ranks: Iterable[int], survey: Survey) -> bool:
    """True where such a rank's stack is in a debugger or an input, or its log ends in a prompt."""
    culprits = set(ranks)
    frames = (stack.frames for rank in culprits for stack in survey.stacks.get(rank, ()))
    notes = (note for note in survey.events_of(Note) if note.is_prompt)
    return any(activity_of(each) in PROMPTS for each in frames) or any(note.rank in culprits for note in notes)


_SAYS = {
    Motion.COMPUTING: "its thread runs, or moved between two looks",
    Motion.BLOCKED: "it stands idle in one place",
    Motion.UNKNOWN: "no two looks at it, and no state of its thread",
}

_ASKED = {
    Motion.COMPUTING: "computed",
    Motion.BLOCKED: "made no progress",
    Motion.UNKNOWN: "may have computed or been blocked",
}


@predicate(weight=0.4)
def motion(context: Context, *, is_: tuple[Annotated[str, OneOf(tuple(Motion))], ...], of: Who = "culprit") -> Answer:
    """Such a rank computes, is blocked, or neither is known.

    Two looks at its stack, or the state of its thread or process, tell.
    """
    asked = f"{context.in_words(of)} {listed(_ASKED[Motion(each)] for each in is_)}"
    seen = motion_of(context.ranks_of(of), context.survey)
    if seen in is_:
        return Met(asked, _SAYS[seen])
    return NotCheckable(asked, _SAYS[seen]) if seen is Motion.UNKNOWN else Unmet(asked, _SAYS[seen])
