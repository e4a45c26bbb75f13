"""Finds the line of the user's own code that the culprit was in: the first line to open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.stack_activity import user_frame, user_frames
from nccldoctor.events import ExceptionRaised, Stack
from nccldoctor.model import CauseClass, Family, Finding
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import parse_frame
from nccldoctor.prescribe.conditions.stacks import rows_of_stalled
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.questions.process import stopped

_NAMED = 8
"""Culprits whose frames are sought; more of them share no line that is worth opening first."""

DIFFERS_AT_CALL = (CauseClass.OP_MISMATCH, CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH, CauseClass.EXTRA_CALL)
"""Classes where the culprit made the wrong call under the stalled number; of the others it lacks the right one."""


class CulpritFrame(Struct, frozen=True):
    """A function of the user's code, its file and line. ``worker`` is the pid of a data loader's worker there, None of a rank itself."""

    function: str
    place: str
    worker: int | None = None


def culprit_frame(finding: Finding, survey: Survey) -> CulpritFrame | None:
    """The innermost user frame of the first culprit that left one.

    Of an exception that is where it was raised, of a call that differs where it was made, of any other culprit where its newest stack is.
    A culprit that waits for its data loader stands where the worker does that the finding quotes.
    """
    ranks = tuple(finding.blamed)[:_NAMED]
    if finding.cause is CauseClass.FROZEN and stopped(survey.facts, ranks).holds:
        return None  # a signal comes at any line
    if finding.cause is CauseClass.RAISED:
        quoted = {evidence.where for evidence in finding.evidence if evidence.supports}
        own = (e for e in survey.events_of(ExceptionRaised) if e.origin == "own")
        raised = (e for e in own if e.rank in ranks or (e.rank is None and e.place in quoted))
        found: Iterable[tuple[str, ...]] = (e.frames or ((e.frame,) if e.frame else ()) for e in raised)
    elif finding.cause in DIFFERS_AT_CALL:
        found = (frames for _, frames in _called_in(finding, ranks, survey))
    elif finding.family in (Family.ABSENT, Family.SLOW, Family.SETUP):
        if (worker := _worker_frame(finding, survey)) is not None:
            return worker
        found = _stood_in(ranks, survey)
    else:
        return None
    return next(filter(None, map(_user_frame, found)), None)


def _worker_frame(finding: Finding, survey: Survey) -> CulpritFrame | None:
    quoted = {evidence.where for evidence in finding.evidence if evidence.supports}
    workers = (stack for stack in survey.events_of(Stack) if stack.helper and stack.place in quoted)
    frames = ((stack.pid, _user_frame(stack.frames)) for stack in workers)
    return next((replace(frame, worker=pid) for pid, frame in frames if frame is not None), None)


def _called_in(finding: Finding, ranks: Iterable[int], survey: Survey) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each of these ranks with its stack of the stalled call, as its dump holds it."""
    case = survey.case
    framed = (row for row in rows_of_stalled(finding, survey, ranks) if case.calls.stack[row] > 0)
    for row in islice(framed, 64):
        stack = case.vocabulary.stacks[int(case.calls.stack[row])]
        yield int(case.call_rank[row]), tuple(f"{name} ({file}:{line})" for name, file, line in stack)


def frames_apart(finding: Finding, survey: Survey) -> tuple[tuple[Ranks, CulpritFrame], ...]:
    """The lines at which ranks parted on their way to calls that differ, those of the culprits first.

    Dumps hold them, else the tracebacks that the finding quotes. Fewer than two lines tell of no branch. Example: rank 0 made its call
    in line 38 of ``main``, rank 2 in ``evaluate``, which line 42 of ``main`` had called: they parted at 38 and 42.
    """
    if finding.cause not in DIFFERS_AT_CALL:
        return ()
    culprits, peers = finding.blamed, finding.victims
    found = list(_called_in(finding, sorted(culprits | peers), survey)) or list(_quoted_tracebacks(finding, survey))
    paths = [(rank, own[::-1]) for rank, frames in found if (own := _own_frames(frames))]
    shared = next((n for n, row in enumerate(zip_longest(*(path for _, path in paths))) if len(set(row)) > 1), -1)
    places: dict[CulpritFrame, set[int]] = {}
    for rank, path in sorted(paths, key=lambda item: (item[0] not in culprits, item[0])):
        places.setdefault(path[min(shared, len(path) - 1)], set()).add(rank)
    return tuple((Ranks(ranks), frame) for frame, ranks in places.items())


def _quoted_tracebacks(finding: Finding, survey: Survey) -> Iterator[tuple[int, tuple[str, ...]]]:
    quoted = {evidence.where for evidence in finding.evidence if evidence.supports}
    for event in survey.events_of(ExceptionRaised):
        if event.rank is not None and event.place in quoted:
            yield event.rank, event.frames or ((event.frame,) if event.frame else ())


def frame_of_rank(rank: int, survey: Survey) -> CulpritFrame | None:
    """The innermost user frame of any rank that left a stack."""
    return next(filter(None, map(_user_frame, _stood_in((rank,), survey))), None)


def _stood_in(ranks: Iterable[int], survey: Survey) -> Iterator[tuple[str, ...]]:
    for rank in ranks:
        stacks = survey.stacks.get(rank, ())
        threads: list[Stack] = [stack for stack in stacks if stack.main] or list(stacks)
        yield from (stack.frames for stack in sorted(threads, key=lambda stack: -stack.look))


def parting_of(finding: Finding, survey: Survey) -> tuple[CulpritFrame, str] | None:
    """The line of a shared function where one late rank left its peers, and their line.

    None where its stack holds no function that a peer's holds too, where both stand in the same line of it, or where the rank stands in
    that function itself.
    """
    if len(finding.ranks) != 1 or finding.family not in (Family.ABSENT, Family.SLOW):
        return None
    own = next((_own_frames(frames) for frames in _stood_in(finding.ranks, survey)), [])
    peers = [frames for rank in tuple(finding.victims)[:_NAMED] for frames in _stood_in((rank,), survey)]
    for number, branch in enumerate(own):
        file, _, line = branch.place.rpartition(":")
        theirs = (at for frames in peers for at in _own_frames(frames))
        shared = [at for at in theirs if (at.function, at.place.rpartition(":")[0]) == (branch.function, file)]
        if shared:
            is_apart = number > 0 and all(at.place.rpartition(":")[2] != line for at in shared)
            return (branch, shared[0].place) if is_apart else None
    return None


def _own_frames(frames: tuple[str, ...]) -> list[CulpritFrame]:
    """The frames of the user's code, the innermost first."""
    parsed = (parse_frame(frame) for frame in user_frames(frames))
    return [CulpritFrame(found[0], f"{found[1]}:{found[2]}") for found in parsed if found and found[2] is not None]


def _user_frame(frames: tuple[str, ...]) -> CulpritFrame | None:
    own = user_frame(frames)
    return next(iter(_own_frames((own,))), None) if own is not None else None
