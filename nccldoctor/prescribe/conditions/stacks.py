"""Questions about stacks: what a rank does, and where the stalled call was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import numpy as np

from nccldoctor.align.divergence.mismatches import call_frames, is_of_several_functions
from nccldoctor.align.liveness import is_behind_exception
from nccldoctor.align.stack_activity import find_activity, is_by_name, is_waiting, shown_activity_of, user_frame
from nccldoctor.events import ExceptionRaised, FailedStack, ProcessExit, ProcessState, Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Finding, Group
from nccldoctor.prescribe.conditions.base import Context, OneOf, Who, listed, predicate
from nccldoctor.prescribe.conditions.findings import operation
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, excerpt, quoted
from nccldoctor.questions.inside import child_inside, thread_inside
from nccldoctor.questions.process import moving

DEPTH = 40
"""Innermost frames that are looked at: a program's own work stands there, its launcher below."""


def is_frame_of(frame: str, function: tuple[str, ...], file: tuple[str, ...]) -> bool:
    """True where ``function (file:line)`` is one of the functions, in one of the files where files are given.

    ``save`` matches ``save`` and ``Trainer.save``; ``ncclLaunch*`` any function beginning so. A file matches by any
    part of its path.
    """
    name, _, where = frame.partition(" (")
    name = name.strip()
    if file and not any(part in where for part in file):
        return False
    if not function:
        return bool(file)
    tail = name.replace("::", ".").rsplit(".", 1)[-1]
    for wanted in function:
        if wanted.endswith("*"):
            if name.startswith(wanted[:-1]) or tail.startswith(wanted[:-1]):
                return True
        elif wanted in (name, tail) or name.endswith("." + wanted):
            return True
    return False


def _asked(who: str, function: tuple[str, ...], file: tuple[str, ...], verb: str) -> str:
    what = " in ".join(part for part in (listed(function, 4), listed(file, 3)) if part)
    return f"{who} {verb} {what}"


def _main_threads(stacks: tuple[Stack, ...]) -> list[Stack]:
    """The main threads, or all where the tool doesn't say.

    Helper threads of a healthy rank wait for data, too.
    """
    return [stack for stack in stacks if stack.main] or list(stacks)


def _stacks_of(context: Context, who: Who) -> list[Stack]:
    """The main threads of the ranks meant by ``who``, rank by rank."""
    stacks = context.survey.stacks
    ranks = stacks if who == "anyone" else context.ranks_of(who)
    return [stack for rank in ranks for stack in _main_threads(stacks.get(rank, ()))]


def _no_stack(context: Context, asked: str, who: Who) -> NotCheckable:
    return NotCheckable(
        asked, f"a stack of {context.in_words(who)} (py-spy, faulthandler or gdb, taken while it hangs)"
    )


def _met_by_frame(asked: str, found: Sequence[tuple[str, str]]) -> Met:
    """Met by the first frame of a library, else by a user's own function.

    The name of that is a hint.
    """
    frame, place = next(((frame, place) for frame, place in found if not is_by_name(frame)), found[0])
    return Met(asked, excerpt(frame), place, is_hint=is_by_name(frame))


@predicate(weight=0.85)
def stack_frame(
    context: Context, *, of: Who = "culprit", function: tuple[str, ...] = (), file: tuple[str, ...] = ()
) -> Answer:
    """A stack of such a rank shows one of these functions (in one of these files).

    Where main threads are known, only those count.
    """
    asked = _asked(f"a stack of {context.in_words(of)}", function, file, "shows")
    survey = context.survey
    if of == "culprit-host":
        hosts = survey.hosts_of(context.ranks_of(of))
        ranks = [rank for rank in survey.stacks if set(survey.hosts_of([rank])) & set(hosts)]
        stacks = [stack for rank in ranks for stack in _main_threads(survey.stacks[rank])]
    else:
        stacks = _stacks_of(context, of)
    if of in ("anyone", "culprit-host"):
        stacks += [stack for stack in survey.events_of(Stack) if stack.rank is None]
    if not stacks:
        return _no_stack(context, asked, of)
    near = ((frame, str(stack.place)) for stack in stacks for frame in stack.frames[:DEPTH])
    found = [(frame, place) for frame, place in near if is_frame_of(frame, function, file)]
    if found:
        return _met_by_frame(asked, found)
    return Unmet(
        asked, f"the innermost frame is {excerpt(stacks[0].frames[0])}" if stacks[0].frames else "the stack is empty"
    )


