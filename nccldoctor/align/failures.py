"""Failures that can start a stall: what ended a rank, a device, a link or a host before anybody complained.

Effects are not causes: the abort of a rank's own watchdog, a connection closed by a peer, and the signals with which a launcher tears a
job down are left out here; rules show them as consequences.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from nccldoctor.align.exits import (
    can_precede_alarm,
    fatal_exceptions,
    has_aborted_after,
    is_fatal_cuda_error,
    is_own_exit,
    was_killed,
)
from nccldoctor.align.liveness import Liveness, RankActivity
from nccldoctor.events import (
    CommInit,
    CudaError,
    Event,
    ExceptionRaised,
    GpuError,
    IbError,
    KernelEvent,
    OutOfMemory,
    ProcessExit,
    RasStatus,
    SchedulerEvent,
    SocketError,
)
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass
from nccldoctor.model.hosts import endpoint_address, short_host
from nccldoctor.model.ranks import Ranks

WORKER = "DataLoader worker"
TRAINING = frozenset({"python", "python3", "pt_data_worker", WORKER})
"""Names of processes that the out-of-memory killer may have taken from the job itself."""

NOTICED = frozenset({"ray", "vllm"})
"""Parents that see a process gone and do not learn how it ended."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something broke: ``ranks`` are known to be hit, ``suspects`` may be (a whole host where no rank is named).

    ``when`` is on the job's clock (NaN: unknown); ``events`` show it, the telling one first; ``certain`` is false where the
    event could also follow from the tear-down.
    """

    cause: CauseClass
    ranks: Ranks
    events: tuple[Event, ...]
    when: float
    suspects: Ranks = Ranks()
    certain: bool = True


def failures(case: Case, presence: Liveness) -> tuple[Failure, ...]:
    """All failures that can be a cause, hardware first, then network, exceptions and deaths; earliest first within each."""
    found = [
        *_hardware(case, presence),
        *_network(case, presence),
        *_raised(case, presence),
        *_died(case, presence),
    ]
    order = {c: i for i, c in enumerate((CauseClass.HARDWARE, CauseClass.NETWORK, CauseClass.RAISED, CauseClass.DIED))}
    found.sort(
        key=lambda f: (order[f.cause], math.inf if math.isnan(f.when) else f.when, str(f.ranks), str(f.events[0].place))
    )
    return tuple(found)


def _on_host(case: Case, host: str | None) -> Ranks:
    return Ranks(r for r, h in case.rank_host.items() if host is not None and h == host)


def _hardware(case: Case, presence: Liveness) -> Iterator[Failure]:
    """Device errors that no faulty program causes."""
    board: dict[str, list[Event]] = {}
    for event in case.of(GpuError):
        if not event.software and event.weight == "fault" and can_precede_alarm(presence, event):
            board.setdefault(str(event.rank if event.rank is not None else (event.host, event.device)), []).append(
                event
            )
    for cuda in case.of(CudaError):
        if not cuda.software and can_precede_alarm(presence, cuda):
            board.setdefault(str(cuda.rank if cuda.rank is not None else (cuda.host, cuda.pid)), []).append(cuda)
    for events in board.values():
        first = events[0]
        ranks = Ranks([first.rank] if first.rank is not None else [])
        suspects = Ranks() if ranks else _on_host(case, first.host)
        if len(suspects) == 1:
            ranks, suspects = suspects, Ranks()
        yield Failure(CauseClass.HARDWARE, ranks, tuple(events), presence.time(first), suspects)


def _network(case: Case, presence: Liveness) -> Iterator[Failure]:
    """Transport errors that are no echo of a dead peer; the end with the port error, else both ends."""
    ports = [e for e in case.of(IbError) if e.what in ("async", "port") and can_precede_alarm(presence, e)]
    links = [e for e in case.of(KernelEvent) if e.what == "link-down" and can_precede_alarm(presence, e)]
    broken = [e for e in case.of(IbError) if e.what in ("completion", "setup", "fabric") and not e.is_flush]
    socket = [e for e in case.of(SocketError) if not e.echo]
    if not (ports or broken or links or socket):
        return
    if not (broken or ports or socket) and links:
        hosts = sorted({e.host for e in links if e.host})
        if len(hosts) == 1:
            yield Failure(
                CauseClass.NETWORK,
                Ranks(),
                tuple(links),
                presence.time(links[0]),
                _on_host(case, hosts[0]),
                certain=False,
            )
        return
    at_port = Ranks(e.rank for e in ports if e.rank is not None)
    reporters = Ranks(e.rank for e in (*broken, *socket) if e.rank is not None)
    host_of_links = {e.host for e in links if e.host}
    if not at_port and host_of_links and reporters:
        at_port = Ranks(r for r in reporters if case.rank_host.get(r) in host_of_links)
    events: tuple[Event, ...] = (*ports, *links, *broken, *socket)
    ranks = at_port or reporters
    peers = Ranks() if at_port else _peer_ranks(case, (*broken, *socket)) - reporters
    yield Failure(CauseClass.NETWORK, ranks, events, presence.time(events[0]), peers, certain=bool(broken or ports))


def _peer_ranks(case: Case, events: tuple[Event, ...]) -> Ranks:
    """Ranks at the addresses that errors name, by the addresses that bootstrap lines tell."""
    at: dict[str, set[str]] = {}
    for init in case.of(CommInit):
        if init.address and init.host:
            at.setdefault(endpoint_address(init.address), set()).add(short_host(init.host))
    out: set[int] = set()
    for event in events:
        peer = getattr(event, "peer", None)
        for host in at.get(endpoint_address(peer), ()) if peer else ():
            out |= _on_host(case, host)
    return Ranks(out)


def _raised(case: Case, presence: Liveness) -> Iterator[Failure]:
    """Exceptions of a rank's own work that it did not outlive, or that nobody preceded, and what CUDA refuses to a faulty program."""
    candidates: list[tuple[int, ExceptionRaised | CudaError]] = [
        (r, e) for r, s in sorted(presence.by_rank.items()) for e in fatal_exceptions(presence, s)
    ]
    nameless = [e for e in case.of(ExceptionRaised) if e.rank is None and e.origin == "own"]
    candidates += [(-1, e) for e in nameless if not e.logged or has_aborted_after(case, e)]
    candidates += [
        (-1 if e.rank is None else e.rank, e) for e in case.of(CudaError) if is_fatal_cuda_error(presence, e)
    ]
    firsts: dict[int, ExceptionRaised | CudaError] = {}
    for rank, event in candidates:
        if can_precede_alarm(presence, event):
            firsts.setdefault(rank, event)
    told: dict[int, ExceptionRaised | CudaError | OutOfMemory] = {**firsts}
    if presence.first_alarm is not None and -1 not in told:
        told.update((-1, e) for e in _bare(case) if can_precede_alarm(presence, e))
    for rank, cause in told.items():
        logged = isinstance(cause, ExceptionRaised) and cause.logged
        yield Failure(
            CauseClass.RAISED, Ranks([rank] if rank >= 0 else []), (cause,), presence.time(cause), certain=not logged
        )


