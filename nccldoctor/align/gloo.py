"""Finds the calls that failed although their recorder counts them as ended.

Gloo retires a call also when it fails, and so do the recorder's hooks for other backends.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from nccldoctor.align.liveness import is_failed_wait
from nccldoctor.events import ExceptionRaised
from nccldoctor.identify.case import Case
from nccldoctor.model.operations import has_varying_sizes, plain_op
from nccldoctor.model.ranks import Ranks

FEWEST_WITNESSES = 3
"""Ranks that must have ended in one call for it to count as the one in which they lost a peer."""

ROOTED = ("gather", "scatter")
"""Operations that need a tensor on one member only."""

UNEVEN_END = ("broadcast", "reduce", "gather", "scatter", "send", "recv")
"""Operations that one member may complete while another is still in them."""


def last_rows(case: Case) -> dict[int, int]:
    """The newest recorded call of each rank."""
    rank = case.call_rank
    if not len(rank):
        return {}
    last = np.flatnonzero(np.concatenate([rank[1:] != rank[:-1], [True]]))
    return {int(rank[i]): int(i) for i in last.tolist() if rank[i] >= 0}


def abandoned_calls(case: Case, done: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """A mask of the calls that are ``done`` by their record, but cannot have completed.

    Such a backend retires a call also when it fails because a peer is gone. Only the last calls of ranks count. Such a call cannot have
    completed where

    - other ranks wait, and a member that left a dump never issued it, or another member never completed it while some rank
      left no dump;
    - all members that dumped completed it and a member without a dump may be the missing one: in a group of two always, in a
      larger one when all ended in this one call and had issued its like before. Ranks of a running job stand in different
      calls, and a job that is over ends with a call of its own.

    Ranks 0-2 end in ALLREDUCE #18, which each of them issued every step, and rank 3 left no dump: #18 failed.
    """
    abandoned = np.zeros(len(case.calls), dtype=bool)
    calls, words = case.calls, case.vocabulary
    dumped = {r for r, d in zip(case.dump_rank, case.dumps, strict=True) if r is not None and d.entries}
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in last_rows(case).values():
        if case.dumps[calls.dump[row]].only_retires and case.call_group[row] >= 0:
            ends[int(case.call_group[row]), int(calls.seq[row])].append(row)
    waiting = any(not done[row] for rows in ends.values() for row in rows)
    for (group, seq), rows in ends.items():
        undumped = case.groups[group].members - dumped
        if undumped and (len(case.groups[group].members) == 2 or _has_common_end(case, group, rows, undumped)):
            of_group = (case.call_group == group) & (calls.seq <= seq)
            first = int(calls.seq[of_group & ~done].min(initial=seq))
            abandoned[of_group & (calls.seq >= first)] = True  # what one member never completed failed on the others
        elif not any(plain_op(words.ops[calls.op[r]]).rpartition(":")[2] in UNEVEN_END for r in rows):
            unfinished = bool(case.world - dumped) and not done[rows].all()
            abandoned[rows] = unfinished or (waiting and _is_missing_from_dump(case, group, seq))
    return abandoned


def _is_missing_from_dump(case: Case, group: int, seq: int) -> bool:
    """True when a member's dump ends right before call ``seq``; one that ends earlier may be older."""
    of_group = case.call_group == group
    return any(
        int(case.calls.seq[of_group & (case.call_rank == r)].max(initial=0)) == seq - 1
        for r in np.unique(case.call_rank[of_group & (case.call_rank >= 0)]).tolist()
    )


def _has_common_end(case: Case, group: int, rows: list[int], undumped: Ranks) -> bool:
    """True when all members that dumped ended in this one call, and each had issued its like before.

    At most a third of the members may lack a dump. The call before must have had equal sizes everywhere: a receiver that got more
    than it expected ends as well, and is not to blame.
    """
    members, calls = case.groups[group].members, case.calls
    whole = len(rows) == len(members - undumped) >= FEWEST_WITNESSES and 3 * len(undumped) <= len(members)
    number = int(calls.seq[rows[0]])
    before = np.flatnonzero((case.call_group == group) & (calls.seq == number - 1))
    alike = len({int(calls.sizes[r]) for r in rows}) == 1 and len({int(calls.sizes[r]) for r in before}) == 1
    return whole and alike and all(_is_repeated(case, r) for r in rows)


def _is_repeated(case: Case, row: int) -> bool:
    """True when the rank had issued the same operation before: same call site, group and sizes."""
    calls = case.calls
    alike = (case.call_rank[:row] == case.call_rank[row]) & (case.call_group[:row] == case.call_group[row])
    for column in (calls.stack, calls.op, calls.sizes):
        alike &= column[:row] == column[row]
    return bool(alike.any())


def failed_calls(case: Case) -> npt.NDArray[np.bool_]:
    """A mask of the recorded calls that failed.

    They are the last calls of their ranks, no member of the group issued a later one, and they raised or differ from each other.
    """
    failed = np.zeros(len(case.calls), dtype=bool)
    if not any(dump.only_retires for dump in case.dumps) or not len(case.calls):
        return failed
    rank, group, seq = case.call_rank, case.call_group, case.calls.seq
    last = [row for row in last_rows(case).values() if group[row] >= 0]
    furthest = {g: int(seq[group == g].max()) for g in {int(group[row]) for row in last}}
    raised = {e.rank: e.frame for e in case.of(ExceptionRaised) if e.frame and is_failed_wait(e)}
    together: dict[int, list[int]] = defaultdict(list)
    for row in last:
        if int(seq[row]) == furthest[int(group[row])] and case.dumps[case.calls.dump[row]].only_retires:
            together[int(group[row])].append(row)
    for rows in together.values():
        unequal = len({_signature(case, row) for row in rows}) > 1
        for row in rows:  # other exceptions came from a send, or from a later call than the dump holds
            stack, frame = case.vocabulary.stacks[case.calls.stack[row]], raised.get(int(rank[row]))
            failed[row] = unequal or any(f"{name} ({file}:{line})" == frame for name, file, line in stack)
    return failed


def _signature(case: Case, row: int) -> tuple[object, ...]:
    """What must be equal on all members of a call."""
    calls, words = case.calls, case.vocabulary
    name = plain_op(words.ops[calls.op[row]])
    if name in ROOTED or has_varying_sizes(name) or "coalesced" in name:
        return (name,)
    return name, int(calls.numel_in[row]), words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else None
