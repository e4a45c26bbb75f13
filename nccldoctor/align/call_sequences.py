"""Gives each rank's calls, in its own order, labels that can be compared with its past and with its peers.

Sequence numbers tell *where* two ranks stand; labels tell *what* they called. A label packs the role of the group, the operation,
and the call site where it was recorded, else the sizes. Training repeats itself step by step: what usually follows the last calls
of a rank is what it would have issued next.

Example: rank 3 issued A B C A B C A B. What followed ``A B`` in the past is ``C``, so rank 3 would have issued ``C`` next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nccldoctor.align.progress.from_dumps import batch_names
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.identify.case import Case
from nccldoctor.model import Group
from nccldoctor.model.operations import has_varying_sizes, plain_op
from nccldoctor.model.recorded_calls import UNSET, Frame
from nccldoctor.model.stack_frames import is_library

CONTEXT = 256
"""Longest run of calls that is looked up in the past to say what follows it."""

SHORTEST = 3
"""Calls that must be equal before what followed them counts as evidence."""

MOST_SHARED = 4096
"""Members up to which a group says something about which ranks work alongside each other."""

ROLE_BITS = 44
"""The bits of a label below the role of the group."""

KIND_MASK = (1 << ROLE_BITS) - 1
"""The bits of a label that hold operation and call site, or sizes, but not the role of the group."""


class CallSequences:
    """Labels of every recorded call, and each rank's calls in its own order (members of batches left out).

    ``labels`` is an int64 array of shape ``(number of recorded calls,)`` parallel to ``case.calls``: bits 44 and up hold the role
    of the group, bits 32 to 43 the operation, bits 0 to 31 the call site (even) or the sizes (odd). ``batches`` maps the row that
    closes a batch of sends and receives to the names of its members. ``operations`` and ``sites`` are the codes of each recorded
    name and of each recorded stack (-1: none of its frames is user code); ``chains`` are the user frames of each site.
    """

    def __init__(self, case: Case, progress: ProgressTable) -> None:
        self.case, self.progress = case, progress
        self.batches = _batch_members(case, progress)
        self.operations = operation_codes(case)
        chains = [call_chain(stack) for stack in case.vocabulary.stacks]
        codes = {chain: i for i, chain in enumerate(dict.fromkeys(c for c in chains if c))} | {(): -1}
        self.chains = [*codes]  # the last one, [-1], is empty
        self.sites = np.array([codes[chain] for chain in chains], dtype=np.int64)
        self.labels = _labels(case, self.batches, self.operations, self.sites)
        self._keep = ~progress.batch_member & (case.call_rank >= 0) & (case.call_group >= 0)
        self._rows: dict[int, npt.NDArray[np.int64]] = {}
        self._outcomes: dict[tuple[int, int], dict[int, int]] = {}

    def rows(self, rank: int) -> npt.NDArray[np.int64]:
        """The rows of one rank's calls, oldest first."""
        if rank not in self._rows:
            self._rows[rank] = np.flatnonzero(self._keep & (self.case.call_rank == rank))
        return self._rows[rank]

    def position(self, rank: int, row: int) -> int | None:
        """The index of ``row`` among the rank's calls; None where the row is not one of them."""
        rows = self.rows(rank)
        at = int(np.searchsorted(rows, row))
        return at if at < len(rows) and rows[at] == row else None

    def expected_next(self, rank: int, before: int) -> tuple[int, int, int] | None:
        """What most often followed the calls that stand before position ``before``, in the rank's own past.

        Returns the row of its newest occurrence, how often it followed, and how often something else did. None where the past is
        too short.
        """
        rows = self.rows(rank)
        labels = self.labels[rows]
        after = _same_context(labels, before, fewest=1)
        if not len(after):
            return None
        best, times = Counter(labels[after].tolist()).most_common(1)[0]
        return int(rows[int(after[labels[after] == best].max())]), times, len(after) - times

    def outcomes(self, rank: int, before: int) -> dict[int, int]:
        """Every label that followed the calls before position ``before``, with the position of its newest occurrence.

        Empty where fewer than two such places are recorded: what happened once is no habit.
        """
        if (rank, before) not in self._outcomes:  # several rules ask
            labels = self.labels[self.rows(rank)]
            self._outcomes[rank, before] = {int(labels[a]): int(a) for a in _same_context(labels, before, fewest=2)}
        return self._outcomes[rank, before]

    def kinds(self, rank: int) -> npt.NDArray[np.int64]:
        """The labels of a rank's calls, oldest first, without roles. They compare between ranks whose groups have no description."""
        return self.labels[self.rows(rank)] & KIND_MASK


def in_issue_order(sequences: CallSequences, rank: int, calls: Sequence[StuckCall]) -> list[StuckCall]:
    """Sorts the calls by the order in which ``rank`` would have issued them.

    Its own past decides, else the order of a peer that shares most groups with it. Clocks do not: members of other groups issue
    their calls at any time.
    """
    expected = sequences.expected_next(rank, len(sequences.rows(rank)))
    if expected is not None:
        group = int(sequences.case.call_group[expected[0]])
        return sorted(calls, key=lambda c: c.group != group)
    case, places = sequences.case, _places_of_peer(sequences.case, sequences.progress, rank)
    return sorted(calls, key=lambda c: places.get((_group_role(case, c.group), -1 if c.pair else c.seq), 1 << 60))


