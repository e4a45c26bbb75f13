"""Finds what shows ranks outside a stuck call, and which of those ranks may be named."""

from __future__ import annotations

from collections.abc import Collection

from nccldoctor.align.descriptions import describe_missing
from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import is_manual_dump
from nccldoctor.align.nccl_counter_evidence import answered_ras, counter_evidence, counters_of, no_ras_answer
from nccldoctor.align.stack_activity import is_waiting, place_in_framework, shown_activity_of, split_frame, user_frame
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Dump, Line, row_of_number
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.diagnose.phrases.who import BLOCKED, NO_PYTHON_FRAME, PROMPT, doing
from nccldoctor.events import DesyncReport, DumpNote, ExceptionRaised, MonitoredBarrier, Note, Stack
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost
from nccldoctor.questions.inside import A_LOCK, child_inside, thread_inside
from nccldoctor.questions.process import at_prompt

RANKS_PER_SILENT = 8
"""Ranks of the job for each one that may be silent together with others and be named all the same."""

WELL_INTO = 60.0
"""Seconds after the stalled call was issued from which on a line is one of the stall, whatever the clocks."""

MAKING = ("new_group", "split_group", "_new_process_group_helper", "_store_based_barrier")
"""Functions of ``torch.distributed`` in which all ranks meet to make a group."""

NOT_WORK = frozenset({"starting", "ready", "finished", "epoch-end"})
"""Phases that are moments, and no work that a rank may be busy with."""


def show_outside(facts: Facts, call: StuckCall | None, rank: int) -> list[Citation]:
    """Cites the dump, the counters or the report that shows a rank outside the call."""
    citations: list[Citation] = []
    if call is not None:
        progress = facts.progress.by_group_rank.get((call.group, rank))
        what = describe_missing(facts, call)
        if rank in facts.progress.recorded_ranks:
            last = progress.enqueued if progress is not None and progress.enqueued >= 0 else None
            row = row_of_number(facts, call.group, rank, last) if last is not None else None
            citations.append(Dump(rank, say("absent.not-recorded", rank=rank, call=what, last=last), row))
        elif progress is None:
            citations += no_ras_answer(facts, rank)
        elif progress.event is not None and progress.enqueued < call.seq:
            says = say("absent.stopped-before", rank=rank, last=progress.enqueued)
            line, counters = progress.event, counters_of(facts, call)
            citations.append(Line(line, says) if counters is None else counter_evidence(line, counters, says))
    desync = (e for e in facts.case.of(DesyncReport) if rank in e.laggards)
    citations += [Line(e, say("absent.named-by-desync", ranks=e.laggards)) for e in desync][:1]
    barriers = (e for e in facts.case.of(MonitoredBarrier) if rank in e.missing)
    return citations + [Line(e, say("absent.missing-at-barrier", ranks=e.missing)) for e in barriers][:1]


def show_activity(facts: Facts, rank: int) -> tuple[str, list[Citation]]:
    """Returns what a rank was doing outside the call, as the rest of a sentence after *was*, with citations.

    The rank's stack says it, else its last phase; "" where neither does. Example: "in load_batch (data.py:34)".
    """
    activity = facts.liveness.activity(rank)
    if (prompt := show_open_prompt(facts, rank)) is not None:
        return PROMPT, [prompt]
    for stack in activity.stacks:
        if stack.main and not is_waiting(stack.frames):
            own = user_frame(stack.frames) or next((f for f in stack.frames if not f.startswith(("??", "0x"))), "")
            words, around = shown_activity_of(stack.frames), place_in_framework(stack.frames)
            short, full = (doing(words, at, around) or NO_PYTHON_FRAME for at in (innermost((own,)), own))
            more, shown = show_inside(facts, rank)
            return short + more, [Line(stack, say("absent.was-doing", rank=rank, doing=full)), *shown]
    if (state := next((s for s in activity.states if s.state == "blocked"), None)) is not None:
        return BLOCKED, [Line(state, say("absent.was-doing", rank=rank, doing=BLOCKED))]
    begun = [p for p in activity.phases if not p.detail.startswith("done") and p.what not in NOT_WORK]
    if begun:
        last = begun[-1]
        since = activity.phases[activity.phases.index(last) :]
        if not any(p.what == last.what and p.detail.startswith("done") for p in since):
            words = last.work or last.what
            return words, [Line(last, say("absent.was-doing", rank=rank, doing=words))]
    return "", []


def show_inside(facts: Facts, rank: int) -> tuple[str, list[Line]]:
    """What a rank waits for inside its process, as the end of a sentence about it, with citations.

    ``, waiting in Queue.put for its thread writer, which waits for a lock in flush (ckpt.py:31)``; "" where nothing shows it.
    """
    if (thread := thread_inside(facts, rank)) is not None:
        says = say("absent.own-thread", rank=rank, thread=thread.name, does=thread.does)
        key = "absent.beside-thread" if thread.held in ("", A_LOCK) else "absent.for-thread"
        clause = say(key, held=thread.held or None, thread=thread.name, does=thread.does)
        return clause, [Line(thread.shown, says)]
    if (child := child_inside(facts, rank)) is not None:
        says = say("absent.own-child", rank=rank, child=child.name, does=child.does)
        return say("absent.for-child", child=child.name, does=child.does), [Line(child.shown, says)]
    return "", []


def show_open_prompt(facts: Facts, rank: int) -> Line | None:
    """The prompt that a rank waits at, where nothing of the rank follows it."""
    shown = at_prompt(facts, [rank]).shown_by
    return Line(shown, say("absent.waits-for-input", rank=rank)) if isinstance(shown, Note) else None


