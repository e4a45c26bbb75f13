"""What gloo says when a call fails, and which recorded calls that were: its recorder counts them as done."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nccldoctor.case import Case
from nccldoctor.events import Event, ExceptionRaised

TIMED_OUT = "Timed out waiting"
"""Of a call that waited for a peer until the limit (transport/tcp/unbound_buffer.cc)."""

BROKEN = ("Connection closed by peer", "Connection reset by peer", "Application timeout caused pair closure")
"""Of a call whose peer left, or gave up (transport/tcp/pair.cc)."""


def waited_in_vain(event: Event) -> bool:
    """Whether a rank says that it waited until the limit."""
    return isinstance(event, ExceptionRaised) and TIMED_OUT in event.message


def lost_peer(event: Event) -> bool:
    """Whether a rank says that a connection of it broke."""
    return isinstance(event, ExceptionRaised) and any(words in event.message for words in BROKEN)


def failed(case: Case) -> npt.NDArray[np.bool_]:
    """The newest recorded call of each rank that raised such an exception, if it was issued where that was raised and no member of the
    group came further.

    Else the exception came from a send or a receive, or from a later call than the dump holds.
    """
    out = np.zeros(len(case.calls), dtype=bool)
    seq, group = case.calls.seq, case.call_group
    raised = {e.rank: e.frame for e in case.of(ExceptionRaised) if e.frame and (waited_in_vain(e) or lost_peer(e))}
    for rank, frame in raised.items():
        rows = np.flatnonzero(case.call_rank == (-2 if rank is None else rank))
        if len(rows):
            last = int(rows[-1])
            stack = case.words.stacks[case.calls.stack[last]]
            here = any(f"{name} ({file}:{line})" == frame for name, file, line in stack)
            out[last] = here and seq[last] >= seq[group == group[last]].max()
    return out
