"""Collects the failures of ranks, devices, links and hosts that can start a stall.

Effects are not causes. The abort of a rank's own watchdog, a connection closed by a peer, and the signals with which a launcher
tears a job down are left out here; rules show them as consequences.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.exits import (
    SLACK,
    can_precede_alarm,
    fatal_exceptions,
    has_aborted_after,
    has_ended_badly,
    has_gone_on_after,
    is_fatal_cuda_error,
    is_own_exit,
    was_killed,
)
from nccldoctor.align.liveness import Liveness, RankActivity
from nccldoctor.align.world.hosts import Hosts, ranks_in_slot, slots_of_hosts
from nccldoctor.events import (
    AbsenceReport,
    CommInit,
    CudaError,
    Event,
    ExceptionRaised,
    GpuError,
    IbError,
    KernelEvent,
    NcclError,
    OutOfMemory,
    Phase,
    ProcessExit,
    Progress,
    RasStatus,
    RendezvousError,
    SchedulerEvent,
    SocketError,
    Stack,
)
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass
from nccldoctor.model.hosts import endpoint_address, short_host
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import failed_node, is_host_full, is_loader_worker_error
from nccldoctor.parsers.python.secondary_exceptions import is_about_other_end

WORKER = "DataLoader worker"
TRAINING = frozenset({"python", "python3", "pt_data_worker", WORKER})
"""Names of processes that the out-of-memory killer may have taken from the job itself."""

NOTICED = frozenset({"ray", "vllm", "sglang", "jax", "hccl", "mindspore", "msrun", "nvrx"})
"""Parents that see a process gone and do not learn how it ended."""


class Failure(Struct, frozen=True):
    """Something that broke.

    ``ranks`` are known to be hit; ``suspects`` may be (all ranks of a host where no rank is named). ``when`` is in seconds on the
    job's clock (NaN: unknown). ``events`` show the failure, the most telling one first. ``certain`` is false where the event could
    also follow from the tear-down. ``derived``: the ranks follow from the slots of the GPUs of other hosts.
    """

    cause: CauseClass
    ranks: Ranks
    events: tuple[Event, ...]
    when: float
    suspects: Ranks = Ranks()
    certain: bool = True
    derived: bool = False


def failures(case: Case, liveness: Liveness, hosts: Hosts) -> tuple[Failure, ...]:
    """All failures that can be a cause: hardware, then network, exceptions and deaths; earliest first within each.

    What follows the scheduler's word that it takes the job or a node away is no cause, nor is a connection that broke, or an
    answer that never came, where a killed process is on record.
    """
    ordered: list[Failure] = []
    stops = [e for e in case.of(SchedulerEvent) if e.is_withdrawal and can_precede_alarm(liveness, e)]
    deaths = tuple(_deaths(case, liveness, hosts))
    found = (
        _hardware(case, liveness, hosts),
        _network(case, liveness, hosts),
        (f for f in _exceptions(case, liveness) if not (_is_of_killed_peer(f, deaths) or _is_of_parent(f, deaths))),
        deaths,
    )
    for of_kind in found:
        ordered += sorted(
            (f for f in of_kind if not _is_behind_any(liveness, f, stops)),
            key=lambda f: (math.inf if math.isnan(f.when) else f.when, str(f.ranks), str(f.events[0].place)),
        )
    return tuple(ordered)


def _is_behind_any(liveness: Liveness, failure: Failure, stops: Sequence[SchedulerEvent]) -> bool:
    """True when a word of the scheduler came before a failure, by line in one file, else by time.

    Example: Slurm preempts the job, and its tasks then end with exit code 1 and by SIGKILL.
    """
    event = failure.events[0]
    if isinstance(event, SchedulerEvent) or failure.cause is CauseClass.HARDWARE:
        return False
    for stop in stops:
        if stop.place.source == event.place.source:
            if (stop.place.line or 0) <= (event.place.line or 0):
                return True
        elif liveness.time(stop) < failure.when:
            return True
    return False


def _is_of_killed_peer(raised: Failure, deaths: Sequence[Failure]) -> bool:
    """True of an exception about a silent or lost partner, where a process of the job was killed before.

    Example: rank 5 is killed by SIGKILL, and ranks 2 and 3 raise ``ConnectionResetError`` or ``TimeoutError``. A scheduler notices the end
    of a node late.
    """
    error = raised.events[0]
    if not (isinstance(error, ExceptionRaised) and is_about_other_end(error.type, error.message)):
        return False
    return any(
        _is_sudden_end(end)
        and not raised.ranks & death.ranks
        and (not death.when > raised.when + SLACK or (isinstance(end, SchedulerEvent) and end.what == "node-failure"))
        for death, end in ((death, death.events[0]) for death in deaths)
    )


def _is_of_parent(raised: Failure, deaths: Sequence[Failure]) -> bool:
    """True of an exception without a rank, below the line in which a parent noticed the loss of one."""
    ends = [death.events[0] for death in deaths if death.ranks and not raised.ranks]
    noticed = (end for end in ends if isinstance(end, ProcessExit) and end.reporter in NOTICED)
    return any(raised.events[0].place.is_below(end.place) for end in noticed)


def _is_sudden_end(event: Event) -> bool:
    """True of an end that leaves a process no time to close its connections."""
    if isinstance(event, SchedulerEvent):
        return event.what in ("node-failure", "oom", "preempted", "evicted")
    return isinstance(event, OutOfMemory) or (isinstance(event, ProcessExit) and was_killed(event))


def _failure(
    liveness: Liveness,
    cause: CauseClass,
    *events: Event,
    ranks: Ranks | None = None,
    suspects: Ranks = Ranks(),
    certain: bool = True,
) -> Failure:
    """A failure at the time of its first event, and of that event's rank unless ``ranks`` are given."""
    first = events[0]
    hit = ranks if ranks is not None else Ranks([first.rank] if first.rank is not None else [])
    return Failure(cause, hit, events, liveness.time(first), suspects, certain)