def show_inside_function(facts: Facts, rank: int, functions: Collection[str]) -> Line | None:
    """A main stack or a traceback of a rank inside one of these functions of ``torch.distributed``."""
    stacks: list[Stack | ExceptionRaised] = [s for s in facts.liveness.activity(rank).stacks if s.main]
    for event in stacks + [e for e in facts.case.of(ExceptionRaised, rank) if e.origin != "own"]:
        for frame in event.frames:
            function, file = split_frame(frame)
            if function in functions and "torch/distributed/" in file:
                return Line(event, say("absent.inside-function", rank=rank, function=function))
    return None


def show_alive(facts: Facts, rank: int) -> list[Citation]:
    """Cites the evidence that a rank was alive after the stall began.

    A dump, a reply to the dump signal or to RAS, a stack, a line, or that the rank obeyed the closing signal.
    """
    activity, liveness = facts.liveness.activity(rank), facts.liveness
    citations: list[Citation] = []
    if activity.dump != "none" and (rank in facts.progress.last_row or rank in facts.progress.recorded_ranks):
        citations.append(Dump(rank, say("absent.dumped", rank=rank)))
    citations += [Line(e, say("absent.answered-dump-request", rank=rank)) for e in activity.dump_replies[:1]]
    manual = manual_dumps(facts, rank) if activity.dump == "none" else []
    citations += [Line(e, say("absent.dumped-while-stuck", rank=rank)) for e in manual[:1]]
    citations += answered_ras(facts, rank)
    prompt = show_open_prompt(facts, rank)
    citations += [prompt] if prompt is not None else []
    stack = activity.stack_of_life
    if stack is not None and stack.main:
        citations.append(Line(stack, say("absent.stack-taken", rank=rank)))
    last = activity.last_event
    if not citations and last is not None and activity.last >= min(liveness.alarm, liveness.began + WELL_INTO):
        citations.append(Line(last, say("absent.still-wrote", rank=rank)))
    closed = next((e for e in activity.exits if e.was_closed), None)
    if closed is not None:
        citations.append(Line(closed, say("absent.exited-on-sigterm", rank=rank)))
    return citations


def manual_dumps(facts: Facts, rank: int) -> list[DumpNote]:
    """The lines with which the training script of a rank says that it dumped by itself."""
    return [e for e in facts.case.of(DumpNote, rank) if is_manual_dump(e)]


def are_only_ones_left(facts: Facts, ranks: Ranks) -> bool:
    """True when every other rank of a job of known size is proven to wait.

    Example: ranks 0-4, 6 and 7 of 8 gave up on calls: if a rank is at fault, it is rank 5.
    """
    return bool(ranks) and facts.ledger.is_closed and facts.ledger.open <= ranks


def nameable_ranks(facts: Facts, stall: Stall) -> Ranks:
    """Returns the ranks that may be named: proven absent, or the only ones not shown to be waiting.

    Example: ranks 0-6 gave up on ALLREDUCE #18 of the default group of 8 ranks; rank 7 may be named although it left nothing. Not so
    where it may have waited as well: NCCL reported a lost peer to it, its own watchdog took it down, or it aborted as the others did. A
    dump or a log that was not collected shows neither.
    """
    call, case, left = stall.call, facts.case, facts.ledger.open
    if stall.proven_absent or call is None:
        return stall.proven_absent
    if left <= stall.ranks and ((len(left) == 1 and _is_size_sure(facts, left)) or _are_few_silent(facts, left)):
        return left - facts.ledger.waiting
    if len(call.unknown) != 1 or call.missing or not call.entered:
        return Ranks()
    group = case.groups[call.group]
    sized = case.world_size is not None and (group.learned != "assumed" or bool(facts.liveness.dumped))
    whole = group.learned in ("config", "entries") or (group.desc == "default_pg" and sized)
    return call.unknown - facts.ledger.waiting if whole else Ranks()


def _is_size_sure(facts: Facts, left: Ranks) -> bool:
    """True when no rank beyond those that were read can be the missing one.

    Something names the size of the job, or ranks beyond the missing ones were read, and the missing ones are no mere gap in one text: of
    ranks 0-7 with a log each, rank 3 is missing although rank 7 was read.
    """
    liveness = facts.liveness
    collected = liveness.per_rank_logs or left <= liveness.logged
    has_gap = collected and max(left) < max(liveness.logged | liveness.exited, default=-1)
    return facts.case.world_size is not None and len(facts.case.world) > 2 and (facts.ledger.is_closed or has_gap)


def _are_few_silent(facts: Facts, ranks: Ranks) -> bool:
    """True when ``ranks``, one in eight at most, left nothing at all."""
    activity = facts.liveness.activity
    if not ranks or facts.case.world_size is None or RANKS_PER_SILENT * len(ranks) > len(facts.case.world):
        return False
    return not any(activity(r).is_alive or activity(r).exits or activity(r).secondary_errors for r in ranks)


def is_shown_whole(facts: Facts, call: StuckCall) -> bool:
    """True when all members are known, and all of them are in the call or have completed it."""
    group = facts.case.groups[call.group]
    return frozenset(group.members) <= call.entered | call.completed and (
        group.learned in ("config", "listed", "seats")
        or (group.learned == "entries" and frozenset(facts.case.world) <= facts.progress.recorded_ranks)
        or (group.learned == "world" and facts.case.world_size is not None)
    )
