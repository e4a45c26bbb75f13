"""What gloo says when a call fails, and which recorded calls that were: its recorder counts them as done."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks

TIMED_OUT = "Timed out waiting"
"""Of a call that waited for a peer until the limit (transport/tcp/unbound_buffer.cc)."""

BROKEN = ("Connection closed by peer", "Connection reset by peer", "Application timeout caused pair closure")
"""Of a call whose peer left, or gave up (transport/tcp/pair.cc)."""


FEWEST_WITNESSES = 3
"""Ranks that must have ended in one call for it to count as the one in which they lost a peer."""

FREE = ("all_to_all", "alltoall", "coalesced")
ROOTED = ("gather", "scatter")
"""Operations whose sizes differ between members, or may: by parts of the name, and by the whole of it."""


PASSING = ("broadcast", "reduce", "gather", "scatter", "send", "recv")
"""Operations that one member may get through while another is still in them."""


def can_finish_early(name: str) -> bool:
    """Whether a recorded operation may end on one member before it does on another."""
    return name.split(" ", 1)[0].rpartition(":")[2] in PASSING


def is_gloo_timeout(event: Event) -> bool:
    """Whether a rank says that it waited until the limit."""
    return isinstance(event, ExceptionRaised) and TIMED_OUT in event.message


def is_lost_connection(event: Event) -> bool:
    """Whether a rank says that a connection of it broke."""
    return isinstance(event, ExceptionRaised) and any(words in event.message for words in BROKEN)


def last_rows(case: Case) -> dict[int, int]:
    """The newest recorded call of each rank."""
    rank = case.call_rank
    if not len(rank):
        return {}
    last = np.flatnonzero(np.concatenate([rank[1:] != rank[:-1], [True]]))
    return {int(rank[i]): int(i) for i in last.tolist() if rank[i] >= 0}


def abandoned_calls(case: Case, done: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Last calls of ranks, ``done`` by their record, that cannot have come to an end: gloo retires a call as well when it fails
    because a peer is gone.

    Others wait, and a member that left a dump never issued it; or a fellow never got through it, beside a rank without a
    dump. Where all that dumped got through, and only a rank without a dump may have been missing, it is told in a group of
    two; in a larger one if all of them ended in one and the same call, and it is no new one: ranks of a running job stand
    in different calls, and a job that is over ends with a call of its own.
    """
    out = np.zeros(len(case.calls), dtype=bool)
    calls, words = case.calls, case.vocabulary
    dumped = {r for r, d in zip(case.dump_rank, case.dumps, strict=True) if r is not None and d.entries}
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in last_rows(case).values():
        if case.dumps[calls.dump[row]].backend == "gloo" and case.call_group[row] >= 0:
            ends[int(case.call_group[row]), int(calls.seq[row])].append(row)
    waiting = any(not done[row] for rows in ends.values() for row in rows)
    for (group, seq), rows in ends.items():
        gone = case.groups[group].members - dumped
        if gone and (len(case.groups[group].members) == 2 or _ended_together(case, group, rows, gone)):
            mine = (case.call_group == group) & (calls.seq <= seq)
            first = int(calls.seq[mine & ~done].min(initial=seq))
            out[mine & (calls.seq >= first)] = True  # what one of them never got through failed on the others, too
        elif not any(can_finish_early(words.ops[calls.op[r]]) for r in rows):
            alone = bool(case.world - dumped) and not done[rows].all()
            out[rows] = alone or (waiting and _never_issued(case, group, seq))
    return out


def _never_issued(case: Case, group: int, seq: int) -> bool:
    """Whether the dump of a member ends right before call ``seq`` of the group. One that ends earlier may be older than the others."""
    mine = case.call_group == group
    return any(
        int(case.calls.seq[mine & (case.call_rank == r)].max(initial=0)) == seq - 1
        for r in np.unique(case.call_rank[mine & (case.call_rank >= 0)]).tolist()
    )


def _ended_together(case: Case, group: int, rows: list[int], gone: Ranks) -> bool:
    """Whether all members that dumped ended in this one call, which each of them had issued before, with but few members gone, and came
    alike through the call before it: a receiver that got more than it expected is gone as well, and is not to blame.
    """
    members, calls = case.groups[group].members, case.calls
    whole = len(rows) == len(members - gone) >= FEWEST_WITNESSES and 3 * len(gone) <= len(members)
    number = int(calls.seq[rows[0]])
    before = np.flatnonzero((case.call_group == group) & (calls.seq == number - 1))
    alike = len({int(calls.sizes[r]) for r in rows}) == 1 and len({int(calls.sizes[r]) for r in before}) == 1
    return whole and alike and all(_again(case, r) for r in rows)


def _again(case: Case, row: int) -> bool:
    """Whether the rank of a call issued its like before: from the same place, in the same group, with the same operation and sizes."""
    calls = case.calls
    alike = (case.call_rank[:row] == case.call_rank[row]) & (case.call_group[:row] == case.call_group[row])
    for column in (calls.stack, calls.op, calls.sizes):
        alike &= column[:row] == column[row]
    return bool(alike.any())


def failed_calls(case: Case) -> npt.NDArray[np.bool_]:
    """Recorded calls that failed: the last ones of their ranks, in which no member of the group came further, and that either raised or
    differ from each other.
    """
    out = np.zeros(len(case.calls), dtype=bool)
    if not any(dump.backend == "gloo" for dump in case.dumps) or not len(case.calls):
        return out
    rank, group, seq = case.call_rank, case.call_group, case.calls.seq
    last = np.flatnonzero(np.concatenate([rank[1:] != rank[:-1], [True]]))
    last = last[(rank[last] >= 0) & (group[last] >= 0)]
    furthest = {g: int(seq[group == g].max()) for g in np.unique(group[last]).tolist()}
    raised = {
        e.rank: e.frame for e in case.of(ExceptionRaised) if e.frame and (is_gloo_timeout(e) or is_lost_connection(e))
    }
    together: dict[int, list[int]] = defaultdict(list)
    for row in last.tolist():
        if int(seq[row]) == furthest[int(group[row])] and case.dumps[case.calls.dump[row]].backend == "gloo":
            together[int(group[row])].append(row)
    for rows in together.values():
        unequal = len({_signature(case, row) for row in rows}) > 1
        out[[row for row in rows if unequal or _issued_at(case, row, raised.get(int(rank[row])))]] = True
    return out


def _issued_at(case: Case, row: int, frame: str | None) -> bool:
    """Whether a call was issued where an exception was raised; else that came from a send, or from a later call than the dump holds."""
    stack = case.vocabulary.stacks[case.calls.stack[row]]
    return frame is not None and any(f"{name} ({file}:{line})" == frame for name, file, line in stack)


def _signature(case: Case, row: int) -> tuple[object, ...]:
    """What all members of a call must have alike."""
    calls, words = case.calls, case.vocabulary
    name = words.ops[calls.op[row]].split(" ", 1)[0]
    if name in ROOTED or any(part in name for part in FREE):
        return (name,)
    return name, int(calls.numel_in[row]), words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else None
