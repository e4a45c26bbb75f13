"""Words and citations for ranks by where their stacks stand, and whether the job goes on all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from nccldoctor.align.facts import Facts
from nccldoctor.align.health.passed_calls import has_passed_looks
from nccldoctor.align.stack_activity import (
    activity_of,
    hooks_of,
    place_in_framework,
    shown_activity_of,
    wait_of,
)
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.align.standing.outside import Standing, standing_of
from nccldoctor.align.standing.stances import Posture, Stance, is_transfer
from nccldoctor.diagnose.hypothesis import Line
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.diagnose.phrases.who import NO_PYTHON_FRAME, ongoing
from nccldoctor.diagnose.phrases.who import who as named
from nccldoctor.diagnose.signs.absence import show_inside
from nccldoctor.events import AbsenceReport, Event, ExceptionRaised, Note, Phase, ProcessState, Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost, is_later_line
from nccldoctor.questions.inside import busy_workers
from nccldoctor.questions.process import ASKS_A_PERSON

BLOCKED = frozenset({"is in a debugger", "waits for input", "waits for a file lock", "sleeps"})
"""Activities that hardly ever end by themselves, or not soon."""

ENDS = frozenset(
    {"writes a checkpoint", "loads a checkpoint", "evaluates", "compiles", "builds an extension", "prepares data"}
)
"""Work that ends by itself, and may hold up the other ranks of a healthy job."""

RARE = ASKS_A_PERSON | {"waits for a file lock"} | (ENDS - {"prepares data"})
"""Activities that are not part of every step: a rank that is late in each step is not caught in one twice."""

MOST = 3
"""Ranks that are cited."""


def was_taken_before_alarm(facts: Facts, stall: Stall) -> bool:
    """True where complaints name no call and no stack follows the first. A rank that gave up its wait stands elsewhere then."""
    stacks = [s.event for look in facts.looks.all for s in look.stances.values()]
    is_open = has_given_up(facts) and has_no_record(facts, stall)
    return is_open and not any(map(facts.liveness.is_after_alarm, stacks))


def has_given_up(facts: Facts) -> bool:
    """True when a rank complains; what follows a Ctrl-C or another signal from outside is no complaint."""
    alarm = facts.liveness.first_alarm
    is_stopped = isinstance(alarm, ExceptionRaised) and alarm.signal is not None
    return alarm is not None and not facts.looks.interrupted and not is_stopped


def standing_at_rest(facts: Facts, stall: Stall) -> Standing:
    """Where the processes stand, if stacks are all there is and show no job that goes on; else nobody.

    A rank that only says that it makes no step is looked at because of that, and stands where it stood.
    """
    is_open = not has_given_up(facts) or all(map(is_about_itself, (e for e in facts.case.events if e.is_complaint)))
    is_at_rest = is_open and has_no_record(facts, stall) and not facts.looks.has_gone_on
    return standing_of(facts.looks, facts.case.world) if is_at_rest else Standing()


def is_about_itself(event: Event) -> bool:
    """True when a rank reports that it is stuck itself and does not name the rank that blocks it."""
    return isinstance(event, AbsenceReport) and event.what == "step" and not event.missing


def has_no_record(facts: Facts, stall: Stall) -> bool:
    """True where stacks alone show how the job stands: no rank fails, or waits by another record."""
    is_open = stall.kind is StallKind.NOTHING and not facts.failures and not _has_ended(facts)
    return is_open and bool(facts.looks.all) and not has_passed_looks(facts)


def has_stopped(facts: Facts) -> bool:
    """True where steps stopped long before the newest look, or a rank gave up a wait after it."""
    return bool(facts.looks.is_quiet) or has_given_up(facts)


def _has_ended(facts: Facts) -> bool:
    """True when every rank that logs says that it is done, or a line of no rank does."""
    done = [p for p in facts.case.of(Phase) if p.what == "finished"]
    ranks = Ranks(p.rank for p in done if p.rank is not None)
    return bool(done) and (len(ranks) == 0 or facts.liveness.logged <= frozenset(ranks))


def who(case: Case, stances: Sequence[Stance]) -> str:
    """``ranks 0-2``; processes of unknown rank by pid and host."""
    ranks, others = known_ranks(stances), [s.event for s in stances if s.rank is None]
    if not others:
        return named(case, ranks)
    event = others[0]
    host = f" on {event.host}" if event.host else ""
    one = f"process {event.pid}{host}" if event.pid is not None else f"the process of {event.place.path}"
    one += f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{named(case, ranks)} and {one}" if ranks else one


def known_ranks(stances: Sequence[Stance]) -> Ranks:
    """The ranks of the processes, as far as they are known."""
    return Ranks(s.rank for s in stances if s.rank is not None)


def in_most_common_call(stances: Sequence[Stance]) -> list[Stance]:
    """The waiting ranks that are in the call of most of them: one operation, reached by the same own lines."""
    if not stances:
        return []
    call = Counter(s.call for s in stances).most_common(1)[0][0]
    return [s for s in stances if s.call == call]


def waits_in(stances: Sequence[Stance], others: Sequence[Stance] = ()) -> str:
    """What most of the waiting ranks are in: ``all_reduce, called in sync_gradients (train.py:79)``."""
    first = in_most_common_call(stances)[0]
    # where a helper makes both calls, the line that called it
    parts = (own for own, other in zip_longest(first.path, others[0].path if others else ()) if own and own != other)
    op, place = first.op, next(parts, first.place)
    at = innermost((place,))
    at += _in_framework(first) if at and place == first.place else ""
    if op == "backward":
        return "the backward pass" + (f" of {at}" if at else "")
    if not op:
        return at or "a call of other ranks"
    return op if not at or at.startswith(f"{op} (") else f"{op}, called in {at}"


def what_it_does(facts: Facts, stances: Sequence[Stance]) -> str:
    """What the first of the named ranks does: ``in next_batch (data.py:34), waiting for the data loader``."""
    first = stances[0]
    if first.posture.is_gone:
        return first.words.removeprefix("is ")
    if isinstance(first.event, ProcessState) and not first.path:
        return ", ".join(dict.fromkeys((working(facts, first), ongoing(first.shown))))
    place = innermost((first.place,)) or (innermost(first.event.frames) if isinstance(first.event, Stack) else "")
    at = f"in {place}{_in_framework(first) if first.place else ''}" if place else NO_PYTHON_FRAME
    at = f"{word} {at}" if (word := working(facts, first)) else at
    return f"{at}, {ongoing(first.shown)}" if first.shown and len(stances) == 1 else at


def working(facts: Facts, stance: Stance) -> str:
    """``polling``, ``blocked``: what a process did between two looks; "" where nobody measured it."""
    did = facts.looks.did(stance.process)
    return ongoing(did.manner) if did is not None else ""


def _in_framework(stance: Stance) -> str:
    return place_in_framework(stance.event.frames) if isinstance(stance.event, Stack) else ""


def odd_ones(facts: Facts) -> tuple[list[Stance], list[Stance]]:
    """The few that stand at another own line than most, and those most. Two ends of a transfer always do."""
    known = [s for s in facts.looks.newest.values() if s.path and s.posture not in (Posture.LEAVING, Posture.DEVICE)]
    most = in_most_common_call(known)
    few = [s for s in known if s not in most]
    return (few, most) if few and 3 * len(few) <= len(most) and not any(is_transfer(s.op) for s in known) else ([], [])


def where_they_stand(facts: Facts) -> str:
    """Where the ranks stand; that they move or not, where all are at one place and were seen once.

    Example: ``Process 41 is in next_batch (data.py:34), waiting for the data loader, but we can't say if it's moving.``
    """
    stances = list(facts.looks.newest.values())
    groups: dict[tuple[object, ...], list[Stance]] = {}
    for stance in stances:
        groups.setdefault((stance.posture.is_wait, stance.call), []).append(stance)
    if not stances:
        other = next(s for s in facts.case.of(Stack) if s.frames)
        doing = ongoing(shown_activity_of(other.frames)) or f"in {innermost(other.frames)}"
        thread, pid = other.thread or other.ident, other.pid
        return say("stacks.only-thread", thread=thread, pid=pid, rank=other.rank, doing=doing)
    if len(groups) == 1 and not (stances[1:] and all(facts.looks.has_moved(s.process) is False for s in stances)):
        first, waiting = stances[0], stances[0].posture.is_wait
        does = f"waiting in {waits_in([first])}" if waiting else what_it_does(facts, [first])
        near = (e for e in facts.case.of(Stack) if e.place.source == first.event.place.source and not e.main)
        of_process = (e.frames for e in near if e.pid == first.event.pid)
        waits = (activity_of(frames) for frames in of_process if (wait_of(frames) or ("", ""))[0] == "call")
        call = next((does for does in waits if does), "") if first.posture is Posture.BACKWARD else ""
        named, alone = who(facts.case, stances), waiting and len(stances) == 1
        return say("stacks.only-place", who=named, ranks=stances, doing=does, thread=call, is_alone=alone)
    shown = sorted(groups.values(), key=len, reverse=True)[:MOST]
    places = [f"{who(facts.case, s)} {_stand_in(facts, s, shown[s is shown[0]] if shown[1:] else ())}" for s in shown]
    if more := len(stances) - sum(map(len, shown)):
        places.append(say("stacks.more-elsewhere", more=more))
    return say("stacks.several-places", places=places)


def _stand_in(facts: Facts, stances: Sequence[Stance], others: Sequence[Stance]) -> str:
    be = "are" if len(stances) > 1 else "is"
    is_wait = stances[0].posture.is_wait
    return f"{be} in {waits_in(stances, others)}" if is_wait else f"{be} {what_it_does(facts, stances)}"


def show(facts: Facts, stances: Sequence[Stance], others: Sequence[Stance] = ()) -> list[Line]:
    """The newest stack of each of the first ranks, and the first one where it was looked at before.

    Beside ``others`` in another call it is told by what the ranks are in.
    """
    lines = []
    for stance in stances[:MOST]:
        lines += _show_work(facts, stance) if not others else []
        for seen in dict.fromkeys((stance.event, facts.looks.seen(stance.process)[0].event)):
            says = shown_activity_of(seen.frames) if isinstance(seen, Stack) else ""
            at = f"in {innermost(seen.frames)}" if isinstance(seen, Stack) else str(seen.state)
            doing = f"in {waits_in([stance], others)}" if others else ongoing(says) or at
            text = say("stacks.seen", who=_rank_or_pid(stance), doing=doing)
            lines.append(Line(seen, text))
    return lines


def _show_work(facts: Facts, stance: Stance) -> list[Line]:
    """What a process did between two looks, by the kernel's count."""
    state, did, who = facts.looks.work.get(stance.process), facts.looks.did(stance.process), _rank_or_pid(stance)
    if state is None or did is None:
        return []
    children, moved, took = did.children or None, did.read + did.written or None, did.ms / 1000
    doing, cpu, waits = ongoing(did.manner), did.cpu, did.waits
    text = say("stacks.worked", who=who, doing=doing, took=took, cpu=cpu, children=children, waits=waits, moved=moved)
    return [Line(state, text)]


