"""The calls of a culprit beside those of a peer, around the point where they part.

Both streams start at a call that both recorded under the same number; from there labels are compared, not numbers, so
that a
skipped or an extra call shows where it happened and the rest lines up again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nccldoctor.align.call_sequences import call_site
from nccldoctor.align.facts import Facts
from nccldoctor.model import Finding
from nccldoctor.model.figures import CallDiff, CallDiffRow, IssuedCall
from nccldoctor.model.operations import op_type
from nccldoctor.model.ranks import Ranks

REACH = 600
"""Calls of each rank that are compared, counted from its newest."""

BEFORE, AFTER = 5, 7
"""Rows shown before and after the first difference."""

PEERS = 8
"""Peers that are asked for, in their order; the likest is taken."""

SKIP = 6
"""Calls of one side that may be left out before the streams line up again."""

Ints = npt.NDArray[np.int64]
Step = tuple[int | None, int | None, str]


def call_diff(facts: Facts, findings: tuple[Finding, ...]) -> CallDiff | None:
    """The two streams; None where no culprit, or no peer of one, has recorded calls."""
    verdict = findings[0]
    for rank in list(verdict.ranks or verdict.suspects)[:PEERS]:
        rows = facts.sequences.rows(rank)[-REACH:]
        peer = _peer(facts, verdict, rank) if len(rows) else None
        if peer is None:
            continue
        others = facts.sequences.rows(peer)
        start = _common(facts, rows, others)
        if start is not None:
            left, right = rows[start[0] :], others[start[1] :][: REACH + SKIP * 4]
            return _excerpt(facts, rank, peer, left, right)
    return None


def _peer(facts: Facts, verdict: Finding, rank: int) -> int | None:
    """The rank inside the stalled call, else any that waits, whose calls are likest."""
    inside = verdict.stalled.entered if verdict.stalled is not None else Ranks()
    blamed = verdict.ranks | [rank]
    asked = list((inside - blamed) or (verdict.victims - blamed))[:PEERS]
    mine = Counter((facts.sequences.labels[facts.sequences.rows(rank)[-REACH:]]).tolist())
    best, most = None, 0
    for other in asked:
        likeness = (mine & Counter((facts.sequences.labels[facts.sequences.rows(other)[-REACH:]]).tolist())).total()
        if likeness > most:
            best, most = other, likeness
    return best


def _common(facts: Facts, rows: Ints, others: Ints) -> tuple[int, int] | None:
    """Where both streams hold the same call: the oldest of the left one that the right one holds by role, number and
    label.
    """
    calls, labels = facts.case.calls, facts.sequences.labels
    places: dict[tuple[int, int], int] = {}
    for at, row in enumerate(others.tolist()):
        places.setdefault((int(labels[row]), _number(facts, row)), at)
    for at, row in enumerate(rows.tolist()):
        found = places.get((int(labels[row]), _number(facts, row)))
        if found is not None and not calls.is_p2p[row]:
            return at, found
    return None


def _number(facts: Facts, row: int) -> int:
    calls = facts.case.calls
    return int(calls.p2p_seq[row]) if calls.is_p2p[row] and calls.p2p_seq[row] >= 0 else int(calls.seq[row])


def _excerpt(facts: Facts, rank: int, peer: int, left: Ints, right: Ints) -> CallDiff:
    labels = facts.sequences.labels
    steps = aligned(labels[left].tolist(), labels[right].tolist())
    at = next((n for n, step in enumerate(steps) if step[2] != "same"), len(steps) - 1)
    begin, end = max(at - BEFORE, 0), min(at + AFTER + 1, len(steps))
    rows = tuple(
        CallDiffRow(
            _call(facts, int(left[a])) if a is not None else None,
            _call(facts, int(right[b])) if b is not None else None,
            kind,
        )
        for a, b, kind in steps[begin:end]
    )
    return CallDiff(rank, peer, rows, before=begin, after=len(steps) - end)


def aligned(left: Sequence[int], right: Sequence[int]) -> list[Step]:
    """Places in both streams side by side: equal ones, those that differ, and those that one side alone has."""
    out: list[Step] = []
    a = b = 0
    while a < len(left) and b < len(right):
        if left[a] == right[b]:
            out.append((a, b, "same"))
            a, b = a + 1, b + 1
            continue
        skip_left, skip_right = _resumes(left, right, a, b)
        pairs = min(skip_left, skip_right)
        out += [(a + n, b + n, "same" if left[a + n] == right[b + n] else "differs") for n in range(pairs)]
        out += [(a + n, None, "left-only") for n in range(pairs, skip_left)]
        out += [(None, b + n, "right-only") for n in range(pairs, skip_right)]
        a, b = a + skip_left, b + skip_right
    out += [(n, None, "left-only") for n in range(a, len(left))]
    out += [(None, n, "right-only") for n in range(b, len(right))]
    return out


def _resumes(left: Sequence[int], right: Sequence[int], a: int, b: int) -> tuple[int, int]:
    """How many calls of each side to leave until both go on alike for three calls, or to the end of one; fewest
    first.
    """
    ways = sorted(((i, j) for i in range(SKIP + 1) for j in range(SKIP + 1) if i + j), key=lambda w: (max(w), sum(w)))
    for i, j in ways:
        run = min(3, len(left) - a - i, len(right) - b - j)
        if run > 0 and list(left[a + i : a + i + run]) == list(right[b + j : b + j + run]):
            return i, j
    return 1, 1


def _call(facts: Facts, row: int) -> IssuedCall:
    case, calls = facts.case, facts.case.calls
    inputs = case.vocabulary.sizes[calls.sizes[row]][0] if calls.sizes[row] >= 0 else ()
    return IssuedCall(
        op=op_type(case.vocabulary.ops[calls.op[row]]),
        group=case.groups[case.call_group[row]].label,
        seq=_number(facts, row),
        site=call_site(case.vocabulary.stacks[calls.stack[row]]),
        sizes=", ".join("x".join(str(n) for n in shape) or "scalar" for shape in inputs[:3]),
        done=bool(facts.progress.completed[row]),
    )
