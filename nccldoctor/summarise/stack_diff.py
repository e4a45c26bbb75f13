"""Where the culprit is and where a peer is, frame by frame, and where the two ways part.

A stack tool's record of the main thread tells it for a rank outside any call; the frames of the newest recorded call
for one inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nccldoctor.align.descriptions import entry_text
from nccldoctor.align.facts import Facts
from nccldoctor.events import Stack
from nccldoctor.model import Finding, Place
from nccldoctor.model.figures import StackDiff, StackLine, StackSide
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import is_library, parse_frame

FRAMES = 24
"""Frames of one stack at most: the newest ones and, with the parting frame, those around it."""

STANDARD = {f"{name}.py" for name in ("threading", "queue", "selectors", "connection", "socket", "subprocess", "runpy")}
"""Files of Python's library, which tools print without their folder."""

PEERS = 32
"""Ranks that are asked for a stack, in their order."""


def stack_diff(facts: Facts, findings: tuple[Finding, ...]) -> StackDiff | None:
    """The stacks of the first culprit (or suspect) that left one, and of a rank that waits for it; None where none
    did.
    """
    verdict = findings[0]
    culprit = next(_sides(facts, verdict.ranks or verdict.suspects), None)
    if culprit is None:
        return None
    peer = next(_sides(facts, _peers(verdict) - Ranks([culprit.rank])), None)
    if peer is None:
        return StackDiff(_cut(culprit, None), None)
    first, second = _parting(culprit.frames, peer.frames)
    return StackDiff(_cut(_marked(culprit, first), first), _cut(_marked(peer, second), second))


def _peers(verdict: Finding) -> Ranks:
    """Those inside the stalled call; where nobody is known to be, all who wait."""
    inside = verdict.stalled.entered - verdict.ranks if verdict.stalled is not None else Ranks()
    return inside or verdict.victims - verdict.ranks


def _sides(facts: Facts, ranks: Ranks) -> Iterator[StackSide]:
    for rank in list(ranks)[:PEERS]:
        side = _from_tool(facts, rank) or _from_recorder(facts, rank)
        if side is not None:
            yield side


def _from_tool(facts: Facts, rank: int) -> StackSide | None:
    stacks = [s for s in facts.liveness.activity(rank).stacks if s.frames]
    if not stacks:
        return None
    newest = [s for s in stacks if s.place.path == stacks[-1].place.path]
    chosen = max(newest, key=lambda s: (s.main, _own_frames(s)))
    what = f"stack of {chosen.thread}" if chosen.thread and not chosen.main else "stack of the main thread"
    return StackSide(
        rank,
        what + (f", by {chosen.tool}" if chosen.tool else ""),
        str(chosen.place),
        tuple(_frame(f) for f in chosen.frames),
    )


def _own_frames(stack: Stack) -> int:
    return sum(_frame(f).own for f in stack.frames)


def _from_recorder(facts: Facts, rank: int) -> StackSide | None:
    row = facts.progress.last_row.get(rank)
    if row is None:
        return None
    case = facts.case
    frames = case.vocabulary.stacks[case.calls.stack[row]]
    if not frames:
        return None
    dump = case.dumps[case.calls.dump[row]]
    where = str(Place(dump.source, dump.path, entry=int(case.calls.entry[row])))
    what = "newest recorded call: " + entry_text(facts, row).partition(", called by")[0]
    return StackSide(
        rank, what, where, tuple(StackLine(name, file, line, _is_own(file)) for name, file, line in frames)
    )


def _frame(text: str) -> StackLine:
    """``function (file:line)`` as stack tools print it; what has another form stays whole."""
    parsed = parse_frame(text)
    return StackLine(*parsed, _is_own(parsed[1])) if parsed is not None else StackLine(text[:400], "", None, own=False)


def _is_own(file: str) -> bool:
    python = file.endswith(".py")
    return python and file.rpartition("/")[2] not in STANDARD and not is_library(f"/{file}")


def _parting(one: Sequence[StackLine], two: Sequence[StackLine]) -> tuple[int | None, int | None]:
    """The first frame, from the outermost, that differs; its places in both (None where one stack ends before it)."""
    common = 0
    while common < min(len(one), len(two)) and _same(one[-1 - common], two[-1 - common]):
        common += 1
    if not common:
        offset = _shared_root(one, two)
        if offset is None:
            return None, None
        a, b = offset
        while a >= 0 and b >= 0 and _same(one[a], two[b]):
            a, b = a - 1, b - 1
        return (a if a >= 0 else None), (b if b >= 0 else None)
    first, second = len(one) - 1 - common, len(two) - 1 - common
    return (first if first >= 0 else None), (second if second >= 0 else None)


def _shared_root(one: Sequence[StackLine], two: Sequence[StackLine]) -> tuple[int, int] | None:
    """The outermost frames of the user's code that both have: tools differ in what they print below the program's
    start.
    """
    for a in range(len(one) - 1, -1, -1):
        for b in range(len(two) - 1, -1, -1):
            if one[a].own and one[a].function == two[b].function and _name(one[a]) == _name(two[b]):
                return a, b
    return None


def _same(one: StackLine, two: StackLine) -> bool:
    return (one.function, one.line, _name(one)) == (two.function, two.line, _name(two))


def _name(frame: StackLine) -> str:
    return frame.file.replace("\\", "/").rpartition("/")[2]


def _marked(side: StackSide, at: int | None) -> StackSide:
    if at is None:
        return side
    frames = tuple(replace(frame, parts=number == at) for number, frame in enumerate(side.frames))
    return replace(side, frames=frames)


def _cut(side: StackSide, at: int | None) -> StackSide:
    """At most :data:`FRAMES` frames: the innermost ones, or a window that holds the parting frame."""
    if len(side.frames) <= FRAMES:
        return side
    start = 0 if at is None or at < FRAMES - 4 else min(at - FRAMES + 5, len(side.frames) - FRAMES)
    return replace(side, frames=side.frames[start : start + FRAMES], cut=len(side.frames) - FRAMES)