def _hardware(case: Case, liveness: Liveness, hosts: Hosts) -> Iterator[Failure]:
    """Device errors that no faulty program causes."""
    by_device: dict[str, list[Event]] = defaultdict(list)
    if _is_every_rank_done(case, liveness):
        return
    for gpu in case.of(GpuError):
        if gpu.is_of_board and can_precede_alarm(liveness, gpu):
            by_device[str(gpu.rank if gpu.rank is not None else (gpu.host, gpu.device))].append(gpu)
    for cuda in case.of(CudaError):
        is_of_board = not (cuda.software or cuda.topic or has_gone_on_after(liveness, cuda))
        if is_of_board and can_precede_alarm(liveness, cuda):
            by_device[str(cuda.rank if cuda.rank is not None else (cuda.host, cuda.pid))].append(cuda)
    slots = slots_of_hosts(case, hosts) if by_device else {}
    for events in _with_own_words(liveness, case, list(by_device.values())):
        first = events[0]
        near = hosts.on(first.host) if first.rank is None else Ranks()
        in_slot = ranks_in_slot(case, hosts, slots, first) if first.rank is None else Ranks()
        # a host of which only one rank is known may run others
        hit = in_slot or (near if len(near) == 1 and near in hosts.blocks else Ranks())
        suspects = Ranks() if hit else near
        found = _failure(liveness, CauseClass.HARDWARE, *events, ranks=hit or None, suspects=suspects)
        yield replace(found, derived=bool(in_slot))


def _with_own_words(liveness: Liveness, case: Case, boards: Sequence[list[Event]]) -> Iterator[list[Event]]:
    """The errors of each board. One that only a kernel tells joins that of the one rank that met it.

    Example: the kernel of a host reports Xid 94, and in the same second rank 3, which may run there, an uncorrectable ECC error.
    """
    nameless = [events for events in boards if events[0].rank is None]
    told = [events for events in boards if events[0].rank is not None]
    for events in nameless:
        first = events[0]
        near = [own for own in told if abs(liveness.time(own[0]) - liveness.time(first)) <= SLACK]
        near = [own for own in near if case.rank_host.get(own[0].rank or 0, first.host) == first.host]
        met = [own for own in near if isinstance(own[0], CudaError)]
        if len(met) == 1 and sum(other[0].host == first.host for other in nameless) == 1:
            told.remove(met[0])
            told.append([*met[0], *events])
        else:
            yield events
    yield from told


