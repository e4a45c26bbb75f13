"""Questions about stacks: what a rank does, and where the stalled call was made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nccldoctor.align.stack_activity import activity_of, is_waiting, user_frame
from nccldoctor.events import FailedStack, Stack
from nccldoctor.prescribe.conditions.base import (
    Answer,
    Context,
    Met,
    NotCheckable,
    Unmet,
    Who,
    excerpt,
    listed,
    named,
    predicate,
)
from nccldoctor.prescribe.conditions.findings import operation

DEPTH = 40
"""Innermost frames that are looked at: a program's own work stands there, its launcher below."""


def is_frame_of(frame: str, function: tuple[str, ...], file: tuple[str, ...]) -> bool:
    """Whether ``function (file:line)`` is one of the functions, in one of the files where files are given.

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


def _main_threads(stacks: tuple[Stack, ...]) -> Iterator[Stack]:
    """The main threads where the tool tells which they are, else all: helper threads of a healthy rank wait for data,
    too.
    """
    mains = [stack for stack in stacks if stack.main]
    yield from mains or stacks


@predicate(weight=0.85)
def stack_frame(
    context: Context, *, of: Who = "culprit", function: tuple[str, ...] = (), file: tuple[str, ...] = ()
) -> Answer:
    """A stack of such a rank shows one of these functions (in one of these files), in its main thread where that is
    known.
    """
    asked = _asked(named(context, of), function, file, "has in its stack")
    survey = context.survey
    ranks = survey.stacks if of == "anyone" else [r for r in context.ranks(of) if r in survey.stacks]
    if of == "culprit-host":
        hosts = survey.hosts_of(context.ranks(of))
        ranks = [r for r in survey.stacks if survey.case.rank_host.get(r) in hosts]
    found = [stack for rank in ranks for stack in _main_threads(survey.stacks[rank])]
    if of in ("anyone", "culprit-host"):
        found += [s for s in survey.of(Stack) if s.rank is None]
    if not found:
        return NotCheckable(asked, f"a stack of {named(context, of)}: py-spy dump, faulthandler or gdb while it hangs")
    for stack in found:
        for frame in stack.frames[:DEPTH]:
            if is_frame_of(frame, function, file):
                return Met(asked, excerpt(frame), str(stack.place))
    return Unmet(asked, f"its stack shows {excerpt(found[0].frames[0]) if found[0].frames else 'nothing'}")


@predicate(weight=0.85)
def doing(context: Context, *, what: tuple[str, ...], of: Who = "culprit") -> Answer:
    """A stack of such a rank says that it does one of these, in the words of ``nccldoctor.align.stack_activity``."""
    asked = f"{named(context, of)} {listed(what)}"
    ranks = context.survey.stacks if of == "anyone" else context.ranks(of)
    stacks = [s for r in ranks for s in _main_threads(context.survey.stacks.get(r, ()))]
    if not stacks:
        return NotCheckable(asked, f"a stack of {named(context, of)}: py-spy dump, faulthandler or gdb while it hangs")
    said = [(activity_of(stack.frames), stack) for stack in stacks]
    for words, stack in said:
        if words in what:
            return Met(asked, excerpt(f"rank {stack.rank} {words}: {stack.frames[0]}"), str(stack.place))
    return Unmet(asked, f"it {said[0][0] or 'does something else'}")


@predicate(weight=0.55)
def stack_outside(context: Context, *, of: Who = "culprit") -> Answer:
    """Such a rank's stack is there and does not wait for a peer: it works, or waits for something else."""
    asked = f"{named(context, of)} is in code of its own"
    stacks = [s for r in context.ranks(of) for s in _main_threads(context.survey.stacks.get(r, ()))]
    if not stacks:
        return NotCheckable(asked, f"a stack of {named(context, of)}: py-spy dump, faulthandler or gdb while it hangs")
    for stack in stacks:
        if stack.frames and not is_waiting(stack.frames):
            says = activity_of(stack.frames) or f"stands in {user_frame(stack.frames) or stack.frames[0]}"
            return Met(asked, excerpt(f"rank {stack.rank} {says}"), str(stack.place))
    return Unmet(asked, "it waits for a peer")


