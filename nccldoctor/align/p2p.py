"""Finds sends and receives among the recorded calls, and those that did not complete.

The recorder writes ``send 0->1`` and ``recv 1<-0`` with ranks inside the group. A batch (``batch_isend_irecv``) is recorded as its
members, whose state never changes, and right behind them the ``coalesced`` entry that closes it (pytorch, FlightRecorder).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.identify.case import Case
from nccldoctor.model.recorded_calls import COMPLETED, STARTED, Calls

Mask = npt.NDArray[np.bool_]


class Transfer(Struct, frozen=True):
    """A send, a receive or a batch of them that did not complete.

    ``group`` is the index of the group, ``row`` the row in the table of calls, ``position`` its place in the order of ``rank``.
    ``sends`` are the global ranks that it sends to, ``receives`` those that it receives from. ``started``: its kernel ran.
    """

    group: int
    rank: int
    row: int
    position: int
    sends: tuple[int, ...]
    receives: tuple[int, ...]
    started: bool


def p2p_masks(case: Case, calls: Calls) -> tuple[Mask, Mask]:
    """Two masks over the rows: sends and receives (with closing entries), and members of a batch."""
    if not len(calls):
        return np.empty(0, dtype=bool), np.empty(0, dtype=bool)
    names = case.vocabulary.ops
    is_p2p_name = np.array([n.startswith(("send", "recv")) for n in names], dtype=bool)
    closing_name = np.array([n.lower().endswith("coalesced") for n in names], dtype=bool)
    single = calls.is_p2p | is_p2p_name[calls.op]
    closing = closing_name[calls.op]
    if not closing.any():
        return single, np.zeros(len(calls), dtype=bool)
    base = (calls.dump.astype(np.int64) << 40) ^ (calls.pg_id.astype(np.int64) << 32)
    p2p_key = base ^ np.where(calls.p2p_seq >= 0, calls.p2p_seq, calls.seq)
    seq_key = base ^ calls.seq
    follows = np.zeros(len(calls), dtype=bool)  # a transfer of the same dump
    follows[1:] = (single & ~closing)[:-1] & (calls.dump[1:] == calls.dump[:-1])
    batch_of_p2p = closing & np.isin(p2p_key, p2p_key[single & ~closing]) & follows
    p2p = (single & ~closing) | batch_of_p2p
    member = (p2p & ~closing & np.isin(p2p_key, p2p_key[batch_of_p2p])) | (
        ~p2p & ~closing & np.isin(seq_key, seq_key[closing & ~batch_of_p2p])
    )
    return p2p, member


def completed_by_counters(case: Case, calls: Calls, single: Mask) -> Mask:
    """A mask of the transfers that their group's counters call completed, in dumps of active calls only.

    Such a dump leaves out the completed entry that closed a batch and keeps its members. The counters are those of sends and
    receives where the group issues nothing else.
    """
    out = np.zeros(len(calls), dtype=bool)
    for dump, rows in calls.by_dump() if single.any() else ():
        if bool((calls.state[rows] == COMPLETED).any()) or not bool(single[rows].any()):
            continue
        for status in case.dumps[dump].status:
            own = calls.pg_id[rows] == status.pg_id
            if status.completed > 0 and bool(own.any()) and not bool((own & ~single[rows]).any()):
                out[rows] |= own & (calls.p2p_seq[rows] >= 0) & (calls.p2p_seq[rows] <= status.completed)
    return out


def open_transfers(case: Case, calls: Calls, open_: Mask, member: Mask) -> dict[int, tuple[Transfer, ...]]:
    """The unfinished sends and receives by rank; a batch is its closing entry with the peers of its members."""
    by_rank: dict[int, list[Transfer]] = defaultdict(list)
    for row in np.flatnonzero(open_).tolist():
        names = [case.vocabulary.ops[calls.op[row]]]
        if names[0].lower().endswith("coalesced"):
            names = list(batch_names(case, row, member))
        group = case.groups[case.call_group[row]]
        sends, receives = _peers(names, list(group.members))
        rank = int(case.call_rank[row])
        by_rank[rank].append(
            Transfer(group.index, rank, row, int(calls.entry[row]), sends, receives, int(calls.state[row]) == STARTED)
        )
    return {rank: tuple(transfers) for rank, transfers in by_rank.items()}


def batch_names(case: Case, row: int, member: Mask) -> Iterable[str]:
    """The recorded names of a batch's members, which stand right before its closing entry."""
    calls, at = case.calls, row - 1
    while at >= 0 and member[at] and calls.dump[at] == calls.dump[row] and calls.pg_id[at] == calls.pg_id[row]:
        if calls.p2p_seq[at] != calls.p2p_seq[row]:
            break
        yield case.vocabulary.ops[calls.op[at]]
        at -= 1


def _peers(names: Iterable[str], members: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The global ranks that these calls send to and receive from; ``members`` are those of their group."""
    sends: list[int] = []
    receives: list[int] = []
    for name in names:
        kind, _, ends = name.partition(" ")
        _, _, other = ends.replace("<-", "->").partition("->")
        if other.strip().isdigit() and int(other) < len(members):
            (sends if kind == "send" else receives).append(members[int(other)])
    return tuple(sorted(set(sends))), tuple(sorted(set(receives)))
