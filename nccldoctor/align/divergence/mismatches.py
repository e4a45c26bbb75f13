"""Compares what the members of a group called under one sequence number.

Blame goes to the minority, never to the rank that differs from rank 0; a tie is called a tie.

Example: under #18 of dp(0-7), ranks 0-6 called ALLREDUCE and rank 7 BROADCAST: rank 7 is the minority.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.align.call_sequences import call_site, dtype_codes, operation_codes
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.identify.case import Case
from nccldoctor.model.operations import has_varying_sizes, plain_op
from nccldoctor.model.ranks import Ranks, ranks_by

MOST_COMPARED = 64
"""Most sequence numbers under which members seem to differ that are compared in detail."""

ROOTED_INPUT = ("scatter",)
"""Operations whose input only the root has."""

ROOTED_OUTPUT = ("gather",)
"""Operations whose output only the root has."""


class Mismatch(Struct, frozen=True):
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


def call_frames(case: Case, rows: Mapping[int, int]) -> dict[int, str]:
    """By rank the user's frame that made the call: ``evaluate (train.py:21)``; "" where its dump has none."""
    return {rank: call_site(case.vocabulary.stacks[case.calls.stack[row]]) for rank, row in rows.items()}


def is_of_several_functions(frames: Iterable[str]) -> bool:
    """True where ranks made a call in different functions of the program, and the function of each is known.

    Ranks at two lines of one function may differ in the data alone; those in two functions took different branches.
    """
    functions = {frame.rpartition(":")[0] for frame in frames}
    return len(functions) > 1 and "" not in functions


def rows_at(case: Case, progress: ProgressTable, group: int, seq: int) -> dict[int, int]:
    """The row of each member's recorded call under one sequence number."""
    rows = np.flatnonzero(progress.collective & (case.call_group == group) & (case.calls.seq == seq))
    return {int(case.call_rank[row]): row for row in rows.tolist()}


def compare_calls(case: Case, group: int, seq: int, rows: Mapping[int, int]) -> Mismatch | None:
    """The first aspect in which the members' calls differ: operation, number of elements, then dtype."""
    if len(rows) < 2:
        return None
    # an operation whose name was not recorded can differ from none
    names = {rank: plain_op(case.vocabulary.ops[case.calls.op[row]]) for rank, row in rows.items()}
    dtypes = zip(rows, dtype_codes(case, np.fromiter(rows.values(), np.int64)).tolist(), strict=True)
    checked: tuple[tuple[str, Mapping[int, object]], ...] = (
        ("op", {rank: name for rank, name in names.items() if name}),
        ("size", _element_counts(case, rows, 0)),
        ("size", _element_counts(case, rows, 1)),
        ("dtype", {rank: dtype for rank, dtype in dtypes if dtype >= 0}),
    )
    for aspect, values in checked:
        sides = ranks_by((value, rank) for rank, value in values.items())
        if len(sides) > 1:
            ordered = sorted(sides.values(), key=lambda s: (-len(s), min(s)))
            majority = ordered[0] if len(ordered[0]) * 2 > len(values) else Ranks()
            minority = Ranks(values) - majority if majority else Ranks()
            return Mismatch(group, seq, aspect, minority, majority, tuple(ordered), {r: rows[r] for r in values})
    return None


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
    op, names = operation_codes(case)[calls.op[rows]], map(plain_op, case.vocabulary.ops)
    free = np.array([n in ROOTED_INPUT or has_varying_sizes(n) for n in names], dtype=bool)[calls.op[rows]]
    numel = np.where(free, 0, calls.numel_in[rows])
    dtypes = dtype_codes(case, rows)
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
