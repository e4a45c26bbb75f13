"""Compares what the members of a group called under one sequence number.

Blame goes to the minority, never to the rank that differs from rank 0; a tie is called a tie. Where one rank's calls are merely
shifted, the call that it skipped or added is named, at the number where that happened and not where it first hurt.

Example: under #18 of dp(0-7), ranks 0-6 called ALLREDUCE and rank 7 BROADCAST: rank 7 is the minority. If its #18, #19, ... equal its
peers' #19, #20, ..., rank 7 skipped the call #18.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nccldoctor.align.call_sequences import CallSequences
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.identify.case import Case
from nccldoctor.model.operations import has_varying_sizes, plain_op
from nccldoctor.model.ranks import Ranks

MOST_COMPARED = 64
"""Most sequence numbers under which members seem to differ that are compared in detail."""

ROOTED_INPUT = ("scatter",)
"""Operations whose input only the root has."""

ROOTED_OUTPUT = ("gather",)
"""Operations whose output only the root has."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Members of a group issued different calls under one sequence number.

    ``aspect`` is ``op``, ``size`` or ``dtype``. The ``minority`` differs from the ``majority``; both are empty in a tie. ``sides``
    are the sets of ranks that agree with each other, largest first. ``rows`` maps each rank to its row in the table of calls.
    """

    group: int
    seq: int
    aspect: str
    minority: Ranks
    majority: Ranks
    sides: tuple[Ranks, ...]
    rows: Mapping[int, int]

    @property
    def is_tie(self) -> bool:
        """True when no side outnumbers all others together."""
        return not self.minority


@dataclass(frozen=True, slots=True)
class Shift:
    """One rank skipped a call (``missed``) or issued one more: moved by one, its calls equal its peers'.

    It happened at number ``seq``. ``row`` is the rank's entry there and ``peer_row`` that of a peer; ``length`` is how many calls
    fit when moved. ``sure`` is false where the order of calls in other groups does not confirm which of the two it was.
    """

    rank: int
    group: int
    seq: int
    missed: bool
    row: int
    peer_row: int
    length: int
    sure: bool = True


_Calls = Mapping[int, tuple[tuple[int, int], int]]
"""Calls of one rank in one group: sequence number to ((label, input elements), row)."""


def rows_at(case: Case, progress: ProgressTable, group: int, seq: int) -> dict[int, int]:
    """The row of each member's recorded call under one sequence number."""
    rows = np.flatnonzero(progress.collective & (case.call_group == group) & (case.calls.seq == seq))
    return {int(case.call_rank[row]): row for row in rows.tolist()}


def compare_calls(case: Case, group: int, seq: int, rows: Mapping[int, int]) -> Mismatch | None:
    """The first aspect in which the members' calls differ: operation, number of elements, then dtype."""
    if len(rows) < 2:
        return None
    for aspect, values in (
        ("op", _ops(case, rows)),
        ("size", _element_counts(case, rows, 0)),
        ("size", _element_counts(case, rows, 1)),
        ("dtype", _dtypes(case, rows)),
    ):
        sides: dict[object, set[int]] = defaultdict(set)
        for rank, value in values.items():
            sides[value].add(rank)
        if len(sides) > 1:
            return _split(group, seq, aspect, list(sides.values()), {r: rows[r] for r in values})
    return None


def _split(group: int, seq: int, aspect: str, sides: Sequence[set[int]], rows: Mapping[int, int]) -> Mismatch:
    ordered = sorted(sides, key=lambda s: (-len(s), min(s)))
    majority = ordered[0] if len(ordered[0]) * 2 > len(rows) else set()
    minority = set(rows) - majority if majority else set()
    return Mismatch(group, seq, aspect, Ranks(minority), Ranks(majority), tuple(Ranks(s) for s in ordered), dict(rows))


def _ops(case: Case, rows: Mapping[int, int]) -> dict[int, object]:
    return {rank: plain_op(case.vocabulary.ops[case.calls.op[row]]) for rank, row in rows.items()}


def _element_counts(case: Case, rows: Mapping[int, int], side: int) -> dict[int, object]:
    """Element counts of inputs (side 0) or outputs (side 1) that must agree between members.

    Left out are an all-to-all, what only a root has, and counts that are not recorded or cannot be read.
    """
    calls = case.calls
    counts: dict[int, object] = {}
    for rank, row in rows.items():
        name = plain_op(case.vocabulary.ops[calls.op[row]])
        if has_varying_sizes(name) or name.lower().endswith("coalesced"):
            continue
        if name in (ROOTED_INPUT, (*ROOTED_OUTPUT, "reduce"))[side]:
            continue
        count = int((calls.numel_in, calls.numel_out)[side][row])
        if count > 0 or (count == 0 and case.vocabulary.sizes[calls.sizes[row]][side]):
            counts[rank] = count
    return counts


def _dtypes(case: Case, rows: Mapping[int, int]) -> dict[int, object]:
    dtypes: dict[int, object] = {}
    for rank, row in rows.items():
        code = int(case.calls.dtypes[row])
        inputs, outputs = case.vocabulary.dtypes[code] if code >= 0 else ((), ())
        if inputs or outputs:
            dtypes[rank] = (inputs or outputs)[0]
    return dtypes