def _rank_or_pid(stance: Stance) -> str:
    if stance.rank is not None:
        return f"rank {stance.rank}"
    pid = stance.event.pid
    return f"process {pid}" if pid is not None else f"the process of {stance.event.place.path}"


def show_helpers(facts: Facts, culprits: Sequence[Stance]) -> list[Line]:
    """The workers of a data loader that are at work while a named rank waits for them."""
    busy = _busy_helpers(facts, culprits)[:MOST]
    lines = [Line(h, say("stacks.worker-busy", pid=h.pid, place=innermost(h.frames)), "stack") for h in busy]
    return lines or [line for s in culprits[:MOST] if s.rank is not None for line in show_inside(facts, s.rank)[1]]


def where_its_worker_is(facts: Facts, culprits: Sequence[Stance]) -> str:
    """``whose worker 508 is in read_shard (data.py:31)``; "" unless one rank waits for a worker, thread or child."""
    busy = _busy_helpers(facts, culprits)
    if not busy and len(culprits) == 1 and culprits[0].rank is not None:
        return show_inside(facts, culprits[0].rank)[0].removeprefix(", ")
    if len(culprits) != 1 or len({helper.pid for helper in busy}) != 1 or busy[-1].pid is None:
        return ""
    return say("stacks.its-worker", pid=busy[-1].pid, place=innermost(busy[-1].frames))


