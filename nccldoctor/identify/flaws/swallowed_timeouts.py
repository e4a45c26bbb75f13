"""Leaves out the calls that were made after a rank swallowed a timeout: they show no order of the program.

Example: ranks 0-2 wait in ALLREDUCE #79, which rank 3 does not make. After 15 s their call fails; the script catches the error, takes
the next batch, and each of its calls fails at once. Their numbers run to #90, while the job stopped at #79.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.identify.case import Case
from nccldoctor.model import Gap
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import COMPLETED

_Rows = npt.NDArray[np.int64]


class _FailedCall(Struct, frozen=True):
    """The row of a call that failed by its timeout, and when, in nanoseconds of the job's clock."""

    row: int
    failed_ns: int


def without_later_calls(case: Case) -> Case:
    """The case without the calls after the first timeout that a rank went on from; a Gap says how many.

    The rank made no call for as long as the limit, and then went on, although a member had not made the call by then: a call that needs all
    members can only have failed, though its recorder let go of it (``retired``). A late entry into a failed call stays.
    """
    failed = _failed_calls(case)
    if not failed:
        return case
    calls = case.calls
    late = calls.created_ns > min(call.failed_ns for call in failed)
    is_failed = np.zeros(len(calls), dtype=bool)
    for call in failed:
        late |= (calls.dump == calls.dump[call.row]) & (calls.created_ns >= call.failed_ns)
        is_failed |= (case.call_group == case.call_group[call.row]) & (calls.seq == calls.seq[call.row])
    late &= ~is_failed
    kept = ~late
    ranks = Ranks(int(rank) for rank in np.unique(case.call_rank[late]) if rank >= 0)
    why = f"{int(late.sum())} calls left out, because ranks made them after their call had timed out, and they show no order"
    return replace(
        case,
        batch=case.batch.with_calls(replace(calls, retired=calls.retired & ~is_failed).take(kept)),
        call_rank=case.call_rank[kept],
        call_group=case.call_group[kept],
        gaps=(*case.gaps, Gap("recorded calls after a timeout", why, ranks)),
    )


def _failed_calls(case: Case) -> list[_FailedCall]:
    """The first call of each rank that failed by its timeout, and after which the rank went on."""
    found: dict[int, _FailedCall] = {}
    blocked = np.concatenate([np.empty(0, np.int64), *_blocked_rows(case)])
    calls, group_of = case.calls, case.call_group
    # a dump in which the limit is damaged shows no timeout: members share the limit of their group
    limits = {group: int(calls.timeout_ms[group_of == group].max()) for group in set(group_of[blocked].tolist())}
    spent = np.diff(calls.created_ns, append=0)[blocked]
    blocked = blocked[spent >= np.array([limits[group] * 1_000_000 for group in group_of[blocked].tolist()])]
    members = {group.index: group.members for group in case.groups}
    entries = _entries(case, blocked)
    for row in blocked.tolist():
        rank, group, seq = int(case.call_rank[row]), int(group_of[row]), int(calls.seq[row])
        deadline = int(calls.created_ns[row]) + limits[group] * 1_000_000
        times = entries[group, seq]
        is_first = rank not in found or deadline < found[rank].failed_ns
        if is_first and any(_was_missing(case, m, group, seq, times, deadline) for m in members[group] if m != rank):
            found[rank] = _FailedCall(row, deadline)
    return list(found.values())


def _blocked_rows(case: Case) -> Iterator[_Rows]:
    """The calls after which their rank made no other one for as long as their limit, and then did."""
    calls, ops = case.calls, case.vocabulary.ops
    needs_all = np.array([op_type(name) in NEEDS_ALL for name in ops] + [False])
    for part in calls.by_dumps():
        created, limit = calls.created_ns[part], calls.timeout_ms[part][:-1]
        blocked = (np.diff(created) >= limit * 1_000_000) & (np.diff(calls.dump[part]) == 0)
        blocked &= (limit > 0) & (created[:-1] > 0)
        rows = np.flatnonzero(blocked) + part.start
        is_open = (calls.state[rows] != COMPLETED) & (calls.completed_ns[rows] <= 0)
        is_known = (case.call_rank[rows] >= 0) & (case.call_group[rows] >= 0) & (calls.seq[rows] >= 0)
        yield rows[is_open & is_known & needs_all[calls.op[rows]] & ~calls.is_p2p[rows]]


def _entries(case: Case, rows: _Rows) -> Mapping[tuple[int, int], Mapping[int, int]]:
    """When each rank issued the calls of ``rows``, in nanoseconds, by group and number."""
    wanted = {(int(case.call_group[row]), int(case.calls.seq[row])) for row in rows}
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for group, seq in wanted:
        for row in np.flatnonzero((case.call_group == group) & (case.calls.seq == seq)).tolist():
            found[group, seq].setdefault(int(case.call_rank[row]), int(case.calls.created_ns[row]))
    return found


def _was_missing(case: Case, rank: int, group: int, seq: int, times: Mapping[int, int], deadline: int) -> bool:
    """True when the dump of a member shows that it had not made a call by the deadline."""
    if rank in times:
        return times[rank] > deadline
    numbers = case.calls.seq[(case.call_rank == rank) & (case.call_group == group)]
    heads = [head for head, owner in zip(case.dumps, case.dump_rank, strict=True) if owner == rank and head.entries]
    has_all = bool(heads) and not any(head.has_lost_past for head in heads)
    return bool((numbers < seq).any()) or (has_all and not len(numbers))