def first_mismatch(case: Case, progress: ProgressTable, group: int, upto: int) -> Mismatch | None:
    """The earliest recorded mismatch of a group, at no number above ``upto``; None where all its calls agree."""
    rows = np.flatnonzero(progress.collective & (case.call_group == group) & (case.calls.seq <= upto))
    if len(rows) < 2:
        return None
    calls = case.calls
    seq = calls.seq[rows]
    low = int(seq.min())
    if upto - low > 4 * len(rows) + 1024:
        return compare_calls(case, group, upto, rows_at(case, progress, group, upto))
    cell = (seq - low).astype(np.int64)
    names = [plain_op(op) for op in case.vocabulary.ops]
    codes = {name: i for i, name in enumerate(sorted(set(names)))}
    op = np.array([codes[name] for name in names], dtype=np.int64)[calls.op[rows]]
    free = np.array([n in ROOTED_INPUT or has_varying_sizes(n) for n in names], dtype=bool)[calls.op[rows]]
    numel = np.where(free, 0, calls.numel_in[rows])
    dtypes = calls.dtypes[rows].astype(np.int64)
    sized, typed = numel >= 0, dtypes >= 0  # what was not recorded cannot differ
    odd = _cells_that_differ(cell, op) | _cells_that_differ(cell[sized], ((op << 52) ^ numel)[sized])
    odd |= _cells_that_differ(cell[typed], ((op << 52) ^ dtypes)[typed])
    for number in sorted(odd)[:MOST_COMPARED]:
        mismatch = compare_calls(case, group, low + number, rows_at(case, progress, group, low + number))
        if mismatch is not None:
            return mismatch
    return None


def _cells_that_differ(cell: npt.NDArray[np.int64], signature: npt.NDArray[np.int64]) -> set[int]:
    """The cells that hold more than one signature."""
    reference = np.zeros(int(cell.max(initial=0)) + 1, dtype=np.int64)
    reference[cell] = signature
    return set(np.unique(cell[reference[cell] != signature]).tolist())


def find_shift(
    case: Case, progress: ProgressTable, sequences: CallSequences, mismatch: Mismatch, rank: int
) -> Shift | None:
    """The call that ``rank`` skipped or added, if its calls equal a majority peer's when moved by one from there.

    None where the calls fit as they stand, or in neither or both directions.
    """
    own = _calls_of(case, progress, sequences, mismatch.group, rank)
    framed = case.calls.stack[mismatch.rows[rank]] > 0  # labels of call sites compare with call sites only
    peers = sorted(mismatch.majority, key=lambda p: (case.calls.stack[mismatch.rows[p]] > 0) != framed)
    theirs = next((c for p in peers if (c := _calls_of(case, progress, sequences, mismatch.group, p))), None)
    if not own or not theirs:
        return None
    at = next((seq for seq in sorted(own.keys() & theirs.keys()) if not _is_alike(own[seq], theirs[seq])), None)
    if at is None or _fitting_calls(own, theirs, at + 1, at + 1):
        return None  # where the calls behind it fit as they stand, this one differs and nothing is moved
    missed, extra = _fitting_calls(own, theirs, at, at + 1), _fitting_calls(own, theirs, at + 1, at)
    is_repeated = missed == 1 and not extra and at - 1 in own and _is_alike(own[at - 1], own[at])
    came_early = _came_early(sequences, own, theirs, at) if is_repeated else False
    if came_early:
        missed, extra = 0, 1
    elif extra == 1 and not missed and _was_in_another_step(sequences, own, theirs, at):
        missed, extra, came_early = 1, 0, None
    if missed == extra:
        return None
    sure = came_early is False
    return Shift(rank, mismatch.group, at, missed > extra, own[at][1], theirs[at][1], max(missed, extra), sure)


def _came_early(sequences: CallSequences, own: _Calls, theirs: _Calls, at: int) -> bool | None:
    """True when the rank issued call ``at`` without the calls of other groups that its peers issue before theirs.

    Then it skipped nothing and this call is an extra one. None where peers issue nothing in between.
    """
    between = _distance(sequences, own, at - 1, at)
    of_peers = _distance(sequences, theirs, at - 1, at + 1)
    return None if between is None or of_peers is None or of_peers < 3 else between < of_peers - 1


def _was_in_another_step(sequences: CallSequences, own: _Calls, theirs: _Calls, at: int) -> bool:
    """True when the rank issued more calls around ``at`` than its peers: no extra call, but another step."""
    between = _distance(sequences, own, at - 1, at + 1)
    of_peers = _distance(sequences, theirs, at - 1, at)
    return between is not None and of_peers is not None and between > of_peers + 1


def _distance(sequences: CallSequences, calls: _Calls, start: int, end: int) -> int | None:
    """How many calls of any group a rank issued from one number to another; None where either is not recorded."""
    if start not in calls or end not in calls:
        return None
    rank = int(sequences.case.call_rank[calls[start][1]])
    first, last = sequences.position(rank, calls[start][1]), sequences.position(rank, calls[end][1])
    return last - first if first is not None and last is not None else None


def _fitting_calls(own: _Calls, theirs: _Calls, own_start: int, their_start: int) -> int:
    """How many calls are alike, one after the other, from these numbers on; 0 where any recorded pair differs."""
    length = 0
    while (a := own.get(own_start + length)) is not None and (b := theirs.get(their_start + length)) is not None:
        if not _is_alike(a, b):
            return 0
        length += 1
    return length


def _is_alike(one: tuple[tuple[int, int], int], other: tuple[tuple[int, int], int]) -> bool:
    """True when two calls have one label and, where both are known, the same number of elements."""
    (label, count), (other_label, other_count) = one[0], other[0]
    return label == other_label and (count == other_count or -1 in (count, other_count))


def _calls_of(case: Case, progress: ProgressTable, sequences: CallSequences, group: int, rank: int) -> _Calls:
    rows = np.flatnonzero(progress.collective & (case.call_group == group) & (case.call_rank == rank))
    varying = [has_varying_sizes(op) for op in case.vocabulary.ops]
    calls = case.calls
    return {
        int(calls.seq[r]): ((int(sequences.labels[r]), -1 if varying[calls.op[r]] else int(calls.numel_in[r])), int(r))
        for r in rows.tolist()
    }