@predicate(weight=0.6)
def call_site(context: Context, *, function: tuple[str, ...] = (), file: tuple[str, ...] = ()) -> Answer:
    """The stalled call was made from one of these functions, by the recorder's stack or the watchdog's."""
    asked = _asked("the stalled call", function, file, "was made in")
    stacks = list(_recorded(context)) + [(e.frames, str(e.place)) for e in context.survey.of(FailedStack)]
    stacks += [
        (s.frames, str(s.place)) for r in context.finding.victims for s in context.survey.stacks.get(r, ()) if s.main
    ]
    if not stacks:
        return NotCheckable(asked, "the stack of the stalled call: a flight-recorder dump with frames")
    for calls, place in stacks:
        for frame in calls[:DEPTH]:
            if is_frame_of(frame, function, file):
                return Met(asked, excerpt(frame), place)
    made = stacks[0][0]
    return Unmet(asked, f"it was made in {excerpt(made[0]) if made else 'a place that is not recorded'}")


@predicate(weight=0.75)
def misdirected(context: Context, *, of: Who = "suspects") -> Answer:
    """Such a rank waits in a call of another group that was made at the same line as the stalled one, with the same
    operation and size: it was handed the wrong group.
    """
    asked = f"{named(context, of)} made the stalled call in another group"
    case, call = context.survey.case, context.finding.stalled
    if call is None or call.seq is None or not len(case.calls):
        return NotCheckable(asked, "flight-recorder dumps with frames")
    calls = case.calls
    open_ = ~calls.retired & ~calls.is_p2p & (calls.stack > 0)
    here = np.array(
        [g >= 0 and call.group in (case.groups[g].label, case.groups[g].uid) for g in case.call_group.tolist()]
    )
    stalled = np.flatnonzero(open_ & here & (calls.seq == call.seq))
    about = np.isin(case.call_rank, np.array(list(context.ranks(of) or context.ranks("culprit")), dtype=np.int64))
    for row in np.flatnonzero(open_ & ~here & about)[:4096].tolist():
        alike = (calls.stack[stalled] == calls.stack[row]) & (calls.op[stalled] == calls.op[row])
        if np.any(alike & (calls.sizes[stalled] == calls.sizes[row])):
            name, file, line = case.vocabulary.stacks[int(calls.stack[row])][0]
            head = case.dumps[int(calls.dump[row])]
            group = case.groups[int(case.call_group[row])].label
            says = f"rank {int(case.call_rank[row])} waits in {group}, in the call made at {name} ({file}:{line})"
            return Met(asked, excerpt(says), f"{head.path}#entries[{int(calls.entry[row])}]")
    return Unmet(asked, "the open calls of different groups come from different lines")


def _recorded(context: Context) -> Iterator[tuple[tuple[str, ...], str]]:
    """The stacks that dumps hold for the stalled call, at most eight."""
    case, call = context.survey.case, context.finding.stalled
    if call is None or call.seq is None or not len(case.calls):
        return
    numbers = case.calls.p2p_seq if call.kind == "p2p" else case.calls.seq
    rows = np.flatnonzero((numbers == call.seq) & (case.calls.stack > 0))
    shown_stacks: set[int] = set()
    for row in rows[:4096]:
        code, op, index = int(case.calls.stack[row]), int(case.calls.op[row]), int(case.call_group[row])
        if code in shown_stacks or len(shown_stacks) >= 8:
            continue
        if call.op and op >= 0 and operation(case.vocabulary.ops[op].split(" ")[0]) != operation(call.op):
            continue
        if (
            call.group
            and 0 <= index < len(case.groups)
            and call.group not in (case.groups[index].label, case.groups[index].uid)
        ):
            continue
        shown_stacks.add(code)
        made = tuple(f"{name} ({file}:{line})" for name, file, line in case.vocabulary.stacks[code])
        head = case.dumps[int(case.calls.dump[row])]
        yield made, f"{head.path}#entries[{int(case.calls.entry[row])}]"
