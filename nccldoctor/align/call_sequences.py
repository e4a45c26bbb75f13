"""Call streams: what a rank issued, in its own order, as labels that can be compared with its past and with its peers.

Sequence numbers tell *where* two ranks stand; labels tell *what* they did. A label is the group's role, the operation, and the
call site where it was recorded, else the sizes. A stream repeats itself step by step: what usually follows the last calls
of a rank is what it would have issued next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.identify.case import Case
from nccldoctor.model.recorded_calls import Frame

MOST_SHARED = 4096
"""Members up to which a group says something about who works alongside whom."""


def in_issue_order(
    case: Case, both: ProgressTable, streams: CallSequences, rank: int, calls: Sequence[StuckCall]
) -> list[StuckCall]:
    """These calls, first the one that ``rank`` would have issued next: by its own past, else by a peer that shares most groups with it.

    The clock does not tell: members of other groups come to their calls when they like.
    """
    expected = streams.expected_next(rank, len(streams.rows(rank)))
    if expected is not None:
        group = int(case.call_group[expected[0]])
        return sorted(calls, key=lambda c: c.group != group)
    places = _places(case, both, rank)
    return sorted(calls, key=lambda c: places.get((_role(case, c.group), -1 if c.pair else c.seq), 1 << 60))


def _role(case: Case, group: int) -> tuple[str, int]:
    return case.groups[group].desc, len(case.groups[group].members)


def _places(case: Case, both: ProgressTable, rank: int) -> dict[tuple[tuple[str, int], int], int]:
    """Where a peer that shares most groups with ``rank`` issued, or waits in, the call of each role and number, in its own order.

    Sister groups of one role count alike, so that their numbers stand for the same place in the step. Number -1 is a
    role's first open transfer.
    """
    shared = Counter(
        r for g in case.groups if rank in g.members and len(g.members) <= MOST_SHARED for r in g.members if r != rank
    )
    peer = next((p for p, _ in sorted(shared.items(), key=lambda i: (-i[1], i[0])) if p in both.last_row), None)
    out: dict[tuple[tuple[str, int], int], int] = {}
    if peer is None:
        return out
    for row in np.flatnonzero(both.collective & (case.call_rank == peer)).tolist():
        out[(_role(case, int(case.call_group[row])), int(case.calls.seq[row]))] = int(case.calls.entry[row])
    for transfer in both.transfers.get(peer, ()):
        out.setdefault((_role(case, transfer.group), -1), transfer.position)
    return out


CONTEXT = 256
"""Longest run of calls that is looked up in the past to say what follows it."""

KIND = (1 << 44) - 1
"""The part of a label that tells operation and call site, or sizes, but not the group."""

SHORTEST = 3
"""Calls that must be equal for what followed them to testify."""

LIBRARY = ("/torch/", "site-packages/", "dist-packages/", "lib/python3")
"""Parts of the path of frames that are not the user's own."""

VARYING = ("all_to_all", "alltoall")
"""Operations whose sizes differ legally from call to call and from rank to rank."""


def site(frames: Sequence[Frame]) -> str:
    """The user's call site: innermost frame outside libraries as ``function (file:line)``; "" where none was recorded."""
    for name, file, line in frames:
        if not any(part in file for part in LIBRARY):
            return f"{name} ({file.rpartition('/')[2]}:{line})"
    return ""


def chain(frames: Sequence[Frame]) -> tuple[tuple[str, int], ...]:
    """All user frames: two calls from one helper differ by who called it."""
    return tuple((file, line) for _, file, line in frames if not any(part in file for part in LIBRARY))


def plain(name: str) -> str:
    """A recorded name without ranks: ``send`` for ``send 0->1``."""
    return name.split(" ", 1)[0]


