"""Finds ranks that look absent and are not: they wait in a call which no recorder notes.

Gloo records no sends and receives, so that a pipeline stage that waits for its input seems to be in no call at all. Its stack, its
own complaint, or the order of past steps shows that it waits too. Example: rank 1 waits for the activations of rank 0, rank 2 for
those of rank 1, and both miss ALLREDUCE #18. In every past step rank 0 called first: ranks 1 and 2 are excused.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.align.call_sequences import CallSequences, in_issue_order
from nccldoctor.align.liveness import Liveness
from nccldoctor.align.stack_activity import split_frame, user_frames, wait_of
from nccldoctor.align.standing.stances import is_transfer
from nccldoctor.align.wait_graph import Key, WaitGraph
from nccldoctor.events import StoreError
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import is_gloo_timeout

SET_UP = ("wait", "barrier")
"""Operations of the store in which a rank waits for the others to create a process group."""

Times = npt.NDArray[np.int64]

STEPS_COMPARED = 8
"""Past occurrences in which the order of two ranks' calls is compared."""


class UnrecordedWaits(Struct, frozen=True):
    """The roots of the wait-for graph that wait in an unrecorded call.

    ``excused`` roots do. ``inferred``: only the order of past steps says so. ``hidden``: every root waits, so that all waiting ends
    in calls that no recorder noted.
    """

    excused: Ranks
    inferred: bool = False
    hidden: bool = False


def find_unrecorded_waits(sequences: CallSequences, liveness: Liveness, graph: WaitGraph) -> UnrecordedWaits:
    """The roots that wait themselves; never all of them, unless some waiting also ends elsewhere."""
    case, roots = sequences.case, graph.roots
    read = [d for d in case.dumps if d.entries or not d.problem]
    hidden = bool(read) and all(d.hides_transfers for d in read)
    # where a dump lost its entries, its counters call the call that the rank waits in completed
    dumps = zip(case.dump_rank, case.dumps, strict=True)
    lost = Ranks(r for r, d in dumps if hidden and r is not None and d.problem and d.status)
    own = liveness.activity  # a stack shows the rank inside a call, or such a call raised
    waiting = Ranks(r for r in roots if own(r).waiting_stack or own(r).has_failed_on_gloo or r in lost)
    waiting |= _exchanging(liveness, roots) if hidden else ()
    explained = bool(graph.entered_by_all or graph.cycles)
    if roots and not explained and (roots <= lost or (hidden and all(_has_waited_in_vain(liveness, r) for r in roots))):
        return UnrecordedWaits(Ranks(), hidden=True)
    left = roots - waiting if waiting != roots or explained else roots
    first = _first_by_past_steps(sequences, graph, left) if hidden and len(left) > 1 else left
    return UnrecordedWaits(roots - first, inferred=first != left)


def _exchanging(liveness: Liveness, roots: Ranks) -> Ranks:
    """Roots that stand idle in a function in which another rank sends or receives: ``isend().wait()`` leaves no frame."""
    waits = [own.waiting_stack.frames for own in liveness.by_rank.values() if own.waiting_stack is not None]
    exchanges = {next(user_frames(f), "") for f in waits if is_transfer((wait_of(f) or ("", ""))[1])}
    mains = [(rank, stack) for rank in roots if (stack := liveness.activity(rank).busy_stack) is not None]
    idle = [(r, s) for r, s in mains if not any(s.state == "running" for s in liveness.activity(r).states)]
    functions = {split_frame(frame)[0] for frame in exchanges} - {""}
    return Ranks(rank for rank, stack in idle if split_frame(stack.frames[0])[0] in functions)


def has_hidden_transfers(case: Case) -> bool:
    """True when all dumps are of backends like gloo, which record no sends and receives."""
    return bool(case.dumps) and all(d.hides_transfers for d in case.dumps)


def ranks_in_lost_calls(case: Case) -> Ranks:
    """Ranks whose counters tell of an open call in a group of which their ring holds none.

    The counters of rank 7 say that #5134 of its pipeline group was issued and #5133 completed, and its ring begins behind both.
    """
    open_calls = {
        (rank, group)
        for dump, rank in zip(case.dumps, case.dump_rank, strict=True)
        if rank is not None and dump.has_lost_past
        for status in dump.status
        if 0 <= status.completed < status.enqueued
        and (group := case.naming.by_pg_id.get((rank, status.pg_id))) is not None
    }
    held = np.unique(np.stack((case.call_rank, case.call_group)), axis=1).T.tolist() if open_calls else ()
    return Ranks(rank for rank, _ in open_calls.difference(map(tuple, held)))