def _network(case: Case, liveness: Liveness, hosts: Hosts) -> Iterator[Failure]:
    """Transport errors that are no echo of a dead peer.

    The end whose port or adapter failed is hit, else both ends. Rank 5 reports a completion error and the kernel of its host a link that
    went down: rank 5 is hit, and its peer is not even a suspect.
    """
    ports = [e for e in case.of(IbError) if e.is_of_own_end and can_precede_alarm(liveness, e)]
    ports = [e for e in ports if e.what != "async" or not has_gone_on_after(liveness, e)]  # no queue that is dead
    links = [e for e in case.of(KernelEvent) if e.what == "link-down" and can_precede_alarm(liveness, e)]
    felt = (e for e in case.of(IbError) if e.what in ("completion", "setup", "fabric", "refused") and not e.is_flush)
    broken = [e for e in felt if not has_gone_on_after(liveness, e)]
    sockets = [e for e in case.of(SocketError) if not e.echo and not has_gone_on_after(liveness, e)]
    down = {e.host for e in links if e.host}
    if not (broken or ports or sockets):
        if down:
            near = Ranks(r for host in down for r in hosts.on(host))
            yield _failure(liveness, CauseClass.NETWORK, *links, ranks=Ranks(), suspects=near, certain=False)
        return
    at_port = Ranks(e.rank for e in ports if e.rank is not None)
    reporters = Ranks(e.rank for e in (*broken, *sockets) if e.rank is not None)
    at_port = at_port or reporters & (r for host in down for r in hosts.on(host))
    events = (*ports, *links, *broken, *sockets)
    peers = Ranks() if at_port else _peer_ranks(case, hosts, (*broken, *sockets)) - reporters
    certain = bool(broken or ports)
    yield _failure(liveness, CauseClass.NETWORK, *events, ranks=at_port or reporters, suspects=peers, certain=certain)


def _peer_ranks(case: Case, hosts: Hosts, events: tuple[IbError | SocketError, ...]) -> Ranks:
    """The ranks on the hosts whose addresses the errors name; bootstrap lines tie addresses to hosts."""
    at: dict[str, set[str]] = defaultdict(set)
    for init in case.of(CommInit):
        if init.address and init.host:
            at[endpoint_address(init.address)].add(short_host(init.host))
    peers = (event.peer for event in events)
    return Ranks(r for peer in peers if peer for host in at.get(endpoint_address(peer), ()) for r in hosts.on(host))


def _exceptions(case: Case, liveness: Liveness) -> Iterator[Failure]:
    """The first exception of each rank that can be a cause. It ended the rank's work, or is a faulty program's CUDA error."""
    newest = max((a.step for a in liveness.by_rank.values() if a.step is not None), default=-1)
    candidates: list[ExceptionRaised | CudaError] = [
        e
        for _, activity in sorted(liveness.by_rank.items())
        for e in fatal_exceptions(liveness, activity)
        if e.is_uncaught
        or liveness.first_alarm is not None
        or has_ended_badly(activity)
        or (activity.step is not None and activity.step < newest)
    ]
    nameless = [e for e in case.of(ExceptionRaised) if e.rank is None and e.origin == "own"]
    candidates += [e for e in nameless if not e.logged or has_aborted_after(case, e)]
    refused = {e.message for e in case.of(CudaError) if e.topic}  # NCCL prints it again as its last error
    candidates += [e for e in case.of(CudaError) if e.message not in refused and is_fatal_cuda_error(liveness, e)]
    firsts: dict[int | None, ExceptionRaised | CudaError | OutOfMemory] = {}
    for event in candidates:
        if can_precede_alarm(liveness, event):
            firsts.setdefault(event.rank, event)
    if liveness.first_alarm is not None and None not in firsts:
        # the first out-of-memory line of a device that belongs to no exception and names no rank
        raised = {(e.place.source, e.place.line) for e in case.of(ExceptionRaised)}
        full = (e for e in case.of(OutOfMemory) if e.rank is None and e.scope == "device")
        own = [e for e in full if (e.place.source, e.place.line) not in raised][:1]
        firsts.update((None, e) for e in own if can_precede_alarm(liveness, e))
    for cause in firsts.values():
        was_caught = isinstance(cause, ExceptionRaised) and not cause.is_uncaught
        yield _failure(liveness, CauseClass.RAISED, cause, certain=not was_caught)


def _is_raised_by_rank(liveness: Liveness, event: OutOfMemory) -> bool:
    """True when a line about full memory belongs to an exception of the rank: nobody killed it."""
    if event.rank is None or event.process is not None:
        return False
    errors = liveness.activity(event.rank).own_exceptions
    return any(e.type.endswith("MemoryError") or is_host_full(e.message) for e in errors)


