"""Same place, same call? Compares what the members of a group issued under one sequence number.

Blame goes to the minority, never to whoever differs from the first rank; a tie is called a tie. Where a stream is merely shifted, the
call that was skipped or added is named, where it happened and not where it first hurt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nccldoctor.align.call_sequences import VARYING_SIZES, CallSequences, plain_op
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks

MOST_COMPARED = 64
"""Numbers under which members seem to differ that are looked at closely."""

ROOTED_INPUT = ("scatter",)
"""Operations whose input only the root has."""

ROOTED_OUTPUT = ("gather",)
"""Operations whose output only the root has."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Members issued different calls under number ``seq`` of ``group``.

    ``aspect`` is ``op``, ``size`` or ``dtype``. ``minority`` differ from ``majority``; both are empty where it is a
    tie, and then ``sides`` tells who agrees with whom. ``rows`` holds one recorded entry for each rank.
    """

    group: int
    seq: int
    aspect: str
    minority: Ranks
    majority: Ranks
    sides: tuple[Ranks, ...]
    rows: Mapping[int, int]

    @property
    def tie(self) -> bool:
        """Whether no side outnumbers the others."""
        return not self.minority


@dataclass(frozen=True, slots=True)
class Shift:
    """One rank's calls equal its peers' when moved by one: it skipped a call, or issued one more, at number ``seq``.

    ``row`` is the entry of the rank there, ``peer_row`` that of a peer; ``length`` how many calls fit when moved.
    """

    rank: int
    group: int
    seq: int
    missed: bool
    row: int
    peer_row: int
    length: int
    sure: bool = True


_Labelled = Mapping[int, tuple[tuple[int, int], int]]
"""Number to (what was called, row) for one rank in one group."""


def rows_at(case: Case, fronts: ProgressTable, group: int, seq: int) -> dict[int, int]:
    """The recorded entry of each member under one number."""
    found = np.flatnonzero(fronts.collective & (case.call_group == group) & (case.calls.seq == seq))
    return {int(case.call_rank[row]): int(row) for row in found.tolist()}


def compare_calls(case: Case, group: int, seq: int, rows: Mapping[int, int]) -> Mismatch | None:
    """The first aspect in which the members' entries differ: operation, then number of elements, then dtype."""
    if len(rows) < 2:
        return None
    for aspect, values in (
        ("op", _operations(case, rows)),
        ("size", _sizes(case, rows, 0)),
        ("size", _sizes(case, rows, 1)),
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


def _operations(case: Case, rows: Mapping[int, int]) -> dict[int, object]:
    return {rank: plain_op(case.vocabulary.ops[case.calls.op[row]]) for rank, row in rows.items()}


def _sizes(case: Case, rows: Mapping[int, int], side: int) -> dict[int, object]:
    """Element counts of inputs (side 0) or outputs as far as they must agree: not those of an all-to-all, nor what only a root has, nor
    where a recorder holds none, or none that can be read.
    """
    calls = case.calls
    out: dict[int, object] = {}
    for rank, row in rows.items():
        name = plain_op(case.vocabulary.ops[calls.op[row]])
        if any(v in name for v in VARYING_SIZES) or name.lower().endswith("coalesced"):
            continue
        if name in (ROOTED_INPUT, (*ROOTED_OUTPUT, "reduce"))[side]:
            continue
        count = int((calls.numel_in, calls.numel_out)[side][row])
        if count > 0 or (count == 0 and case.vocabulary.sizes[calls.sizes[row]][side]):
            out[rank] = count
    return out


def _dtypes(case: Case, rows: Mapping[int, int]) -> dict[int, object]:
    out: dict[int, object] = {}
    for rank, row in rows.items():
        code = int(case.calls.dtypes[row])
        inputs, outputs = case.vocabulary.dtypes[code] if code >= 0 else ((), ())
        found = inputs or outputs
        if found:
            out[rank] = found[0]
    return out


def first_mismatch(case: Case, fronts: ProgressTable, group: int, upto: int) -> Mismatch | None:
    """The earliest number not above ``upto`` under which the group's members differ, as far as the ring reaches back."""
    rows = np.flatnonzero(fronts.collective & (case.call_group == group) & (case.calls.seq <= upto))
    if len(rows) < 2:
        return None
    calls = case.calls
    seq = calls.seq[rows]
    low = int(seq.min())
    if upto - low > 4 * len(rows) + 1024:
        return compare_calls(case, group, upto, rows_at(case, fronts, group, upto))
    cell = (seq - low).astype(np.int64)
    numel = np.where(_uncomparable(case)[calls.op[rows]], 0, calls.numel_in[rows])
    varying = np.array([any(v in n for v in VARYING_SIZES) for n in case.vocabulary.ops], dtype=bool)[calls.op[rows]]
    numel = np.where(varying, 0, numel)
    op = np.array(_plain_codes(case), dtype=np.int64)[calls.op[rows]]
    dtypes = calls.dtypes[rows].astype(np.int64)
    sized, typed = numel >= 0, dtypes >= 0  # what a recorder does not hold differs from nothing
    odd = _unequal(cell, op) | _unequal(cell[sized], ((op << 52) ^ numel)[sized])
    odd |= _unequal(cell[typed], ((op << 52) ^ dtypes)[typed])
    for number in sorted(odd)[:MOST_COMPARED]:
        found = compare_calls(case, group, low + int(number), rows_at(case, fronts, group, low + int(number)))
        if found is not None:
            return found
    return None


def _unequal(cell: npt.NDArray[np.int64], signature: npt.NDArray[np.int64]) -> set[int]:
    """The cells that hold several signatures."""
    reference = np.zeros(int(cell.max(initial=0)) + 1, dtype=np.int64)
    reference[cell] = signature
    return set(np.unique(cell[reference[cell] != signature]).tolist())


def _plain_codes(case: Case) -> list[int]:
    names = {n: i for i, n in enumerate(sorted({plain_op(o) for o in case.vocabulary.ops}))}
    return [names[plain_op(o)] for o in case.vocabulary.ops]


def _uncomparable(case: Case) -> np.ndarray:
    return np.array([plain_op(n) in ROOTED_INPUT for n in case.vocabulary.ops], dtype=bool)


def find_shift(case: Case, fronts: ProgressTable, streams: CallSequences, found: Mismatch, rank: int) -> Shift | None:
    """Whether ``rank``'s calls in the group equal a majority peer's when moved by one, from where they first differ."""
    mine, theirs = _labelled(case, fronts, streams, found.group, rank), None
    framed = case.calls.stack[found.rows[rank]] > 0
    for peer in sorted(
        found.majority, key=lambda p: (case.calls.stack[found.rows[p]] > 0) != framed
    ):  # call sites or sizes
        theirs = _labelled(case, fronts, streams, found.group, peer)
        if theirs:
            break
    if not mine or not theirs:
        return None
    common = sorted(set(mine) & set(theirs))
    at = next((s for s in common if not _same(mine[s], theirs[s])), None)
    if at is None:
        return None
    if _fit(mine, theirs, at, 1, 1):
        return None  # the calls behind it fit as they stand: this one differs, nothing is moved
    missed = _fit(mine, theirs, at, 0, 1)
    extra = _fit(mine, theirs, at, 1, 0)
    again = missed == 1 and not extra and at - 1 in mine and _same(mine[at - 1], mine[at])
    soon: bool | None = _soon(streams, mine, theirs, at) if again else False
    if soon:
        missed, extra = 0, 1
    elif extra == 1 and not missed and _stepped(streams, mine, theirs, at):
        missed, extra, soon = 1, 0, None
    if missed == extra:
        return None
    row, peer_row = mine[at][1], theirs[at][1]
    return Shift(rank, found.group, at, missed > extra, row, peer_row, max(missed, extra), sure=soon is False)


def _soon(streams: CallSequences, mine: _Labelled, theirs: _Labelled, at: int) -> bool | None:
    """Whether the rank issued call ``at`` before it can have gone through what lies, in other groups, between its peers' two calls:
    then nothing was skipped, and this one came on top. None where nothing lies between them.
    """
    own, peers = _way(streams, mine, at - 1, at), _way(streams, theirs, at - 1, at + 1)
    return None if own is None or peers is None or peers < 3 else own < peers - 1


def _stepped(streams: CallSequences, mine: _Labelled, theirs: _Labelled, at: int) -> bool:
    """Whether the rank issued far more between the calls around ``at`` than its peers: then the call is another step's, not on top."""
    own, peers = _way(streams, mine, at - 1, at + 1), _way(streams, theirs, at - 1, at)
    return own is not None and peers is not None and own > peers + 1


def _way(streams: CallSequences, calls: _Labelled, start: int, end: int) -> int | None:
    """How many calls of any group lie from one number to another in their rank's order; None where either is not recorded."""
    if start not in calls or end not in calls:
        return None
    rank = int(streams.case.call_rank[calls[start][1]])
    first, last = streams.position(rank, calls[start][1]), streams.position(rank, calls[end][1])
    return last - first if first is not None and last is not None else None


def _fit(
    mine: _Labelled,
    theirs: _Labelled,
    at: int,
    skip_mine: int,
    skip_theirs: int,
) -> int:
    """How many calls fit when one stream is moved by one; 0 unless all that can be compared fit, and they are more than one
    or their kind is rare enough not to fit by accident.
    """
    length = 0
    while True:
        a, b = mine.get(at + skip_mine + length), theirs.get(at + skip_theirs + length)
        if a is None or b is None:
            break
        if not _same(a, b):
            return 0
        length += 1
    return length


def _same(one: tuple[tuple[int, int], int], other: tuple[tuple[int, int], int]) -> bool:
    """Whether two calls are alike, as far as the elements of both are known."""
    (label, count), (another, number) = one[0], other[0]
    return label == another and (count == number or -1 in (count, number))


def _labelled(
    case: Case, fronts: ProgressTable, streams: CallSequences, group: int, rank: int
) -> dict[int, tuple[tuple[int, int], int]]:
    """Number to (what was called, row) for one rank in one group: label and elements."""
    rows = np.flatnonzero(fronts.collective & (case.call_group == group) & (case.call_rank == rank))
    varying = [any(v in n for v in VARYING_SIZES) for n in case.vocabulary.ops]
    calls = case.calls
    return {
        int(calls.seq[r]): ((int(streams.labels[r]), -1 if varying[calls.op[r]] else int(calls.numel_in[r])), int(r))
        for r in rows.tolist()
    }