def _bare(case: Case) -> list[OutOfMemory]:
    """The first word of a full board that stands alone: who wrote it is not known, and neither is what it belongs to."""
    told = {(e.place.source, e.place.line) for e in case.of(ExceptionRaised)}
    words = (e for e in case.of(OutOfMemory) if e.rank is None and e.scope == "device")
    return [e for e in words if (e.place.source, e.place.line) not in told][:1]


def _died(case: Case, presence: Liveness) -> Iterator[Failure]:
    """Ends that the tear-down did not cause: kills, crashes, early exits, lost nodes."""
    starved: dict[int | None, list[OutOfMemory]] = defaultdict(list)
    for event in case.of(OutOfMemory):
        if event.scope == "host":
            starved[event.rank].append(event)
    for rank, signs in sorted(presence.by_rank.items()):
        exit_ = next((e for e in signs.exits if is_own_exit(case, presence, signs, e)), None)
        memory = starved.get(rank)
        if memory:
            events: tuple[Event, ...] = (*memory, *((exit_,) if exit_ else ()))
            yield Failure(CauseClass.DIED, Ranks([rank]), events, presence.time(memory[0]))
        elif exit_ is not None:
            yield Failure(CauseClass.DIED, Ranks([rank]), (exit_,), presence.time(exit_), certain=exit_.exitcode != 1)
    raised = any("DataLoader worker" in e.message for e in case.of(ExceptionRaised))  # then its rank is known by that
    for event in starved.get(None, []):
        if (
            event.process in TRAINING
            and can_precede_alarm(presence, event)
            and not (raised and event.process == WORKER)
        ):
            near = _on_host(case, event.host)
            yield Failure(CauseClass.DIED, Ranks(), (event,), presence.time(event), near, certain=False)
    for told_of in case.of(ProcessExit):
        if told_of.rank is None and was_killed(told_of) and is_own_exit(case, presence, RankActivity(-1), told_of):
            yield Failure(CauseClass.DIED, Ranks(), (told_of,), presence.time(told_of))
    yield from _dead(case, presence)
    yield from _unsaid(case, presence)
    for told in case.of(SchedulerEvent):
        if told.what == "time-limit" and can_precede_alarm(presence, told):
            yield Failure(CauseClass.DIED, Ranks(), (told,), presence.time(told), certain=False)
        if told.what == "node-failure" or (told.what in ("preempted", "evicted") and can_precede_alarm(presence, told)):
            host = told.host or next(iter(re.findall(r" on ([\w.-]{1,64})", told.detail)), None)
            ranks = Ranks([told.rank]) if told.rank is not None else _on_host(case, host) or _hostless(case, told)
            yield Failure(CauseClass.DIED, ranks, (told,), presence.time(told), certain=bool(ranks))


