"""Compares the calls of a culprit with those of a peer, around their first difference.

Both sequences start at a call that both ranks recorded under the same number. From there labels are compared, not numbers:
where rank 3 skipped ALLREDUCE #18, one row is empty on its side and the calls behind it line up again.
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

REACH = 600
"""Calls of each rank that are compared, counted from its newest."""

BEFORE, AFTER = 5, 7
"""Rows shown before and after the first difference."""

PEERS = 8
"""Culprits, and peers of one, that are tried in their order."""

SKIP = 6
"""Calls of one side that may be left out before the streams line up again."""

Ints = npt.NDArray[np.int64]
Step = tuple[int | None, int | None, str]


def call_diff(facts: Facts, findings: tuple[Finding, ...]) -> CallDiff | None:
    """The calls of the first culprit with a record, and of its most similar peer; None without such a pair."""
    verdict = findings[0]
    for rank in list(verdict.blamed)[:PEERS]:
        rows = facts.sequences.rows(rank)[-REACH:]
        peer = _likest_peer(facts, verdict, rank) if len(rows) else None
        if peer is None:
            continue
        others = facts.sequences.rows(peer)
        start = _first_common_call(facts, rows, others)
        if start is not None:
            left, right = rows[start[0] :], others[start[1] :][: REACH + SKIP * 4]
            return _around_difference(facts, rank, peer, left, right)
    return None


def _likest_peer(facts: Facts, verdict: Finding, rank: int) -> int | None:
    """The rank inside the stalled call whose calls are likest; any victim where no rank is known to be inside."""

    def labels(of: int) -> Counter[int]:
        return Counter(facts.sequences.labels[facts.sequences.rows(of)[-REACH:]].tolist())

    culprits, own = verdict.ranks | [rank], labels(rank)
    peers = list((verdict.inside - culprits) or (verdict.victims - culprits))[:PEERS]
    common = {peer: (own & labels(peer)).total() for peer in peers}
    best = max(peers, key=lambda peer: common[peer], default=None)
    return best if best is not None and common[best] else None


def _first_common_call(facts: Facts, rows: Ints, others: Ints) -> tuple[int, int] | None:
    """Positions of the oldest collective that both sequences hold under the same label and number."""
    calls, labels = facts.case.calls, facts.sequences.labels
    places: dict[tuple[int, int], int] = {}
    for at, row in enumerate(others.tolist()):
        places.setdefault((int(labels[row]), calls.number(row)), at)
    for at, row in enumerate(rows.tolist()):
        place = places.get((int(labels[row]), calls.number(row)))
        if place is not None and not calls.is_p2p[row]:
            return at, place
    return None


def _around_difference(facts: Facts, rank: int, peer: int, left: Ints, right: Ints) -> CallDiff:
    labels = facts.sequences.labels
    steps = aligned(labels[left].tolist(), labels[right].tolist())
    at = next((n for n, step in enumerate(steps) if step[2] != "same"), len(steps) - 1)
    begin, end = max(at - BEFORE, 0), min(at + AFTER + 1, len(steps))
    rows = tuple(
        CallDiffRow(
            _issued_call(facts, int(left[a])) if a is not None else None,
            _issued_call(facts, int(right[b])) if b is not None else None,
            kind,
        )
        for a, b, kind in steps[begin:end]
    )
    return CallDiff(rank, peer, rows, before=begin, after=len(steps) - end)


def aligned(left: Sequence[int], right: Sequence[int]) -> list[Step]:
    """Positions in both sequences side by side: equal ones, those that differ, and those that one side alone has."""
    out: list[Step] = []
    a = b = 0
    while a < len(left) and b < len(right):
        if left[a] == right[b]:
            out.append((a, b, "same"))
            a, b = a + 1, b + 1
            continue
        skip_left, skip_right = _calls_to_skip(left, right, a, b)
        pairs = min(skip_left, skip_right)
        out += [(a + n, b + n, "same" if left[a + n] == right[b + n] else "differs") for n in range(pairs)]
        out += [(a + n, None, "left-only") for n in range(pairs, skip_left)]
        out += [(None, b + n, "right-only") for n in range(pairs, skip_right)]
        a, b = a + skip_left, b + skip_right
    out += [(n, None, "left-only") for n in range(a, len(left))]
    out += [(None, n, "right-only") for n in range(b, len(right))]
    return out


def _calls_to_skip(left: Sequence[int], right: Sequence[int], a: int, b: int) -> tuple[int, int]:
    """The fewest calls of each side to skip until three calls in a row are equal, or one side ends."""
    ways = sorted(((i, j) for i in range(SKIP + 1) for j in range(SKIP + 1) if i + j), key=lambda w: (max(w), sum(w)))
    for i, j in ways:
        run = min(3, len(left) - a - i, len(right) - b - j)
        if run > 0 and list(left[a + i : a + i + run]) == list(right[b + j : b + j + run]):
            return i, j
    return 1, 1


def _issued_call(facts: Facts, row: int) -> IssuedCall:
    case, calls = facts.case, facts.case.calls
    inputs = case.vocabulary.sizes[calls.sizes[row]][0] if calls.sizes[row] >= 0 else ()
    return IssuedCall(
        op=op_type(case.vocabulary.ops[calls.op[row]]),
        group=case.groups[case.call_group[row]].label,
        seq=calls.number(row),
        site=call_site(case.vocabulary.stacks[calls.stack[row]]),
        sizes=", ".join("x".join(str(n) for n in shape) or "scalar" for shape in inputs[:3]),
        done=bool(facts.progress.completed[row]),
    )
