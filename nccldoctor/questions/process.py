"""Whether the process of a rank is stopped, moves, or waits for a person."""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.align.facts import Facts
from nccldoctor.align.stack_activity import activity_of
from nccldoctor.events import Note
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, quoted
from nccldoctor.words.kernel_waits import waits_for

ASKS_A_PERSON = frozenset({"is in a debugger", "waits for input"})
"""Activities that end only when a person answers, in the words of :mod:`nccldoctor.align.stack_activity`."""


def stopped(facts: Facts, ranks: Iterable[int]) -> Answer:
    """Whether a signal had stopped the process of such a rank, wherever it stood in its program."""
    seen = [state for rank in ranks for state in facts.liveness.activity(rank).states]
    state = next((each for each in seen if each.state == "stopped"), None)
    if state is not None:
        return Met(says=quoted(state), shown_by=state)
    return Unmet(says=f"the process is {seen[0].state}") if seen else NotCheckable(says="the state of the process")


def moving(facts: Facts, ranks: Iterable[int]) -> Answer:
    """Whether the first of these ranks that left a stack or a state goes on.

    What it did between two looks says it. Without that, py-spy's *active* and state R are a thread that runs: it computes, also where all
    looks caught it at the same line, in a loop. State D and T stand still. Otherwise two looks tell.
    """
    for rank in ranks:
        own = facts.liveness.activity(rank)
        if (did := facts.looks.did(rank)) is not None:
            idle = {"blocked": _STANDS, "polls": POLLS}.get(did.manner)
            return Unmet(says=idle) if idle is not None else Met(says=_GOES_ON)
        stacks = [stack for stack in own.stacks if stack.main and not stack.helper]
        if not stacks and not own.states:
            continue
        is_still = any(state.state in ("blocked", "stopped", "traced") for state in own.states)
        is_active = any((s.state or "").startswith("active") for s in stacks if s.look == stacks[0].look)
        runs = is_active or any(state.state == "running" for state in own.states)
        if not is_still and not runs and (moved := facts.looks.has_moved(rank)) is None:
            break
        return Unmet(says=_STANDS) if is_still or not (runs or moved) else Met(says=_GOES_ON)
    return NotCheckable(says="no two looks at it, and no state of its thread")


POLLS = "it wakes and sleeps in turn"
_STANDS, _GOES_ON = "it stands idle in one place", "its thread runs, or moved between two looks"


def at_prompt(facts: Facts, ranks: Iterable[int]) -> Answer:
    """Whether such a rank waits for a person. Its newest stack is in a debugger or an input, or its log ends in a prompt."""
    is_seen = False
    for own in map(facts.liveness.activity, ranks):
        newest = [stack for stack in own.stacks if stack.look == own.stacks[0].look]
        stack = next((s for s in newest if s.main and activity_of(s.frames) in ASKS_A_PERSON), None)
        note = own.last_event if isinstance(own.last_event, Note) and own.last_event.is_prompt else None
        if (shown := note or stack) is not None:
            return Met(says=quoted(shown), shown_by=shown)
        is_seen = is_seen or own.last_event is not None
    return Unmet(says="it wrote on") if is_seen else NotCheckable(says="a line or a stack of the rank")


def kernel_wait(facts: Facts, rank: int) -> tuple[str, str] | None:
    """What a rank's process waits for in the kernel, and the function; None where no file tells."""
    functions = (state.waits_in or "" for state in facts.liveness.activity(rank).states)
    return next(((what, function) for function in functions if (what := waits_for(function))), None)