@predicate(weight=0.85)
def doing(context: Context, *, what: tuple[str, ...], of: Who = "culprit") -> Answer:
    """A stack of such a rank shows that it does one of these. The words are those of ``nccldoctor.align.stack_activity``."""
    asked = f"{context.in_words(of)} {listed(what)}"
    activities = [(find_activity(stack.frames), stack) for stack in _stacks_of(context, of)]
    fitting = [(found, stack) for found, stack in activities if found is not None and found.words in what]
    if fitting:
        found, stack = next((pair for pair in fitting if not pair[0].is_guess), fitting[0])
        says = f"rank {stack.rank} {found.words}: {stack.frames[0]}"
        if found.is_guess:
            says = f"rank {stack.rank} is in {found.function}; its name is all that shows it"
        return Met(asked, excerpt(says), str(stack.place), is_hint=found.is_guess)
    if not activities:
        return _no_stack(context, asked, of)
    first = activities[0][0]
    return Unmet(asked, f"the rank {first.words if first is not None else 'was doing something else'}")


@predicate(weight=0.55)
def stack_outside(context: Context, *, of: Who = "culprit") -> Answer:
    """Such a rank's stack is there and does not wait for a peer: it works, or waits for something else."""
    asked = f"a stack of {context.in_words(of)} shows no wait for a peer"
    stacks = [] if of == "anyone" else _stacks_of(context, of)
    for stack in stacks:
        if stack.frames and not is_waiting(stack.frames):
            says = shown_activity_of(stack.frames) or f"was in {user_frame(stack.frames) or stack.frames[0]}"
            return Met(asked, excerpt(f"rank {stack.rank} {says}"), str(stack.place))
    return Unmet(asked, "the rank waits for a peer") if stacks else _no_stack(context, asked, of)


@predicate(weight=0.85)
def lingers(context: Context, *, of: Who = "culprit") -> Answer:
    """Such a rank raised an exception, and a later stack shows its process still there."""
    asked = f"the process of {context.in_words(of)} stayed after its exception"
    survey, ranks = context.survey, context.ranks_of(of)
    own = [e for e in survey.events_of(ExceptionRaised) if e.origin == "own"]
    raised = {e.rank: e for e in reversed(own) if e.rank is not None and e.rank in ranks}
    stacks = [stack for rank in raised for stack in survey.stacks.get(rank, ())]
    if ended := next((e for e in survey.events_of(ProcessExit) if e.rank in ranks), None):
        return Unmet(asked, quoted(ended))
    for stack in stacks:
        if stack.rank is not None and is_behind_exception(stack, raised[stack.rank]):
            says = f"rank {stack.rank} was in {user_frame(stack.frames) or stack.frames[0]}"
            return Met(asked, excerpt(says), str(stack.place))
    return Unmet(asked, "its stack is from before the exception") if stacks else _no_stack(context, asked, of)


@predicate(weight=0.95)
def process_state(context: Context, *, state: tuple[str, ...], of: Who = "culprit") -> Answer:
    """The process of such a rank is in one of these states, by ``ps`` or a stack tool."""
    asked = f"the process of {context.in_words(of)} is {listed(state)}"
    ranks = context.ranks_of(of)
    known = context.survey.facts.liveness.by_rank
    seen = [state for rank in (known if of == "anyone" else ranks) if rank in known for state in known[rank].states]
    seen += [e for e in context.survey.events_of(ProcessState) if of == "anyone" and e.rank is None]
    for event in seen:
        if event.state in state:
            return Met(asked, quoted(event), str(event.place))
    if not seen:
        return NotCheckable(asked, "the state of the process (ps -o pid,stat,wchan,cmd, taken while it hangs)")
    return Unmet(asked, f"the process is {seen[0].state}")