def _busy_helpers(facts: Facts, culprits: Sequence[Stance]) -> list[Stack]:
    return busy_workers(facts, {None, *(s.rank for s in culprits)}, (s.words for s in culprits))


def show_asked_in_vain(facts: Facts, ranks: Ranks) -> list[Line]:
    """That the debug server asked each of these ranks in vain; nothing where it did not ask one of them."""
    asked = {e.rank: e for e in facts.case.of(Note) if e.what == "debug-server-no-answer" and e.rank in ranks}
    if len(asked) < len(ranks):
        return []
    notes = [asked[rank] for rank in list(ranks)[:MOST]]
    return [Line(e, say("absent.no-answer", rank=e.rank, detail=e.detail), observer="debug server") for e in notes]


def is_later(few: Stance, most: Stance) -> bool | None:
    """True where a rank parted from its peers at a later line of a function; None for two functions."""
    pairs = zip(few.path[::-1], most.path[::-1], strict=False)
    return next((is_later_line(mine, theirs) for mine, theirs in pairs if mine != theirs), None)


def mismatch(few: Stance, most: Stance) -> CauseClass:
    """The class of two calls that wait for each other, by where the own code of the two parts.

    One line of one function with another operation is another call at the same place. A later line of it was reached without the
    call of the others, an earlier one by a call that they did not make. A transfer has no other end while all others are in a collective.
    """
    if is_transfer(few.op) or is_transfer(most.op):
        return CauseClass.UNMATCHED_P2P
    later, is_known = is_later(few, most), Posture.DEVICE not in (few.posture, most.posture)
    if is_known and few.op != most.op and (later is None or few.path[1:] == most.path[1:]):
        return CauseClass.OP_MISMATCH
    return CauseClass.EXTRA_CALL if later is False else CauseClass.MISSED_CALL


def hooks_by_rank(facts: Facts, ranks: Ranks) -> Iterator[tuple[int, tuple[str, Stack | ExceptionRaised]]]:
    """The outermost part of a framework on the stack or traceback of each rank: ``evaluate of the Trainer``."""
    for rank in ranks:
        own = facts.liveness.activity(rank)
        raised = (e for e in own.secondary_errors if isinstance(e, ExceptionRaised))
        for event in chain[Stack | ExceptionRaised]((s for s in own.stacks if s.main), raised):
            if hooks := hooks_of(event.frames):
                yield rank, (f"{hooks[-1].function} of {hooks[-1].owner}", event)
                break