def _deaths(case: Case, liveness: Liveness, hosts: Hosts) -> Iterator[Failure]:
    """Ends that the tear-down did not cause: kills, crashes, early exits, lost nodes."""
    starved: dict[int | None, list[OutOfMemory]] = defaultdict(list)
    for event in case.of(OutOfMemory):
        if event.scope == "host" and not _is_raised_by_rank(liveness, event):
            starved[event.rank].append(event)
    for rank, activity in sorted(liveness.by_rank.items()):
        own_exit = next((e for e in activity.exits if is_own_exit(case, liveness, activity, e)), None)
        exits = (own_exit,) if own_exit is not None else ()
        if starved.get(rank) and not activity.dump_replies:
            yield _failure(liveness, CauseClass.DIED, *starved[rank], *exits)
        elif own_exit is not None:
            yield _failure(liveness, CauseClass.DIED, *_with_memory(case, own_exit), certain=own_exit.exitcode != 1)
    raised = any(is_loader_worker_error(e.message) for e in case.of(ExceptionRaised))  # its rank is known by that
    for event in starved.get(None, []):
        is_all = not case.world  # no rank is known: the kill is what the input tells of
        named = (event.process in TRAINING or is_all) and not (raised and event.process == WORKER)
        if named and can_precede_alarm(liveness, event) and not _is_outlived(case, liveness, hosts, event):
            yield _failure(liveness, CauseClass.DIED, event, suspects=hosts.on(event.host), certain=False)
    for end in _ends_without_rank(case, liveness):
        yield _failure(liveness, CauseClass.DIED, *_with_memory(case, end), certain=was_killed(end))
    yield from _dead_by_ras(case, liveness, hosts)
    yield from _silent_exits(case, liveness)
    names_node = any(line.what == "node-failure" and failed_node(line.detail) for line in case.of(SchedulerEvent))
    last_end = max((liveness.time(p) for p in case.of(Phase) if p.what == "finished"), default=math.nan)
    for line in case.of(SchedulerEvent):
        if names_node and line.what == "node-failure" and not failed_node(line.detail):
            continue  # it says again that a node failed, on the first host of the job
        # Slurm says that memory ran out when the step ends, whenever the kill was
        is_told_late = line.what == "oom" and line.by == "slurm" and math.isnan(liveness.time(line))
        may_be_first = is_told_late or can_precede_alarm(liveness, line)
        if line.what in ("time-limit", "oom", "requeue") and line.rank is None and may_be_first:
            near = hosts.on(line.host) if line.what == "oom" else Ranks()
            one = near if len(near) == 1 else Ranks()
            yield _failure(liveness, CauseClass.DIED, line, ranks=one, suspects=near - one, certain=False)
        evicted = line.what in ("preempted", "evicted") and can_precede_alarm(liveness, line)
        is_loss = line.what == "node-failure" or evicted
        if is_loss and not (_is_every_rank_done(case, liveness) and not liveness.time(line) >= last_end):
            ranks = _ranks_of_node(case, hosts, line)
            if line.by == "host" and not any(liveness.activity(r).last <= liveness.time(line) + SLACK for r in ranks):
                continue  # it came up again before the job, or is no host of it
            yield _failure(liveness, CauseClass.DIED, line, ranks=ranks, certain=bool(ranks))


def _is_outlived(case: Case, liveness: Liveness, hosts: Hosts, event: OutOfMemory) -> bool:
    """True when every rank that a nameless kill can be of was looked at afterwards.

    Without the name of its host it can be of any rank; else also of ranks whose host is not known.
    """
    near = hosts.on(event.host) if event.host else case.world
    possible = near | Ranks(rank for rank in case.world if rank not in case.rank_host)
    when = liveness.time(event)
    seen = {stack.rank for stack in case.of(Stack) if stack.main and liveness.time(stack) > when}
    return bool(possible) and seen >= set(possible)


def _is_every_rank_done(case: Case, liveness: Liveness) -> bool:
    """True when every rank of the job finished."""
    return bool(case.world) and all(liveness.activity(rank).has_finished for rank in case.world)


def _with_memory(case: Case, end: ProcessExit) -> tuple[Event, ...]:
    """An end by SIGKILL together with the scheduler's word that memory ran out there, where it says so."""
    if end.signal != "SIGKILL":
        return (end,)
    said = (e for e in case.of(SchedulerEvent) if e.what == "oom" and e.rank in (None, end.rank))
    return (end, *[e for e in said if None in (e.host, end.host) or e.host == end.host][:1])