@predicate(weight=0.9)
def own_wait(context: Context, *, what: tuple[Literal["stuck-thread", "busy-thread", "child"], ...]) -> Answer:
    """Such a rank waits for another thread of its process, or for a child that it started."""
    asked = f"{context.in_words('culprit')} waits for a {listed(what)} inside its process"
    ranks, facts = list(context.ranks_of("culprit"))[:DEPTH], context.survey.facts
    for rank in ranks:
        thread, child = thread_inside(facts, rank), child_inside(facts, rank)
        kind = "child" if thread is None else "stuck-thread" if thread.is_stuck else "busy-thread"
        if (found := thread or child) is not None and kind in what:
            says = excerpt(f"{found.name} {found.does}")
            return Met(asked, says, str(found.shown.place), shown_by=found.shown)
    has_threads = any(not stack.main for rank in ranks for stack in context.survey.stacks.get(rank, ()))
    return Unmet(asked, "no thread of it does") if has_threads else NotCheckable(asked, "stacks of all its threads")


_MOTIONS: dict[str, type[Answer]] = {"computing": Met, "blocked": Unmet, "unknown": NotCheckable}
"""The answers to whether a rank moves: *computing* also where it is slow, *blocked* where two looks show the same idle frame."""

_ASKED_MOTION = {"computing": "computed", "blocked": "made no progress", "unknown": "may have computed or been blocked"}


@predicate(weight=0.4)
def motion(context: Context, *, is_: tuple[Annotated[str, OneOf(tuple(_MOTIONS))], ...], of: Who = "culprit") -> Answer:
    """Such a rank computes, is blocked, or neither is known.

    Two looks at its stack, or the state of its thread or process, tell.
    """
    asked = f"{context.in_words(of)} {listed(_ASKED_MOTION[each] for each in is_)}"
    seen = moving(context.survey.facts, context.ranks_of(of))
    if any(isinstance(seen, _MOTIONS[each]) for each in is_):
        return Met(asked, seen.says)
    return NotCheckable(asked, seen.says) if seen.holds is None else Unmet(asked, seen.says)


@predicate(weight=0.6)
def call_site(context: Context, *, function: tuple[str, ...] = (), file: tuple[str, ...] = ()) -> Answer:
    """The stalled call was made from one of these functions, by a recorded stack or a traceback."""
    asked = _asked("the stalled call", function, file, "was made in")
    survey = context.survey
    stacks = list(recorded_stacks(context))
    stacks += [(failed.frames, str(failed.place)) for failed in survey.events_of(FailedStack)]
    stacks += [(s.frames, str(s.place)) for r in context.finding.victims for s in survey.stacks.get(r, ()) if s.main]
    raised = (e for e in survey.events_of(ExceptionRaised) if e.origin == "echo" and e.rank in context.finding.victims)
    stacks += [(e.frames, str(e.place)) for e in raised if e.frames]
    if not stacks:
        return NotCheckable(asked, "the stack of the stalled call (a flight recorder dump with frames)")
    found = [
        (frame, place) for frames, place in stacks for frame in frames[:DEPTH] if is_frame_of(frame, function, file)
    ]
    if found:
        return _met_by_frame(asked, found)
    innermost = stacks[0][0]
    return Unmet(
        asked, f"the call was made in {excerpt(innermost[0])}" if innermost else "the dump has no frames for the call"
    )


@predicate(weight=0.6)
def differing_data(context: Context, *, made_in: Literal["one-function", "several-functions"]) -> Answer:
    """The calls agree in the operation and differ in size or dtype; dumps show in which functions ranks made them.

    In several functions it was another call of the program. Without frames it counts as one function.
    """
    asked = f"ranks made the stalled call with different data in {made_in.replace('-', ' ')}"
    if context.finding.cause not in (CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH):
        return Unmet(asked, f"{context.finding.id} is {context.finding.cause.value}")
    case, finding = context.survey.case, context.finding
    rows = rows_of_stalled(finding, context.survey, finding.ranks | finding.suspects | finding.victims)
    frames = call_frames(case, {int(case.call_rank[row]): row for row in rows if not case.calls.is_p2p[row]})
    says = "; ".join(f"rank {rank}: {frame or 'no frames'}" for rank, frame in sorted(frames.items())[:4]) or "no dump"
    is_met = is_of_several_functions(frames.values()) == (made_in == "several-functions")
    return (Met if is_met else Unmet)(asked, excerpt(says))