def _dead(case: Case, presence: Liveness) -> Iterator[Failure]:
    """Processes that RAS gave up on: it cannot tell an end from a stopped process or a lost host, and says so after a minute or more,
    when a job that aborts itself has left by its own hand.
    """
    told: dict[int | tuple[str | None, int | None], RasStatus] = {}
    for event in case.of(RasStatus):
        if event.what == "DEAD" and (event.rank is not None or event.pid is not None):
            told.setdefault(event.rank if event.rank is not None else (event.host, event.pid), event)
    for event in told.values():
        signs = presence.activity(event.rank) if event.rank is not None else RankActivity(-1)
        left = (
            signs.alarms
            or signs.secondary_errors
            or signs.teardown
            or signs.exits
            or signs.has_finished
            or signs.own_exceptions
        )
        if not left and can_precede_alarm(presence, event):
            ranks = Ranks([event.rank] if event.rank is not None else [])
            near = Ranks() if ranks else _on_host(case, event.host)
            yield Failure(CauseClass.DIED, ranks, (event,), presence.time(event), near, certain=False)


def _unsaid(case: Case, presence: Liveness) -> Iterator[Failure]:
    """Ends that a parent merely noticed, where no rank complained of anything: an abort after a complaint is none of its own."""
    if presence.first_alarm is not None and not isinstance(presence.first_alarm, ExceptionRaised):
        return
    for event in case.of(ProcessExit):
        if event.exitcode is None and event.signal is None and event.reporter in NOTICED:
            ranks = Ranks([event.rank] if event.rank is not None else [])
            yield Failure(CauseClass.DIED, ranks, (event,), presence.time(event), certain=False)


def _hostless(case: Case, event: SchedulerEvent) -> Ranks:
    """The ranks of a failed node that nothing else names: those without a host, where all other ranks have one."""
    without = case.world - case.rank_host
    return without if event.what == "node-failure" and 0 < len(without) < len(case.world) else Ranks()
