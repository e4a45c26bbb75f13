"""Accounts for every rank of the job: a rank is proven to wait, or it is open.

The members come from whatever bounds the job: dumps, INIT lines, the launcher, a gather's sizes, the counts of the store. Where one rank
is left open, the others wait for it, although nothing may have been read of it.

Example: ranks 0-4, 6 and 7 of 8 gave up on calls, some of them without naming the group. Rank 5 left a log that stops: it is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from nccldoctor.align.exits import can_precede_alarm, ending_signal
from nccldoctor.align.liveness import Liveness, RankActivity
from nccldoctor.align.wait_graph import WaitGraph
from nccldoctor.events import DumpSignal, HeartbeatStuck, NcclError, SocketError
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks


class Ledger(Struct, frozen=True):
    """Which ranks of the job are proven to wait.

    ``is_closed`` is true when the input says how many ranks there are; otherwise only those are known that it names. ``waiting`` ranks
    are in a call that hangs, gave up on one, or were told in it that a peer was gone. ``heard`` ranks left lines, a dump or an exit.
    """

    world: Ranks
    is_closed: bool
    waiting: Ranks
    heard: Ranks

    @property
    def open(self) -> Ranks:
        """The ranks that nothing proves to wait."""
        return self.world - self.waiting

    def left_by(self, count: int, *proven: Ranks) -> Ranks:
        """The ranks that are not there, where as many are missing as were counted; empty where the numbers differ.

        ``proven`` are sets of ranks that are there, the stricter ones first.
        """
        left = (self.world - there for there in proven)
        return next((ranks for ranks in left if len(ranks) == count), Ranks()) if self.is_closed else Ranks()


def build_ledger(case: Case, graph: WaitGraph, liveness: Liveness) -> Ledger:
    """Account for every rank of the job."""
    sized = any(g.desc == "default_pg" and g.learned != "assumed" for g in case.groups) or bool(liveness.dumped)
    return Ledger(
        world=case.world,
        is_closed=case.world_size is not None and sized,
        waiting=Ranks(graph.waits_in) | _waiting(case, liveness),
        heard=liveness.logged | liveness.dumped | liveness.exited,
    )


def _waiting(case: Case, liveness: Liveness) -> Iterator[int]:
    """Ranks that were in a call, though no record may name it."""
    aborts = any(own.alarms and _was_aborted(own) for own in liveness.by_rank.values())
    yield from ranks_with_lost_peer(case, liveness)
    yield from (e.from_rank for e in case.of(DumpSignal) if e.from_rank is not None and e.from_rank >= 0)
    for rank, own in liveness.by_rank.items():
        if (
            any(not isinstance(e, HeartbeatStuck) for e in own.alarms)
            or own.waiting_stack is not None
            or own.has_failed_on_gloo
            or any(t.what == "process-down" for t in own.teardown)  # its own watchdog gave up
            or (aborts and not own.logged and _was_aborted(own))  # as a rank that gave up does
        ):
            yield rank


def _was_aborted(own: RankActivity) -> bool:
    return any(ending_signal(e) == "SIGABRT" for e in own.exits)


def ranks_with_lost_peer(case: Case, liveness: Liveness) -> Iterator[int]:
    """Ranks that NCCL told, at the first alarm or before, that a peer was gone."""
    errors = (e for e in case.of(NcclError) if e.code in ("ncclRemoteError", "ncclSystemError"))
    closed = (e for e in case.of(SocketError) if e.echo)
    for event in chain(errors, closed):
        if event.rank is not None and can_precede_alarm(liveness, event):
            yield event.rank