def rows_of_stalled(finding: Finding, survey: Survey, ranks: Iterable[int]) -> Iterator[int]:
    """The rows of the stalled call in the dumps of these ranks; none where the finding has no numbered call."""
    case, call = survey.case, finding.stalled
    if call is None or call.seq is None or not len(case.calls):
        return
    numbers = case.calls.p2p_seq if call.kind == "p2p" else case.calls.seq
    is_asked = np.isin(case.call_rank, np.array(list(ranks), dtype=np.int64))
    for row in np.flatnonzero((numbers == call.seq) & is_asked).tolist():
        group = int(case.call_group[row])
        if group >= 0 and (call.group is None or _is_named(case.groups[group], call.group)):
            yield row


@predicate(weight=0.75)
def misdirected(context: Context, *, of: Who = "suspects") -> Answer:
    """Such a rank waits in another group, in a call made at the line of the stalled one.
    Operation and size are the same: the call was handed the wrong group.
    """
    asked = f"{context.in_words(of)} made the stalled call in a different group"
    case, call = context.survey.case, context.finding.stalled
    if call is None or call.seq is None or not len(case.calls):
        return NotCheckable(asked, "flight recorder dumps with frames")
    calls = case.calls
    is_open = ~calls.retired & ~calls.is_p2p & (calls.stack > 0)
    of_group = np.array([g >= 0 and _is_named(case.groups[g], call.group) for g in case.call_group.tolist()])
    stalled = np.flatnonzero(is_open & of_group & (calls.seq == call.seq))
    of_rank = np.isin(
        case.call_rank, np.array(list(context.ranks_of(of) or context.ranks_of("culprit")), dtype=np.int64)
    )
    for row in np.flatnonzero(is_open & ~of_group & of_rank)[:4096].tolist():
        alike = (calls.stack[stalled] == calls.stack[row]) & (calls.op[stalled] == calls.op[row])
        if np.any(alike & (calls.sizes[stalled] == calls.sizes[row])):
            name, file, line = case.vocabulary.stacks[int(calls.stack[row])][0]
            group = case.groups[int(case.call_group[row])].label
            says = f"rank {int(case.call_rank[row])} waits in {group}, in the call made at {name} ({file}:{line})"
            return Met(asked, excerpt(says), _entry(case, row))
    return Unmet(asked, "the open calls of different groups come from different lines")


def _is_named(group: Group, name: str | None) -> bool:
    return name in (group.label, group.uid)


def _entry(case: Case, row: int) -> str:
    """The place of a recorded call: ``dumps/trace_3#entries[17]``."""
    return f"{case.dumps[int(case.calls.dump[row])].path}#entries[{int(case.calls.entry[row])}]"


def recorded_stacks(context: Context) -> Iterator[tuple[tuple[str, ...], str]]:
    """The distinct stacks that dumps hold for the stalled call, at most eight, each with its place."""
    case, call = context.survey.case, context.finding.stalled
    if call is None or call.seq is None or not len(case.calls):
        return
    numbers = case.calls.p2p_seq if call.kind == "p2p" else case.calls.seq
    seen: set[int] = set()
    for row in np.flatnonzero((numbers == call.seq) & (case.calls.stack > 0))[:4096].tolist():
        stack, op, group = int(case.calls.stack[row]), int(case.calls.op[row]), int(case.call_group[row])
        if stack in seen or len(seen) >= 8:
            continue
        if call.op and op >= 0 and operation(case.vocabulary.ops[op].split(" ")[0]) != operation(call.op):
            continue
        if call.group and 0 <= group < len(case.groups) and not _is_named(case.groups[group], call.group):
            continue
        seen.add(stack)
        yield tuple(f"{name} ({file}:{line})" for name, file, line in case.vocabulary.stacks[stack]), _entry(case, row)
