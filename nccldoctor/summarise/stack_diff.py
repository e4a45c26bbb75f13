"""Compares a culprit's stack with a peer's, and marks the first frame that differs.

The record of a stack tool shows where the main thread of a rank is; without one, the frames of its newest recorded call do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nccldoctor.align.descriptions import entry_text
from nccldoctor.align.facts import Facts
from nccldoctor.model import Finding
from nccldoctor.model.figures import SnapshotRow, Snapshots, StackDiff, StackLine, StackSide
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import is_user_code, parse_frame

FRAMES = 24
"""Frames of one stack at most: the innermost ones, or those around the first that differs."""

PEERS = 32
"""Ranks that are tried for a stack, in their order."""


def stack_diff(facts: Facts, findings: tuple[Finding, ...]) -> StackDiff | None:
    """The stacks of a culprit (or suspect) and of a rank that waits for it. None where no culprit left one."""
    verdict = findings[0]
    culprit = next(_sides(facts, verdict.blamed), None)
    if culprit is None:
        return None
    blamed = verdict.ranks | [culprit.rank]
    peer = next(_sides(facts, ((verdict.inside - verdict.ranks) or verdict.victims) - blamed), None)
    if peer is None:
        return StackDiff(_marked(culprit, None), None)
    first, second = _first_difference(culprit.frames, peer.frames)
    return StackDiff(_marked(culprit, first), _marked(peer, second))


def _sides(facts: Facts, ranks: Ranks) -> Iterator[StackSide]:
    for rank in list(ranks)[:PEERS]:
        side = _from_tool(facts, rank) or _from_recorder(facts, rank)
        if side is not None:
            yield side


def _from_tool(facts: Facts, rank: int) -> StackSide | None:
    stacks = [s for s in facts.liveness.activity(rank).stacks if s.frames]
    if not stacks:
        return None
    newest = [s for s in stacks if s.place.path == stacks[0 if stacks[0].look else -1].place.path]
    chosen = max(newest, key=lambda s: (s.main, sum(_stack_line(f).own for f in s.frames)))
    what = f"stack of {chosen.thread}" if chosen.thread and not chosen.main else "stack of the main thread"
    return StackSide(
        rank,
        what + (f", by {chosen.tool}" if chosen.tool else ""),
        str(chosen.place),
        tuple(_stack_line(f) for f in chosen.frames),
    )


def _from_recorder(facts: Facts, rank: int) -> StackSide | None:
    row = facts.progress.last_row.get(rank)
    if row is None:
        return None
    case = facts.case
    frames = case.vocabulary.stacks[case.calls.stack[row]]
    if not frames:
        return None
    where = str(case.place_of_call(row))
    what = "newest recorded call: " + entry_text(facts, row).partition(", called by")[0]
    return StackSide(
        rank, what, where, tuple(StackLine(name, file, line, is_user_code(file)) for name, file, line in frames)
    )


def _stack_line(text: str) -> StackLine:
    """``function (file:line)`` as stack tools print it; what has another form stays whole."""
    parsed = parse_frame(text)
    return (
        StackLine(*parsed, is_user_code(parsed[1]))
        if parsed is not None
        else StackLine(text[:400], "", None, own=False)
    )


def _first_difference(one: Sequence[StackLine], two: Sequence[StackLine]) -> tuple[int | None, int | None]:
    """Positions of the first frame, from the outermost, that differs; None where that stack ends before it."""
    start = (len(one) - 1, len(two) - 1)
    if not one or not two or not _is_same(one[-1], two[-1]):
        root = _shared_root(one, two)
        if root is None:
            return None, None
        start = root
    a, b = start
    while a >= 0 and b >= 0 and _is_same(one[a], two[b]):
        a, b = a - 1, b - 1
    return (a if a >= 0 else None), (b if b >= 0 else None)


def _shared_root(one: Sequence[StackLine], two: Sequence[StackLine]) -> tuple[int, int] | None:
    """The outermost frames of the user's code that both have: tools differ in the frames they print below it."""
    for a in range(len(one) - 1, -1, -1):
        for b in range(len(two) - 1, -1, -1):
            if one[a].own and one[a].function == two[b].function and _file_name(one[a]) == _file_name(two[b]):
                return a, b
    return None


def _is_same(one: StackLine, two: StackLine) -> bool:
    return (one.function, one.line, _file_name(one)) == (two.function, two.line, _file_name(two))


def _file_name(frame: StackLine) -> str:
    return frame.file.replace("\\", "/").rpartition("/")[2]


def _marked(side: StackSide, at: int | None) -> StackSide:
    """The side with its differing frame marked, cut to :data:`FRAMES` frames around it."""
    frames = tuple(replace(frame, parts=number == at) for number, frame in enumerate(side.frames))
    more = max(len(frames) - FRAMES, 0)
    start = 0 if at is None or at < FRAMES - 4 else min(at - FRAMES + 5, more)
    return replace(side, frames=frames[start : start + FRAMES] if more else frames, cut=more)


LOOKS = 3
"""Looks that are shown: the first, and the last ones."""

ROWS = 6


def snapshots(facts: Facts, finding: Finding) -> Snapshots | None:
    """The looks with culprits first. None with fewer than two, or without a culprit's frame in two of them."""
    looks = facts.looks.all if len(facts.looks.all) <= LOOKS else (facts.looks.all[0], *facts.looks.all[1 - LOOKS :])
    if len(looks) < 2 or facts.looks.interrupted:
        return None
    seen: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
    for rank in facts.case.world:
        stances = (look.stances.get(rank) for look in looks)
        frames = tuple(stance.place or stance.words if stance is not None else "" for stance in stances)
        if any(frames):
            seen.setdefault((rank in finding.blamed, frames), []).append(rank)
    rows = [SnapshotRow(Ranks(ranks), frames, culprit) for (culprit, frames), ranks in seen.items()]
    rows.sort(key=lambda row: (not row.is_culprit, -len(row.ranks), min(row.ranks)))
    if not any(row.is_culprit and sum(map(bool, row.frames)) > 1 for row in rows):
        return None
    return Snapshots(tuple(None if math.isnan(look.at) else look.at for look in looks), tuple(rows[:ROWS]))
