"""Logs that end in trouble although no rank complains of a call, and far ends of broken connections.

Example: rank 1 prints ``Connection closed by remote peer node9<44012>``. Nothing was read of node9, which is where to look.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

from nccldoctor.align.exits import ABORTS, task_failed_above
from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import first_lines
from nccldoctor.diagnose.hypothesis import Citation, Line
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.diagnose.signs.silence import has_connection_broken_first
from nccldoctor.events import (
    AbortStuck,
    CommInit,
    Event,
    ExceptionRaised,
    NcclError,
    Note,
    Phase,
    ProcessExit,
    RendezvousError,
    SchedulerEvent,
    SocketError,
    StoreError,
    TearDown,
)
from nccldoctor.model.hosts import host_key, is_loopback
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.sentences import essentials, sentence

_E = TypeVar("_E", bound=Event)

MOST = 3

LOST_PEER = "remote process exited"
"""What NCCL says of a connection that its other end left (``ncclRemoteError``)."""

_OF_OWN = ("ncclUnhandledCudaError", "ncclInvalidUsage", "ncclInvalidArgument")
"""Errors of NCCL that no lost peer causes."""


def has_clean_end(facts: Facts) -> bool:
    """True when some process said that it was done, or ended with 0."""
    is_done = any(p.what == "finished" for p in facts.case.of(Phase))
    return is_done or any(e.exitcode == 0 for e in facts.case.of(ProcessExit))


def find_broken_end(facts: Facts) -> tuple[str, list[Citation]]:
    """Describes the trouble that ended a job, with its lines. It is "" without trouble, or when the job ended well all the same."""
    stuck = list(facts.case.of(AbortStuck))
    if has_clean_end(facts) and not stuck:
        return "", []
    ended = [t for t in facts.case.of(TearDown) if t.what in ABORTS]
    had_workers = any(t.what == "closing-signal" for t in facts.case.of(TearDown))  # none at the end of a good job
    lost = [t for t in ended if LOST_PEER in t.detail]
    # where a task had failed before, Slurm itself ended the others
    signals = [t for t in facts.case.of(TearDown) if t.what == "death-signal"]
    told = [t for t in signals if task_failed_above(facts.case, t) is None]
    signal = next((t.detail for t in told), "")
    has_failed = any(n.what == "pod-ended" for n in facts.case.of(Note))  # a controller says which pod did
    stopped = [e for e in facts.case.of(SchedulerEvent) if e.what == "stopped" and not has_failed]
    for says, found in (
        (say("trouble.abort-stuck", ranks=Ranks(e.rank for e in stuck if e.rank is not None)), stuck),
        (say("trouble.aborted"), _without_lost_peers(facts, ended)),
        (say("trouble.rendezvous-closed"), closed_after_an_attempt(facts)),
        (say("trouble.exception-cut"), _without_lost_peers(facts, _cut_tracebacks(facts))),
        (say("trouble.agent-lost"), [e for e in facts.case.of(RendezvousError) if e.what == "store-lost"]),
        (say(_SIGNALS.get(signal, "trouble.outside-signal"), signal=signal), told),
        (say("trouble.rendezvous-lost"), list(facts.case.of(RendezvousError)) if had_workers else []),
        (_broken_connection(facts), _unexplained_breaks(facts)),
        (say("trouble.peer-lost", ranks=Ranks(t.rank for t in lost if t.rank is not None)), lost),
        (say("trouble.cancelled"), [e for e in facts.case.of(SchedulerEvent) if e.what == "cancelled"]),
        (say("trouble.pod-stopped"), stopped),
        (say("trouble.job-failed"), [e for e in facts.case.of(SchedulerEvent) if e.what == "failed"]),
        (
            say("trouble.nccl-failed"),
            [e for e in facts.case.events[-1:] if isinstance(e, Note) and e.what == "nccl-trail"],
        ),
        lost_store(facts),
    ):
        if found:
            lines: list[Event] = [*found[:MOST]]
            return says, [Line(e, sentence(says)) for e in lines]
    return "", []


_SIGNALS = {"SIGHUP": "trouble.terminal-closed", "SIGINT": "trouble.interrupted"}


def _unexplained_breaks(facts: Facts) -> list[SocketError]:
    """Returns what says that a connection broke. Nothing where ranks had waited until their limit before: their end explains it."""
    return list(facts.case.of(SocketError)) if has_connection_broken_first(facts) else []


def _without_lost_peers(facts: Facts, ends: Sequence[_E]) -> list[_E]:
    """The ends that follow no broken connection, as their own line or one further up in the file would say.

    Example: the watchdog of rank 1 ends it with *remote process exited or there was a network error*. The C++ runtime says that it
    ends the process a line before it says why.
    """
    if not ends:
        return []
    told = [t for t in facts.case.of(TearDown) if LOST_PEER in t.detail]
    own, above = {id(t) for t in told}, {(t.place.source, t.rank, (t.place.line or 0) - 1) for t in told}
    broken = first_lines(_unexplained_breaks(facts))

    def is_of_lost_peer(event: _E) -> bool:
        source, line = event.place.source, event.place.line or 0
        return id(event) in own or (source, event.rank, line) in above or broken.get(source, line) < line

    return [event for event in ends if not is_of_lost_peer(event)]


def _broken_connection(facts: Facts) -> str:
    host, _ = closed_by(facts)
    if host:
        return say("trouble.closed-from", host=host)
    errors = list(facts.case.of(SocketError))
    first = next((e for e in errors if e.rank is None and e.host and e.pid is not None), None)
    if first is None:
        ends = {(e.peer.removeprefix("localRank "), e.host) for e in errors if e.peer and "localRank" in e.peer}
        end = ends.pop() if len(ends) == 1 else (None, None)
        return say("trouble.connection-broke", local=end[0], host=end[1], failed=all(e.how == "other" for e in errors))
    never = first.how in ("unreachable", "refused", "setup")
    return say(
        "trouble.connection-met",
        never=never,
        host=first.host,
        pid=first.pid,
        message=repr(essentials(first.message)[1][:80]),
    )


def is_end_of_log(facts: Facts, event: Event) -> bool:
    """True of the last line of a file of one rank alone. Of many writers, a line of the rank that no parser reads may follow."""
    source = event.place.source
    is_own = any(s.id == source and s.rank is not None and s.rank == event.rank for s in facts.case.sources)
    return is_own and any(r.source == source and (event.place.line or 0) >= r.lines for r in facts.case.readings)


def closed_after_an_attempt(facts: Facts) -> list[RendezvousError]:
    """Returns what says that the rendezvous was closed, where an earlier attempt had run behind it."""
    had_run = any(gap.is_of_other_run for gap in facts.case.gaps)
    return [e for e in facts.case.of(RendezvousError) if e.what == "closed"] if had_run else []


def _cut_tracebacks(facts: Facts) -> list[ExceptionRaised]:
    """Returns the tracebacks of ranks that end before their exceptions.

    One that was caught and logged counts only as the last event, and none where an error with a name stands above it in the same file.
    """
    case = facts.case
    first_named = first_lines((*case.of(NcclError), *(e for e in case.of(ExceptionRaised) if e.type)))
    cut = (e for e in case.of(ExceptionRaised) if has_lost_its_end(e) and (not e.logged or e is case.events[-1]))
    return [e for e in cut if (e.place.line or 0) <= first_named.get(e.place.source, sys.maxsize)]


def has_lost_its_end(event: ExceptionRaised) -> bool:
    """True when no exception stands below the frames of a traceback."""
    return not event.type and event.origin != "echo"


def closed_by(facts: Facts) -> tuple[str, list[SocketError]]:
    """The one host that closed connections, with the lines that say so; "" where lines of that host complain too.

    The loopback address names no host.
    """
    errors = (e for e in facts.case.of(SocketError) if e.how in ("closed", "reset"))
    broken = [e for e in errors if e.peer and "localRank" not in e.peer]
    names_of = {e.address.split("<")[0]: e.host for e in facts.case.of(CommInit) if e.address and e.host}
    ends = {host_key(host): host for e in broken if e.peer and (host := names_of.get(e.peer) or e.peer)}
    complaining = {host_key(e.host) for e in broken if e.host}
    left = [host for key, host in ends.items() if key not in complaining and not is_loopback(host)]
    if len(left) != 1:
        return "", []
    return left[0], [e for e in broken if e.peer and (names_of.get(e.peer) or e.peer) == left[0]]


def lost_store(facts: Facts) -> tuple[str, list[StoreError]]:
    """What to say of a store that ranks lost, with their lines; "" where nobody lost it.

    Nothing either where NCCL reports an error that no lost peer causes: it tells more.
    """
    lost = [e for e in facts.case.of(StoreError) if e.operation in ("recv", "send")]
    if not lost or any(e.code in _OF_OWN for e in facts.case.of(NcclError)):
        return "", []
    ranks = Ranks(e.rank for e in lost if e.rank is not None)
    address = next((e.address for e in lost if e.address), None)
    return say("trouble.store-lost", ranks=ranks, address=address), lost