class CallSequences:
    """Labels of every recorded call, and each rank's rows in its own order (members of batches left out)."""

    def __init__(self, case: Case, fronts: ProgressTable) -> None:
        self.case = case
        self.batches = _compositions(case, fronts)
        self.labels = _labels(case, self.batches)
        self._keep = ~fronts.batch_member & (case.call_rank >= 0) & (case.call_group >= 0)
        self._rows: dict[int, npt.NDArray[np.int64]] = {}
        self._outcomes: dict[tuple[int, int], dict[int, int]] = {}

    def rows(self, rank: int) -> npt.NDArray[np.int64]:
        """The rows of one rank, oldest first."""
        if rank not in self._rows:
            self._rows[rank] = np.flatnonzero(self._keep & (self.case.call_rank == rank))
        return self._rows[rank]

    def position(self, rank: int, row: int) -> int | None:
        """Where ``row`` stands in the rank's own order."""
        rows = self.rows(rank)
        at = int(np.searchsorted(rows, row))
        return at if at < len(rows) and rows[at] == row else None

    def expected_next(self, rank: int, before: int) -> tuple[int, int, int] | None:
        """What followed earlier wherever the calls before position ``before`` occurred: (row of an occurrence, times, other outcomes).

        None where the past is too short.
        """
        rows = self.rows(rank)
        labels = self.labels[rows]
        after = _alike(labels, before, fewest=1)
        if not len(after):
            return None
        counts = Counter(labels[after].tolist())
        best, times = counts.most_common(1)[0]
        return int(rows[int(after[labels[after] == best].max())]), times, len(after) - times

    def outcomes(self, rank: int, before: int) -> dict[int, int]:
        """What followed earlier wherever the calls before position ``before`` occurred: label to position of its newest occurrence.

        Empty where fewer than two such places are recorded: once is no custom.
        """
        if (rank, before) not in self._outcomes:  # several rules ask
            labels = self.labels[self.rows(rank)]
            self._outcomes[rank, before] = {int(labels[a]): int(a) for a in _alike(labels, before, fewest=2)}
        return self._outcomes[rank, before]

    def kinds(self, rank: int) -> npt.NDArray[np.int64]:
        """What a rank issued in its own order, without the role of the group: comparable between ranks whose groups have no description."""
        return self.labels[self.rows(rank)] & KIND


def _alike(labels: npt.NDArray[np.int64], before: int, fewest: int) -> npt.NDArray[np.int64]:
    """Positions before ``before`` that stand behind the same calls as it does, for the longest run of calls that is
    found ``fewest`` times.
    """
    if before < SHORTEST:
        return np.empty(0, dtype=np.int64)
    found = np.flatnonzero(labels[: before - 1] == labels[before - 1]) + 1
    for width in range(2, min(CONTEXT, before) + 1):
        longer = found[found >= width]
        longer = longer[labels[longer - width] == labels[before - width]]
        if len(longer) < fewest:
            return found if width > SHORTEST else np.empty(0, dtype=np.int64)
        found = longer
    return found if len(found) >= fewest else np.empty(0, dtype=np.int64)


def _compositions(case: Case, fronts: ProgressTable) -> dict[int, frozenset[str]]:
    """What each batch of sends and receives holds, by the row of its closing entry: its members stand right before it."""
    closing = np.array([n.lower().endswith("coalesced") for n in case.vocabulary.ops], dtype=bool)
    out: dict[int, frozenset[str]] = {}
    if not closing.any() or not fronts.batch_member.any():
        return out
    calls, words = case.calls, case.vocabulary
    for row in np.flatnonzero(closing[calls.op] & ~fronts.batch_member).tolist():
        names, at = set(), row - 1
        while (
            at >= 0
            and fronts.batch_member[at]
            and calls.dump[at] == calls.dump[row]
            and calls.pg_id[at] == calls.pg_id[row]
        ):
            names.add(words.ops[calls.op[at]])
            at -= 1
        out[row] = frozenset(names)
    return out


def _labels(case: Case, batches: Mapping[int, frozenset[str]]) -> npt.NDArray[np.int64]:
    """One number for each (role of the group, operation, call site or sizes), packed without sorting the table."""
    calls, words = case.calls, case.vocabulary
    if not len(calls):
        return np.empty(0, dtype=np.int64)
    operations = {name: i for i, name in enumerate(sorted({plain(n) for n in words.ops}))}
    op_code = np.array([operations[plain(n)] for n in words.ops], dtype=np.int64)[calls.op]
    chains: dict[object, int] = {}
    chain_code = np.array([chains.setdefault(chain(s), len(chains)) for s in words.stacks], dtype=np.int64)
    framed = np.array([bool(chain(s)) for s in words.stacks], dtype=bool)
    varying = np.array([any(v in n for v in VARYING) for n in words.ops], dtype=bool)
    sizes = np.where(varying[calls.op], 0, calls.sizes.astype(np.int64) + 1)
    detail = np.where(framed[calls.stack], chain_code[calls.stack] * 2, sizes * 2 + 1)
    parts = {made: i for i, made in enumerate(sorted({*batches.values()}, key=sorted), 1)}
    for row, made in batches.items():
        detail[row] = (parts[made] << 24) | (detail[row] & 0xFFFFFF)
    role = _roles(case)[np.maximum(case.call_group, 0)]
    return (role << 44) | (op_code << 32) | detail


def _roles(case: Case) -> npt.NDArray[np.int64]:
    """A number for what a group is for: groups of one description share it, so that peers in sister groups compare."""
    codes: dict[tuple[str, int], int] = {}
    out = [
        codes.setdefault((g.desc if g.desc not in ("", "undefined") else f"={g.uid}", len(g.members)), len(codes))
        for g in case.groups
    ]
    return np.array(out or [0], dtype=np.int64)