def _group_role(case: Case, group: int) -> tuple[str, int]:
    return case.groups[group].desc, len(case.groups[group].members)


def _places_of_peer(case: Case, progress: ProgressTable, rank: int) -> dict[tuple[tuple[str, int], int], int]:
    """The order of calls, by role and sequence number, of the peer that shares most groups with ``rank``.

    Sister groups of one role are alike, so that their numbers stand for the same place in the step. Number -1 is a role's first
    open transfer.
    """
    shared = Counter(
        r for g in case.groups if rank in g.members and len(g.members) <= MOST_SHARED for r in g.members if r != rank
    )
    peer = next((p for p, _ in sorted(shared.items(), key=lambda i: (-i[1], i[0])) if p in progress.last_row), None)
    places: dict[tuple[tuple[str, int], int], int] = {}
    if peer is None:
        return places
    for row in np.flatnonzero(progress.collective & (case.call_rank == peer)).tolist():
        places[_group_role(case, int(case.call_group[row])), int(case.calls.seq[row])] = int(case.calls.entry[row])
    for transfer in progress.transfers.get(peer, ()):
        places.setdefault((_group_role(case, transfer.group), -1), transfer.position)
    return places


def call_site(frames: Sequence[Frame]) -> str:
    """The innermost frame outside libraries as ``function (file:line)``; "" where none was recorded."""
    for name, file, line in frames:
        if not is_library(file):
            return f"{name} ({file.rpartition('/')[2]}:{line})"
    return ""


def call_chain(frames: Sequence[Frame]) -> tuple[tuple[str, int], ...]:
    """All user frames as (file, line): two calls from one helper differ by its caller."""
    return tuple((file, line) for _, file, line in frames if not is_library(file))


def _same_context(labels: npt.NDArray[np.int64], before: int, fewest: int) -> npt.NDArray[np.int64]:
    """Earlier positions behind the same calls as position ``before``: the longest run that occurs at least ``fewest`` times counts."""
    none = np.empty(0, dtype=np.int64)
    if before < SHORTEST:
        return none
    places = np.flatnonzero(labels[: before - 1] == labels[before - 1]) + 1
    for width in range(2, min(CONTEXT, before) + 1):
        longer = places[places >= width]
        longer = longer[labels[longer - width] == labels[before - width]]
        if len(longer) < fewest:
            return places if width > SHORTEST else none
        places = longer
    return places if len(places) >= fewest else none


def _batch_members(case: Case, progress: ProgressTable) -> dict[int, frozenset[str]]:
    """The recorded names inside each batch of sends and receives, by the row of its closing entry."""
    closing = np.array([op.lower().endswith("coalesced") for op in case.vocabulary.ops], dtype=bool)
    if not closing.any() or not progress.batch_member.any():
        return {}
    rows = np.flatnonzero(closing[case.calls.op] & ~progress.batch_member).tolist()
    return {row: frozenset(batch_names(case, row, progress.batch_member)) for row in rows}


def operation_codes(case: Case) -> npt.NDArray[np.int64]:
    """A number for the plain name of each recorded operation."""
    names = [plain_op(op) for op in case.vocabulary.ops]
    codes = {name: i for i, name in enumerate(sorted(set(names)))}
    return np.array([codes[name] for name in names], dtype=np.int64)


def dtype_codes(case: Case, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A number for the dtype of each call, of its first input or else its first output; -1: not known."""
    names = [next(iter(inputs or outputs), "") for inputs, outputs in case.vocabulary.dtypes]
    codes = {name: i for i, name in enumerate(sorted({*names} - {""}))} | {"": UNSET}
    return np.array([*(codes[name] for name in names), UNSET], dtype=np.int64)[case.calls.dtypes[rows]]


def _labels(
    case: Case, batches: Mapping[int, frozenset[str]], operations: npt.NDArray[np.int64], sites: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """One number for each (role of the group, operation, call site or sizes), packed without sorting the table."""
    calls, words = case.calls, case.vocabulary
    if not len(calls):
        return np.empty(0, dtype=np.int64)
    varying = np.array([has_varying_sizes(n) for n in words.ops], dtype=bool)
    sizes = np.where(varying[calls.op], 0, calls.sizes.astype(np.int64) + 1)
    site = sites[calls.stack]
    detail = np.where(site >= 0, site * 2, sizes * 2 + 1)
    parts = {made: i for i, made in enumerate(sorted({*batches.values()}, key=sorted), 1)}
    for row, made in batches.items():
        detail[row] = (parts[made] << 24) | (detail[row] & 0xFFFFFF)
    codes: dict[tuple[str, int], int] = {}
    roles = np.array([codes.setdefault(role, len(codes)) for role in map(role_of, case.groups)] or [0], dtype=np.int64)
    role = roles[np.maximum(case.call_group, 0)]
    return (role << ROLE_BITS) | (operations[calls.op] << 32) | detail


def role_of(group: Group) -> tuple[str, int]:
    """The role and the size of a group: its description, else the name that alone stands for it.

    So the calls of rank 0 in tp(0-3) compare with those of rank 4 in tp(4-7). The bare lists of PyTorch 2.2 give a role by their number.
    """
    return group.desc if group.desc not in ("", "undefined") else f"={group.uid}", len(group.members)
