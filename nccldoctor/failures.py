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

from nccldoctor.case import Case
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
    SchedulerEvent,
    SocketError,
    TearDown,
)
from nccldoctor.model import CauseClass
from nccldoctor.presence import Presence, Signs
from nccldoctor.ranks import Ranks

SLACK = 5.0
"""Seconds by which a line may follow the first complaint and still be its cause: launchers print whole seconds, hosts differ."""

CLOSING = frozenset({-15, 143, -2, 130, -1, 129})
"""Exit codes with which launchers close siblings."""

FATAL = {
    -9: "SIGKILL",
    -11: "SIGSEGV",
    -7: "SIGBUS",
    -4: "SIGILL",
    -8: "SIGFPE",
    -31: "SIGSYS",
    -5: "SIGTRAP",
    -3: "SIGQUIT",
}
"""Signals that no tear-down of a watchdog sends; 128 + n means the same through a shell."""

FLUSH = 5
"""The completion status that only follows another error of the same queue pair (rdma-core, ibv_wc_status)."""


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


def failures(case: Case, presence: Presence) -> tuple[Failure, ...]:
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


def before_alarm(presence: Presence, event: Event) -> bool:
    """Whether an event can precede the first complaint; true where either has no time."""
    when, alarm = presence.time(event), presence.first_alarm
    signs = presence.signs(event.rank) if event.rank is not None else None
    if math.isnan(when) and signs is not None:
        own = [e.place.line or 0 for e in (*signs.alarms, *signs.answered) if e.place.source == event.place.source]
        if own and (event.place.line or 0) > min(own):
            return False
    if math.isnan(when) and alarm is not None and alarm.place.source == event.place.source:
        return (event.place.line or 0) < (alarm.place.line or 0)
    return math.isnan(when) or math.isnan(presence.alarm) or when <= presence.alarm + SLACK


def _on_host(case: Case, host: str | None) -> Ranks:
    return Ranks(r for r, h in case.rank_host.items() if host is not None and h == host)


def _hardware(case: Case, presence: Presence) -> Iterator[Failure]:
    """Device errors that no faulty program causes."""
    board: dict[str, list[Event]] = {}
    for event in case.of(GpuError):
        if not event.software and event.weight == "fault" and before_alarm(presence, event):
            board.setdefault(str(event.rank if event.rank is not None else (event.host, event.device)), []).append(
                event
            )
    for cuda in case.of(CudaError):
        if not cuda.software and cuda.rank is not None and before_alarm(presence, cuda):
            board.setdefault(str(cuda.rank), []).append(cuda)
    for events in board.values():
        first = events[0]
        ranks = Ranks([first.rank] if first.rank is not None else [])
        suspects = Ranks() if ranks else _on_host(case, first.host)
        if len(suspects) == 1:
            ranks, suspects = suspects, Ranks()
        yield Failure(CauseClass.HARDWARE, ranks, tuple(events), presence.time(first), suspects)


def _network(case: Case, presence: Presence) -> Iterator[Failure]:
    """Transport errors that are no echo of a dead peer; the end with the port error, else both ends."""
    ports = [e for e in case.of(IbError) if e.what in ("async", "port") and before_alarm(presence, e)]
    links = [e for e in case.of(KernelEvent) if e.what == "link-down" and before_alarm(presence, e)]
    broken = [e for e in case.of(IbError) if e.what in ("completion", "setup", "fabric") and e.status != FLUSH]
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
    address: dict[str, set[str]] = {}
    for init in case.of(CommInit):
        if init.address and init.host:
            address.setdefault(_ip(init.address), set()).add(init.host.split(".", 1)[0])
    out: set[int] = set()
    for event in events:
        peer = getattr(event, "peer", None)
        for host in address.get(_ip(peer), ()) if peer else ():
            out |= _on_host(case, host)
    return Ranks(out)


def _ip(address: str) -> str:
    return address.split("<", 1)[0].strip().removeprefix("[").split("]", 1)[0]