def _ends_without_rank(case: Case, liveness: Liveness) -> Iterator[ProcessExit]:
    """Kills and crashes that name no rank; exit codes of a local rank where nothing else tells of a failure.

    Where the launcher saw a crash, its word stands for that of the process.
    """
    # the traceback of a launcher, cut before its exception, says nothing
    is_said = any(e.type or e.origin != "echo" for e in case.of(ExceptionRaised))
    is_said |= not isinstance(liveness.first_alarm, ExceptionRaised | None)
    is_said |= any(e.what == "closed" for e in case.of(RendezvousError))
    nameless = (e for e in case.of(ProcessExit) if e.rank is None)
    exits = (e for e in nameless if was_killed(e) or (e.local_rank is not None and not is_said))
    ends = [e for e in exits if is_own_exit(case, liveness, RankActivity(-1), e)]
    seen = {e.signal for e in ends if e.reporter != "process"}
    yield from (e for e in ends if e.reporter != "process" or e.signal not in seen)


def _dead_by_ras(case: Case, liveness: Liveness, hosts: Hosts) -> Iterator[Failure]:
    """Processes that RAS calls dead and that left no other sign of their end.

    RAS cannot tell an end from a stopped process or a lost host. It says so after a minute or more, when the ranks of a job that
    aborts itself have ended on their own.
    """
    first_of: dict[int | tuple[str | None, int | None], RasStatus] = {}
    for event in case.of(RasStatus):
        if event.what == "DEAD" and (event.rank is not None or event.pid is not None):
            first_of.setdefault(event.rank if event.rank is not None else (event.host, event.pid), event)
    for event in first_of.values():
        own = liveness.activity(event.rank) if event.rank is not None else RankActivity(-1)
        complained = own.alarms or own.secondary_errors or own.own_exceptions
        if not (complained or own.teardown or own.exits or own.has_finished) and can_precede_alarm(liveness, event):
            near = Ranks() if event.rank is not None else hosts.on(event.host)
            yield _failure(liveness, CauseClass.DIED, event, suspects=near, certain=False)


def _silent_exits(case: Case, liveness: Liveness) -> Iterator[Failure]:
    """Ends that a parent merely noticed, where no rank had complained of anything but an exception.

    After a complaint, the abort that follows it is no end of the rank's own. An end that a coordinator saw before is one.
    """
    alarm = liveness.first_alarm
    has_complaint = alarm is not None and not isinstance(alarm, ExceptionRaised)
    lost_peers = {e.pid for e in case.of(NcclError) if e.code == "ncclRemoteError"}
    for event in case.of(ProcessExit):
        complaining = {alarm.pid} if event.is_told_at_once and alarm is not None else lost_peers
        if event.exitcode is None and event.signal is None and event.reporter in NOTICED:
            is_known = bool(complaining) and None not in (event.pid, *complaining)
            is_of_other = is_known and event.pid not in complaining
            is_earlier = liveness.time(event) < liveness.alarm - SLACK
            is_other_observer = event.is_heartbeat_loss or isinstance(alarm, AbsenceReport) or is_of_other or is_earlier
            was_before = event.is_told_afterwards or can_precede_alarm(liveness, event)
            if event.is_heartbeat_loss and _has_ended_with_job(liveness, event.rank):
                continue
            if not has_complaint or (is_other_observer and was_before):
                yield _failure(liveness, CauseClass.DIED, event, certain=event.is_heartbeat_loss)


def _has_ended_with_job(liveness: Liveness, rank: int | None) -> bool:
    """True of a rank that finished, where every rank that logged steps or phases finished or reached the last step."""
    logged = [own for r in liveness.logged if (own := liveness.activity(r)).steps or own.phases]
    at_last = [isinstance(own.step_event, Progress) and own.step_event.step == own.step_event.total for own in logged]
    are_done = all(own.has_finished or is_last for own, is_last in zip(logged, at_last, strict=True))
    return rank is not None and liveness.activity(rank).has_finished and are_done


def _ranks_of_node(case: Case, hosts: Hosts, event: SchedulerEvent) -> Ranks:
    """The ranks that a scheduler's line takes down: the one it names, or all of its host.

    Of a failed node that nothing else names, the ranks without a host where all other ranks have one. A notice that a job or a step ends
    is printed on its first host, whichever failed.
    """
    if event.rank is not None:
        return Ranks([event.rank])
    is_notice = event.job is not None
    host = failed_node(event.detail) or (None if is_notice else event.host)
    without = case.world - case.rank_host
    is_rest = event.what == "node-failure" and 0 < len(without) < len(case.world)
    return hosts.on(host) or (without if is_rest else Ranks())
