"""Who looks absent and is not: ranks that wait in a call which no recorder notes.

Gloo records no sends and receives, so a pipeline stage that waits for its input seems to be outside everything. Its stack, its own
complaint, or the order of past steps tells that it waits for somebody too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from nccldoctor.align.call_sequences import CallSequences, in_issue_order
from nccldoctor.align.first_pending import Key
from nccldoctor.align.gloo import is_gloo_timeout, is_lost_connection
from nccldoctor.align.liveness import Liveness
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.align.stack_activity import is_waiting
from nccldoctor.align.wait_graph import WaitGraph
from nccldoctor.events import StoreError
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks

SET_UP = ("wait", "barrier")
"""Operations of the store in which a rank waits for the others to make a group."""

Times = npt.NDArray[np.int64]

STEPS_COMPARED = 8
"""Past occurrences in which the order of two ranks' calls is compared."""


@dataclass(frozen=True, slots=True)
class UnrecordedWaits:
    """Which roots are ``excused``; ``inferred`` where only the order of past steps tells the others from them; ``hidden`` where every root
    waits, so that all waiting ends in calls that nobody recorded.
    """

    excused: Ranks
    inferred: bool = False
    hidden: bool = False


def find_unrecorded_waits(
    case: Case, both: ProgressTable, streams: CallSequences, liveness: Liveness, graph: WaitGraph
) -> UnrecordedWaits:
    """The roots that wait themselves; never all of them, unless the waiting ends elsewhere too."""
    roots = graph.roots
    backends = {d.backend for d in case.dumps if d.entries or not d.problem}
    gloo = backends == {"gloo"}
    lost = _lost(case) if gloo else Ranks()
    waiting = Ranks(r for r in roots if _says_it_waits(liveness, r) or r in lost)
    explained = bool(graph.entered_by_all or graph.cycles)
    if roots and not explained and roots <= lost:
        return UnrecordedWaits(Ranks(), hidden=True)
    if gloo and roots and not explained and all(_waits_in_vain(liveness, r) for r in roots):
        return UnrecordedWaits(Ranks(), hidden=True)
    left = roots - waiting if waiting != roots or explained else roots
    first = _earliest(case, both, streams, graph, left) if gloo and len(left) > 1 else left
    return UnrecordedWaits(roots - first, inferred=first != left)


def redundant_roots(graph: WaitGraph, roots: Ranks) -> Ranks:
    """Roots of which nothing is left, and which nobody waits for alone: each call that misses one is held up elsewhere anyway.

    Files get lost. Of two silent ranks, the one that some call waits for and for nobody else explains what the other one would;
    and so does a call that everybody entered and somebody does not finish.
    """
    calls = graph.calls.values()
    needed = {r for c in calls for r in (c.blockers if len(c.blockers) == 1 else c.missing) if r in roots}
    behind: dict[int, list[Key]] = defaultdict(list)
    for key, call in graph.calls.items():
        for rank in call.queued:
            behind[rank].append(key)
    held = {k for k, c in graph.calls.items() if c.blockers & needed}
    held |= {k for k in graph.entered_by_all if graph.calls[k].completed and graph.calls[k].row >= 0}
    held |= {k for k in chain.from_iterable(graph.cycles) if graph.calls[k].row >= 0}
    frontier = list(held)
    while frontier:
        further = {k for key in frontier for r in graph.calls[key].inside for k in behind[r]} - held
        held |= further
        frontier = list(further)
    return Ranks(r for r in roots - needed if all(c.key in held for c in graph.waiting_for(r)))


def _lost(case: Case) -> Ranks:
    """Ranks whose dump lost its entries: Gloo counts what it waits in as done, so the counters that are left do not show it."""
    return Ranks(r for r, d in zip(case.dump_rank, case.dumps, strict=True) if r is not None and d.problem and d.status)


def _waits_in_vain(liveness: Liveness, rank: int) -> bool:
    """Whether a rank itself waited for somebody until the limit, or did so when its stack was taken."""
    activity = liveness.activity(rank)
    if any(s.main and is_waiting(s.frames) for s in activity.stacks):
        return True
    return any(
        e.operation in SET_UP if isinstance(e, StoreError) else is_gloo_timeout(e) for e in activity.secondary_errors
    )


def _says_it_waits(liveness: Liveness, rank: int) -> bool:
    """A main thread inside a collective, a send or a receive; or an exception that such a call raised."""
    activity = liveness.activity(rank)
    if any(s.main and is_waiting(s.frames) for s in activity.stacks):
        return True
    return any(is_gloo_timeout(e) or is_lost_connection(e) for e in activity.secondary_errors)


def _earliest(case: Case, both: ProgressTable, streams: CallSequences, graph: WaitGraph, roots: Ranks) -> Ranks:
    """The roots whose next call came, in every past step, before the next calls of the other roots.

    A stage that waits for its input issues its call after the stage before it has issued its own.
    """
    times = {r: t for r in roots if (t := _past(case, both, streams, graph, r)) is not None}
    if len(times) < len(roots):
        return roots
    first = [r for r in times if all(_before(times[r], times[o]) for o in times if o != r)]
    return Ranks(first) if first else roots


def _past(case: Case, both: ProgressTable, streams: CallSequences, graph: WaitGraph, rank: int) -> Times | None:
    """When the call that a rank would issue next was issued in past steps, newest first, in nanoseconds.

    Of a rank without a record, when a peer issued the call that comes first in the rank's own order.
    """
    rows = streams.rows(rank)
    expected = streams.expected_next(rank, len(rows))
    if expected is not None:
        at = streams.position(rank, expected[0])
        return _occurrences(case, streams, rank, at, len(rows)) if at is not None else None
    for call in in_issue_order(case, both, streams, rank, graph.waiting_for(rank)):
        peer = int(case.call_rank[call.row]) if call.row >= 0 else -1
        at = streams.position(peer, call.row) if peer >= 0 else None
        times = _occurrences(case, streams, peer, at, at) if at is not None else None
        if times is not None:
            return times
    return None


def _occurrences(case: Case, streams: CallSequences, rank: int, at: int, newest: int) -> Times | None:
    """When calls like the one at ``at``, behind a call like the one before it, were issued, of those before ``newest``."""
    rows, labels = streams.rows(rank), streams.labels
    if at == 0:
        return None
    pair = (labels[rows[at - 1]], labels[rows[at]])
    hits = [i for i in range(1, newest) if (labels[rows[i - 1]], labels[rows[i]]) == pair]
    found = case.calls.created_ns[rows[hits]][::-1][:STEPS_COMPARED]
    return found if len(found) else None


def _before(mine: Times, theirs: Times) -> bool:
    """Whether mine came before theirs in each step that both recorded; steps are paired by nearness."""
    ahead = int(np.argmin(np.abs(mine - theirs[0])))
    behind = int(np.argmin(np.abs(theirs - mine[0])))
    mine, theirs = (mine[ahead:], theirs) if ahead else (mine, theirs[behind:])
    count = min(len(mine), len(theirs))
    return bool((mine[:count] < theirs[:count]).all())