def _raised(case: Case, presence: Presence) -> Iterator[Failure]:
    """Exceptions of a rank's own work that it did not outlive, or that nobody preceded."""
    candidates = [(r, e) for r, s in sorted(presence.of.items()) for e in _lethal(presence, s)]
    candidates += [(-1, e) for e in case.of(ExceptionRaised) if e.rank is None and e.origin == "own" and not e.logged]
    firsts: dict[int, ExceptionRaised] = {}
    for rank, event in candidates:
        if before_alarm(presence, event):
            firsts.setdefault(rank, event)
    for rank, event in firsts.items():
        yield Failure(
            CauseClass.RAISED,
            Ranks([rank] if rank >= 0 else []),
            (event,),
            presence.time(event),
            certain=not event.logged,
        )


def _lethal(presence: Presence, signs: Signs) -> list[ExceptionRaised]:
    """Own exceptions after which the rank made no more steps; a library's warning with a traceback is not one."""
    step = signs.step_event
    out = []
    for event in signs.own:
        later = (
            step is not None
            and step.place.source == event.place.source
            and (step.place.line or 0) > (event.place.line or 0)
        )
        if later and event.logged:
            continue
        if later and step is not None and presence.time(step) > presence.time(event) + SLACK:
            continue
        out.append(event)
    return out


def _died(case: Case, presence: Presence) -> Iterator[Failure]:
    """Ends that the tear-down did not cause: kills, crashes, early exits, lost nodes."""
    starved: dict[int | None, list[OutOfMemory]] = defaultdict(list)
    for event in case.of(OutOfMemory):
        if event.scope == "host":
            starved[event.rank].append(event)
    for rank, signs in sorted(presence.of.items()):
        exit_ = next((e for e in signs.exits if _own_end(case, presence, signs, e)), None)
        memory = starved.get(rank)
        if memory:
            events: tuple[Event, ...] = (*memory, *((exit_,) if exit_ else ()))
            yield Failure(CauseClass.DIED, Ranks([rank]), events, presence.time(memory[0]))
        elif exit_ is not None:
            yield Failure(CauseClass.DIED, Ranks([rank]), (exit_,), presence.time(exit_), certain=exit_.exitcode != 1)
    for told in case.of(SchedulerEvent):
        if told.what == "node-failure" or (told.what in ("preempted", "evicted") and before_alarm(presence, told)):
            host = told.host or next(iter(re.findall(r" on ([\w.-]{1,64})", told.detail)), None)
            ranks = Ranks([told.rank]) if told.rank is not None else _on_host(case, host) or _hostless(case, told)
            yield Failure(CauseClass.DIED, ranks, (told,), presence.time(told), certain=bool(ranks))


def _hostless(case: Case, event: SchedulerEvent) -> Ranks:
    """The ranks of a failed node that nothing else names: those without a host, where all other ranks have one."""
    without = case.world - case.rank_host
    return without if event.what == "node-failure" and 0 < len(without) < len(case.world) else Ranks()


def _own_end(case: Case, presence: Presence, signs: Signs, event: ProcessExit) -> bool:
    """Whether an exit is the rank's own end and not part of the tear-down."""
    code = event.exitcode
    if "Out Of Memory" in event.text:
        return True
    if code is None:
        named = (event.signal or "").upper()
        code = {name: number for number, name in FATAL.items()}.get(named)
        if code is None:
            return False
    if code > 128:
        code = 128 - code
    if code in CLOSING or code == 0 or not before_alarm(presence, event):
        return False
    if signs.own or signs.alarms or signs.echoes or _after_cancel(case, event):
        return False
    if code == -6:
        return not any(isinstance(t, TearDown) for t in signs.teardown) and signs.logged and math.isnan(presence.alarm)
    if code == -9 and _forced(case, event):
        return False
    if code in FATAL:
        return True
    return code > 0 and (event.first or math.isnan(presence.alarm)) and signs.dump != "good"


def _after_cancel(case: Case, event: ProcessExit) -> bool:
    """Whether Slurm had already cancelled the step when it reported this end."""
    return any(
        e.what == "cancelled" and e.place.source == event.place.source and (e.place.line or 0) < (event.place.line or 0)
        for e in case.of(SchedulerEvent)
    )


def _forced(case: Case, event: ProcessExit) -> bool:
    """Whether the launcher itself killed the process after its closing signal was not obeyed."""
    return any(t.what == "forced-kill" and t.pid in (None, event.pid) for t in case.of(TearDown)) and not event.first
