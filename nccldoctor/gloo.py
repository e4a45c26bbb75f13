"""What gloo says when a call fails, and which recorded calls that were: its recorder counts them as done."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from nccldoctor.case import Case
from nccldoctor.events import Event, ExceptionRaised

TIMED_OUT = "Timed out waiting"
"""Of a call that waited for a peer until the limit (transport/tcp/unbound_buffer.cc)."""

BROKEN = ("Connection closed by peer", "Connection reset by peer", "Application timeout caused pair closure")
"""Of a call whose peer left, or gave up (transport/tcp/pair.cc)."""


FREE = ("all_to_all", "alltoall", "coalesced")
ROOTED = ("gather", "scatter")
"""Operations whose sizes differ between members, or may: by parts of the name, and by the whole of it."""


def waited_in_vain(event: Event) -> bool:
    """Whether a rank says that it waited until the limit."""
    return isinstance(event, ExceptionRaised) and TIMED_OUT in event.message


def lost_peer(event: Event) -> bool:
    """Whether a rank says that a connection of it broke."""
    return isinstance(event, ExceptionRaised) and any(words in event.message for words in BROKEN)


def failed(case: Case) -> npt.NDArray[np.bool_]:
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
    raised = {e.rank: e.frame for e in case.of(ExceptionRaised) if e.frame and (waited_in_vain(e) or lost_peer(e))}
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
    stack = case.words.stacks[case.calls.stack[row]]
    return frame is not None and any(f"{name} ({file}:{line})" == frame for name, file, line in stack)


def _signature(case: Case, row: int) -> tuple[object, ...]:
    """What all members of a call must have alike."""
    calls, words = case.calls, case.words
    name = words.ops[calls.op[row]].split(" ", 1)[0]
    if name in ROOTED or any(part in name for part in FREE):
        return (name,)
    return name, int(calls.numel_in[row]), words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else None