def redundant_roots(graph: WaitGraph, roots: Ranks) -> Ranks:
    """Silent roots that explain no call: other stuck calls already hold up every call they miss.

    Files get lost. Ranks 6 and 7 left nothing; call A misses only rank 7, and call B misses both, but its member rank 5 waits in A:
    rank 7 explains both calls and rank 6 is redundant. A call that every member entered and one does not finish explains as much.
    """
    calls = graph.calls.values()
    needed = {r for c in calls for r in (c.blockers if len(c.blockers) == 1 else c.missing) if r in roots}
    queued: dict[int, list[Key]] = defaultdict(list)
    for key, call in graph.calls.items():
        for rank in call.queued:
            queued[rank].append(key)
    held = {k for k, c in graph.calls.items() if c.blockers & needed}
    held |= {k for k in graph.entered_by_all if graph.calls[k].completed and graph.calls[k].row >= 0}
    held |= {k for k in chain.from_iterable(graph.cycles) if graph.calls[k].row >= 0}
    frontier = list(held)
    while frontier:
        further = {k for key in frontier for r in graph.calls[key].inside for k in queued[r]} - held
        held |= further
        frontier = list(further)
    return Ranks(r for r in roots - needed if all(c.key in held for c in graph.waiting_for(r)))


def _has_waited_in_vain(liveness: Liveness, rank: int) -> bool:
    """True when a rank waited until the limit, or was waiting when its stack was taken."""
    activity = liveness.activity(rank)
    errors = activity.secondary_errors
    timed_out = any(e.operation in SET_UP if isinstance(e, StoreError) else is_gloo_timeout(e) for e in errors)
    return timed_out or activity.waiting_stack is not None


def _first_by_past_steps(sequences: CallSequences, graph: WaitGraph, roots: Ranks) -> Ranks:
    """The roots whose next call came, in every past step, before the next calls of the other roots.

    A stage that waits for its input issues its call after the stage before it has issued its own.
    """
    times = {r: t for r in roots if (t := _past_issue_times(sequences, graph, r)) is not None}
    if len(times) < len(roots):
        return roots
    first = [r for r in times if all(_is_always_before(times[r], times[o]) for o in times if o != r)]
    return Ranks(first) if first else roots


def _past_issue_times(sequences: CallSequences, graph: WaitGraph, rank: int) -> Times | None:
    """When past steps issued the call that a rank would issue next: nanoseconds, newest first.

    For a rank without a record, when a peer issued the call that comes first in the rank's own order.
    """
    rows = sequences.rows(rank)
    expected = sequences.expected_next(rank, len(rows))
    if expected is not None:
        return _occurrences(sequences, rank, sequences.position(rank, expected[0]), len(rows))
    for call in in_issue_order(sequences, rank, graph.waiting_for(rank)):
        peer = int(sequences.case.call_rank[call.row]) if call.row >= 0 else -1
        at = sequences.position(peer, call.row) if peer >= 0 else None
        times = _occurrences(sequences, peer, at, at or 0)
        if times is not None:
            return times
    return None


def _occurrences(sequences: CallSequences, rank: int, at: int | None, newest: int) -> Times | None:
    """When the rank issued pairs of calls like those at ``at - 1`` and ``at``, before position ``newest``."""
    if not at:
        return None
    rows, labels = sequences.rows(rank), sequences.labels
    pair = (labels[rows[at - 1]], labels[rows[at]])
    hits = [i for i in range(1, newest) if (labels[rows[i - 1]], labels[rows[i]]) == pair]
    times = sequences.case.calls.created_ns[rows[hits]][::-1][:STEPS_COMPARED]
    return times if len(times) else None


def _is_always_before(own: Times, theirs: Times) -> bool:
    """True when own times came before theirs in each step that both recorded; the nearest times are one step."""
    ahead = int(np.argmin(np.abs(own - theirs[0])))
    behind = int(np.argmin(np.abs(theirs - own[0])))
    own, theirs = (own[ahead:], theirs) if ahead else (own, theirs[behind:])
    count = min(len(own), len(theirs))
    return bool((own[:count] < theirs[:count]).all())
