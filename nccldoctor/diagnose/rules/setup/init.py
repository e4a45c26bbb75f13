"""A communicator, a store or a rendezvous never came up.

What it means: the job hangs before its first collective: a rank did not start, cannot be reached, or waits for another key.
How we know: store and rendezvous errors, or communicators that some ranks started and nobody completed, and no call of that group on
record. Named is who did not join, if the evidence says who did.
What would refute it: a completed call of the same group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from nccldoctor.align.facts import Facts
from nccldoctor.align.health.troubles import waits_at_store
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.world.addresses import wrong_addresses
from nccldoctor.diagnose.citations import Citation, Line, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import show_inside_function
from nccldoctor.diagnose.signs.framework_reports import cite, named_ranks, open_reports
from nccldoctor.diagnose.signs.log_endings import closed_after_an_attempt
from nccldoctor.events import (
    CollectiveTimeout,
    CommInit,
    CudaError,
    Event,
    Heartbeat,
    IbError,
    NcclError,
    NcclWarn,
    Note,
    OutOfMemory,
    Phase,
    Progress,
    RendezvousError,
    SocketError,
    StoreError,
    TearDown,
    WorkStatus,
)
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.hosts import why_unreachable
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import barrier_counts, is_failed_set_up, rank_checked_in_twice, ranks_on_one_gpu
from nccldoctor.words.names import ranks_phrase, verb

REFUTED = "a completed call of the same group"

_WAY = ("init.cc:", "bootstrap.cc:", "init.cu:", "bootstrap.cu:")
"""Where a result code passes when the making of a communicator fails."""


def _missing_at_barrier(events: Sequence[StoreError | Note]) -> tuple[Ranks, int]:
    """Returns the ranks that did not reach the store's barrier, and their number.

    The ranks are empty where the lines do not show all ranks that arrived. Example: lines of ranks 0-2 count 3 of 4
    members: rank 3 is missing.
    """
    counts = [c for e in events if (c := barrier_counts(e.text))]
    if not counts:
        return Ranks(), 0
    size, here = max(members for members, _ in counts), max(arrived for _, arrived in counts)
    came = Ranks(e.rank for e in events if e.rank is not None)
    absent = Ranks(range(size)) - came if len(came) == here and size <= 1 << 20 else Ranks()
    return absent, size - here


def _too_many_at_barrier(events: Sequence[StoreError]) -> str | None:
    """A sentence that more ranks joined the store's barrier than the group has members; None where no line says so."""
    counts = [c for e in events if e.operation == "crowded" and (c := barrier_counts(e.text))]
    if not counts:
        return None
    here, size = max((arrived, members) for members, arrived in counts)
    return f"{here:,} checked in where {size:,} belong, so that another job or an earlier attempt uses the same store"


def _waits_at_store(facts: Facts) -> Hypothesis | None:
    """The last lines say that ranks wait for others at the store: set-up that was cut off, or hangs."""
    waiting = waits_at_store(facts.case)
    absent, missing = _missing_at_barrier(waiting)
    if not missing or facts.failures or facts.liveness.first_alarm is not None or _has_gone_on(facts, waiting[-1]):
        return None
    who = ranks_phrase(absent) if absent else f"{missing} rank{'s' if missing > 1 else ''}"
    return Hypothesis(
        f"The job did not come up as far as was read: {who} had not joined",
        tuple(Line(e, f"rank {e.rank} waits at the store for the others") for e in waiting[-6:]),
        (
            Doubt.at_most(Confidence.MEDIUM, "the log may end before the last ones joined")
            if absent
            else Doubt.at_most(Confidence.LOW, "no line says who had not joined, and the log may end before they did"),
        ),
        ranks=absent,
        refuted_by=REFUTED,
    )


def _has_gone_on(facts: Facts, wait: Event) -> bool:
    """True when a bar that may count steps follows a wait.

    Not one that loads data: the others may wait for the rank that draws it.
    """
    return any(
        bar.counts != "work"
        and bar.place.source == wait.place.source
        and (bar.place.line or 0) > (wait.place.line or 0)
        for bar in facts.case.of(Progress)
    )


def _communicator_failed(facts: Facts) -> Hypothesis | None:
    """NCCL itself says that it could not make a communicator, and no rank is known to have failed before."""
    others = [f for f in facts.failures if f.certain or f.cause is not CauseClass.NETWORK]
    if any(f.ranks for f in others) or any(e.what == "complete" for e in facts.case.of(CommInit)):
        return None
    wrong = tuple(wrong_addresses(facts.case))
    unreachable = [e for e, _ in wrong if isinstance(e, SocketError)]
    signs = list(_startup_errors(facts, unreachable))
    if not signs or (others and all(isinstance(e, NcclWarn) and e.topic for e in signs)):
        return None  # NCCL may have gone on without what it warns of
    reasons = list(_startup_causes(facts, unreachable))
    first = reasons[0] if reasons else signs[0]
    why = next((said for event, said in wrong if event is first), "")
    sharing = Ranks(
        r for e in reasons if getattr(e, "topic", "") == "duplicate-gpu" for r in ranks_on_one_gpu(_words(e))
    )
    doubled = Ranks(r for e in reasons if (r := rank_checked_in_twice(_words(e))) is not None)
    who = _who_clashes(sharing, doubled) or _writer_of(first)
    is_cause_known = bool(reasons) and not (isinstance(first, SocketError) and (first.echo or first.how == "reset"))
    evidence: list[Citation] = [
        Line(e, "what NCCL met first" if e is first else "and this") for e in (reasons or signs)[:3]
    ]
    evidence += [Line(e, "the making of a communicator failed here") for e in signs[:3]]
    return Hypothesis(
        f"A communicator failed to come up: {who}: {_words(first)}" + (f": {why}" if why else ""),
        evidence,
        (
            Doubt.at_most(Confidence.MEDIUM, "the first error may follow from one that was not read")
            if is_cause_known
            else Doubt.at_most(Confidence.LOW, "no line says why the communicator failed"),
        ),
        ranks=Ranks([first.rank] if is_cause_known and first.rank is not None and _is_of_one_process(first) else []),
        suspects=sharing | doubled,
        refuted_by=REFUTED,
    )


def _who_clashes(sharing: Ranks, doubled: Ranks) -> str:
    """The ranks that stand in each other's way, in words; "" where none do."""
    if sharing:
        return f"{ranks_phrase(sharing)} are not alone on their GPU"
    return f"two processes came as {ranks_phrase(doubled)}" if doubled else ""


def _is_of_one_process(event: Event) -> bool:
    """True of what one process lacks.

    A driver, an interface or a version is the same in all processes of a host or a job, one GPU is shared by two, and that two came
    under one number is seen by a third.
    """
    shared = (
        "duplicate-gpu",
        "peer-access",
        "checked-in",
        "interface",
        "driver",
        "version",
        "plugin",
        "topology",
        "fabric",
    )
    return not isinstance(event, SocketError) and getattr(event, "topic", "") not in shared


def _startup_errors(facts: Facts, unreachable: Sequence[SocketError]) -> Iterator[Event]:
    """Lines that only a failing start-up writes."""
    yield from (e for e in facts.case.of(NcclWarn) if e.topic or is_failed_set_up(e.message))
    yield from (e for e in facts.case.of(Note) if e.what == "nccl-trail" and e.detail.startswith(_WAY))
    yield from (e for e in facts.case.of(SocketError) if e.how in ("stranger", "setup"))
    yield from unreachable
    yield from (e for e in chain[NcclError | CudaError](facts.case.of(NcclError), facts.case.of(CudaError)) if e.topic)


def _startup_causes(facts: Facts, unreachable: Sequence[SocketError]) -> Iterator[Event]:
    """Yields events that may have made the set-up fail, the more definite ones first.

    What NCCL says it could not set up is one. A closed connection only follows the end of a process, so that it is last.
    """
    yield from (e for e in chain[CudaError | NcclWarn](facts.case.of(CudaError), facts.case.of(NcclWarn)) if e.topic)
    yield from (e for e in facts.case.of(NcclError) if e.topic)
    yield from (e for e in facts.case.of(CudaError) if not e.topic)
    yield from facts.case.of(OutOfMemory)
    yield from (e for e in facts.case.of(IbError) if e.what == "setup")
    yield from unreachable
    yield from sorted(facts.case.of(SocketError), key=lambda e: e.echo)


_TOPICS = {
    "multicast": "multicast of NVLink",
    "peer-access": "access between GPUs",
    "shared-memory": "shared memory",
    "fabric": "the NVLink fabric of several nodes",
}


def _writer_of(event: Event) -> str:
    if event.rank is not None:
        return f"rank {event.rank}"
    who = event.host or "a process"
    return f"{who} (pid {event.pid})" if event.pid is not None else who


def _words(event: Event) -> str:
    if isinstance(event, CudaError):
        where = f" while it set up {_TOPICS[event.topic]}" if event.topic in _TOPICS else ""
        return f"CUDA error{where}, {event.message[:100]}"
    if isinstance(event, NcclError) and event.last_error:
        return event.last_error[:120]
    return (
        str(getattr(event, "message", "") or getattr(event, "detail", "") or event.text)[:120] + event.group_rank_note
    )


CAUSE = CauseClass.INIT

SET_UP = frozenset(
    {"unique-id", "barrier", "clients-missing", "connect", "crowded", "peer-connect", "port-in-use", "set-up", "wait"}
)
"""Operations of the store that belong to setting a group up."""


MAKING = ("new_group", "split_group", "_new_process_group_helper", "_store_based_barrier")
"""Functions of ``torch.distributed`` in which all ranks meet to make a group."""


@rule(CAUSE, refuted_by="a completed call of the same group")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Set-up that did not end, where nothing of the job's work is on record."""
    if _has_worked(facts):
        is_told = stall.kind is not StallKind.ABSENT and any(e.topic for e in facts.case.of(NcclError))
        return _later_group(facts, stall) or _unreachable(facts) or (_communicator_failed(facts) if is_told else None)
    if stall.kind in (StallKind.NOTHING, StallKind.CRASH):
        is_told = any(e.topic for e in chain[CudaError | NcclWarn](facts.case.of(CudaError), facts.case.of(NcclWarn)))
        return (
            (_communicator_failed(facts) if is_told else None)
            or _started_not_completed(facts)
            or _not_joined(facts, stall)
            or _store_gave_up(facts)
            or _waits_at_store(facts)
            or _communicator_failed(facts)
        )
    return _started_not_completed(facts) or _first_call(facts, stall)


def _first_call(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes a failed set-up when the first call of the job hangs and no rank is shown missing.

    Connecting is then more likely at fault than the program.
    """
    call = stall.call
    if call is None or call.seq > 1 or stall.proven_absent or stall.named or facts.liveness.dumped:
        return None
    if any(e.rank in call.inside and e.numel_in is None for e in facts.case.of(CollectiveTimeout)):
        return None
    return Hypothesis(
        f"The first collective of {ranks_phrase(call.inside)} never completed, and nobody is shown to be missing: the "
        "communicator may not have come up",
        (Waiting(call, 4),),
        (Doubt.at_most(Confidence.LOW, "any member may be late to its first call"),),
        suspects=call.unknown,
        call=call,
    )


def _later_group(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that ranks wait for a new group that other ranks never joined.

    Every rank of the job must make a group, also one that it is no member of. Example: stacks show ranks 0-6 in
    ``new_group``, and rank 7 saves a checkpoint.
    """
    inside = {r: e for r in facts.case.world if (e := show_inside_function(facts, r, MAKING)) is not None}
    outside = facts.case.world - inside
    ends = stall.kind in (StallKind.ABSENT, StallKind.HIDDEN) and frozenset(stall.ranks) <= inside.keys()
    lines = (
        stall.kind in (StallKind.NOTHING, StallKind.CRASH) and not facts.progress.recorded_ranks and not facts.failures
    )
    if not inside or not outside or not (ends or lines):
        return None
    few = len(outside) < len(inside) and not (lines and all(_was_closed_early(facts, r) for r in outside))
    evidence: list[Citation] = [*list(inside.values())[:3], Waiting(stall.call, 2)]
    return Hypothesis(
        f"{ranks_phrase(inside).capitalize()} wait for a new process group; {ranks_phrase(outside)} did not call to create it",
        evidence,
        (
            Doubt.at_most(Confidence.MEDIUM, "the other ranks may still be on their way")
            if few
            else Doubt.at_most(Confidence.LOW, "most ranks are not seen to make the group"),
        ),
        ranks=outside if few else Ranks(),
        suspects=Ranks() if few else outside,
        call=stall.call,
        refuted_by="the same line of code on the other ranks",
    )


def _was_closed_early(facts: Facts, rank: int) -> bool:
    """True when the launcher closed a rank before any line or stack showed its place.

    The rank may have been in the same set-up.
    """
    signs = facts.liveness.activity(rank)
    return any(e.was_closed for e in signs.exits) and not (signs.secondary_errors or signs.stacks)


def _has_worked(facts: Facts) -> bool:
    """True when the job issued calls or made steps; bars of loading are none."""
    if len(facts.case.calls) or any((e.last_completed or 0) > 0 for e in facts.case.of(WorkStatus)):
        return True
    steps: list[Heartbeat | Progress] = [*facts.case.of(Heartbeat), *facts.case.of(Progress)]
    return any(e.is_step and (e.step is None or e.step > 0) for e in steps) or any(
        (e.seq or 0) > 1 for e in facts.case.of(CollectiveTimeout)
    )


def _is_default(event: StoreError) -> bool:
    """True when an error of the store may be about the group of all ranks."""
    return event.group is None or event.group.uid in (None, "0")


def _started_not_completed(facts: Facts) -> Hypothesis | None:
    """A communicator that some ranks started and did not complete.

    Example: ranks 0-6 print "Init START" of a communicator of 8 ranks, nobody prints "Init COMPLETE": rank 7 never started it.
    """
    starts: dict[str, dict[int, CommInit]] = defaultdict(dict)
    completed: set[str] = set()
    for event in facts.case.of(CommInit):
        name = event.comm_id or (f"{event.split}" if event.split else f"of {event.nranks}")
        if event.group_rank is not None and event.what == "start":
            starts[name].setdefault(event.group_rank, event)
        elif event.group_rank is not None and event.what == "complete":
            completed.add(name)
    begun = next((events for name, events in starts.items() if name not in completed), None)
    return _never_completed(facts, begun) if begun else None


def _never_completed(facts: Facts, begun: Mapping[int, CommInit]) -> Hypothesis:
    size = max(e.nranks or 0 for e in begun.values())
    absent = Ranks(range(size)) - begun if size <= 1 << 20 else Ranks()
    is_world = size == facts.case.world_size
    is_few = is_world and 0 < len(absent) <= max(1, size // 4)
    started = f"started the communicator of {size} ranks and did not complete it"
    citations = [Line(e, f"rank {r} {started}", observer=f"log:{r}") for r, e in list(begun.items())[:3]]
    for rank in list(absent)[:3] if is_few else []:
        last = facts.liveness.activity(rank).last_event
        if last is not None:
            citations.append(Line(last, f"the last line of rank {rank}: it never started the communicator"))
    citations += [Line(e, "the store gave up waiting") for e in facts.case.of(StoreError)][:2]
    has_log = bool(absent & facts.liveness.logged)
    if is_few:
        never = "never started" if has_log else verb(absent, "is not seen to start", "are not seen to start")
        others = "one other did, and did not complete it"
        if len(begun) > 1:
            others = f"{len(begun)} others did, and none completed it"
        headline = f"{ranks_phrase(absent).capitalize()} {never} a communicator of {size} ranks; {others}"
        doubts = [] if has_log else [Doubt.at_most(Confidence.MEDIUM, "no line of the missing rank was read")]
    else:
        unread = f"; of {ranks_phrase(absent)} no start is on record" if is_world and absent else ""
        headline = f"A communicator of {size} ranks never came up: {len(begun)} started it and none completed{unread}"
        is_cut = facts.liveness.first_alarm is None  # the log may merely end in the middle of a start
        doubts = [
            Doubt.at_most(Confidence.LOW, "the log may end in the middle of a start")
            if is_cut
            else Doubt("no line says who did not start it", Confidence.MEDIUM, Confidence.MEDIUM)
        ]
    return Hypothesis(
        headline,
        citations,
        doubts,
        ranks=absent if is_few else Ranks(),
        suspects=absent if is_world and not is_few else Ranks(),
        victims=Ranks(begun) if is_world else Ranks(),
    )


def _store_gave_up(facts: Facts) -> Hypothesis | None:
    """The store or the rendezvous gave up."""
    errors = [e for e in facts.case.of(StoreError) if e.operation in SET_UP]
    rendezvous = list(facts.case.of(RendezvousError))
    has_started = any(t.what == "closing-signal" for t in facts.case.of(TearDown))  # an agent closes workers it started
    has_started |= any(e.what == "store-lost" for e in rendezvous) or bool(closed_after_an_attempt(facts))
    if not errors and (not rendezvous or has_started):
        return None
    waiting = Ranks(e.rank for e in errors if e.rank is not None)
    awaited = (e.peer for e in errors if e.operation == "unique-id" and e.peer is not None and _is_default(e))
    absent = Ranks(peer for peer in awaited if peer not in waiting)
    unjoined, missing = _missing_at_barrier([e for e in errors if e.operation == "barrier"])
    missing = missing or max((e.missing or 0 for e in errors), default=0)
    unjoined = unjoined or _unaccounted(facts, missing)
    too_many = _too_many_at_barrier(errors)
    if absent:
        what = f"{ranks_phrase(absent)} never entered its first call"
    elif too_many is not None:
        what = too_many
    elif unjoined:
        what = f"{ranks_phrase(unjoined)} did not join"
    else:
        what = _not_launched(rendezvous) or _without_a_rank(errors, missing)
    ranks = absent or (unjoined if too_many is None else Ranks())
    left = waiting | (_ended_by_itself(facts) if ranks else ())
    is_rest = frozenset(facts.case.world) <= ranks | left and facts.case.world_size is not None
    known = Confidence.HIGH if ranks and is_rest else Confidence.MEDIUM
    return Hypothesis(
        f"The job never came up: {what}",
        [Line(e, _says(e)) for e in errors[:6]] + [Line(e, "the rendezvous failed") for e in rendezvous[:2]],
        (Doubt("no line says why", known, Confidence.MEDIUM),),
        ranks=ranks,
        victims=left - ranks,
    )


def _not_launched(rendezvous: Sequence[RendezvousError]) -> str:
    """Where the scheduler could not start a task, and why; empty where it started all."""
    failed = next((e for e in rendezvous if e.what == "launch-failed"), None)
    if failed is None:
        return ""
    where = f" on {failed.node}" if failed.node else ""
    return f"Slurm could not start the tasks{where} ({failed.message.rpartition(': ')[2][:80]})"


def _without_a_rank(errors: Sequence[StoreError], missing: int) -> str:
    """What kept the job from coming up, where no rank is known."""
    taken = next((e for e in errors if e.operation == "port-in-use"), None)
    if taken is not None:
        where = f" on {taken.host}" if taken.host is not None else ""
        return f"{taken.address or 'the port of the store'} is already in use{where}"
    if missing:
        return f"{missing} rank{'s' if missing > 1 else ''} did not join"
    unreached = next((e for e in errors if e.operation == "peer-connect"), None)
    if unreached is not None:
        return _unreached_peer(unreached)
    if errors and all(e.operation == "connect" for e in errors):
        address = next((e.address for e in errors if e.address), None)
        if address is None:
            return "a connection of the set-up was lost, refused or timed out"
        why = why_unreachable(address.rpartition(":")[0], from_other_hosts=False)
        return f"the store at {address} could not be reached" + (f": {why}" if why else "")
    return "no line says which rank did not join"


def _unreached_peer(event: StoreError) -> str:
    """``rank 1 of its group could not reach rank 0 of that group (10.0.3.2)``."""
    who = f"rank {event.group_rank} of its group" if event.group_rank is not None else "a rank"
    if event.peer is None:
        return f"{who} could not reach a peer at {event.address}"
    return f"{who} could not reach rank {event.peer} of that group" + (f" ({event.address})" if event.address else "")


def _ended_by_itself(facts: Facts) -> Ranks:
    """The ranks that ended with code 1 and raised nothing else, as ranks do whose store gave up."""
    own = facts.liveness.activity
    quiet = (r for r in facts.liveness.exited if not own(r).own_exceptions)
    return Ranks(r for r in quiet if any(e.exitcode == 1 and not e.was_closed for e in own(r).exits))


def _not_joined(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """JAX or HCCL waited for processes at the start of the job, and may name them."""
    reports = [e for e in open_reports(stall.health.troubles) if e.what == "set-up"]
    if not reports:
        return None
    by, named = reports[0].by, named_ranks(reports, facts.case.world)
    late: Mapping[int, Event] = {} if named else _began_after_others_gave_up(facts, reports)
    absent = named or Ranks(late)
    waiting = Ranks(e.rank for e in reports if e.rank is not None) | (r for e in reports for r in e.reached)
    who = ranks_phrase(absent) if absent else "at least one process"
    why = f"; {verb(absent, 'it', 'they')} began to connect after others had given up" if late else ""
    known = Doubt(f"{by} says that processes are missing, and not why", cause=Confidence.MEDIUM)
    unnamed = Doubt.at_most(Confidence.MEDIUM, f"no line of {by} says who is missing")
    return Hypothesis(
        f"The job never came up: {who} did not join {by if by != 'HCCL' else 'the communicator'} in time{why}",
        [*cite(reports), *(Line(e, f"rank {r} connects only now") for r, e in late.items())],
        (known,) if named else (unnamed,),
        ranks=absent,
        victims=waiting - absent,
    )


def _began_after_others_gave_up(facts: Facts, reports: Sequence[Event]) -> Mapping[int, Event]:
    """The ranks that began their set-up when others had given up on it, each with the line that shows it."""
    ended = min((t for e in reports if not math.isnan(t := facts.liveness.time(e))), default=math.nan)
    starts = {e.rank: e for e in facts.case.of(Phase) if e.what == "starting" and e.rank is not None}
    late = {r: e for r, e in starts.items() if facts.liveness.time(e) > ended}
    return late if 2 * len(late) <= len(facts.case.world) else {}


def _unaccounted(facts: Facts, missing: int) -> Ranks:
    """The ranks that the store missed, where as many are left.

    They are not seen at the store, or nothing was read of them but that the launcher closed them. Example: 7 of 8 clients joined.
    Ranks 0-4, 6 and 7 lost their connection to the store, rank 5 wrote that it loads data.
    """
    if not missing:
        return Ranks()
    at_store = [(e.rank, e.operation) for e in facts.case.of(StoreError) if e.rank is not None]
    joined = facts.ledger.waiting | (rank for rank, operation in at_store if operation != "connect")
    refused = {rank for rank, _ in at_store} - joined
    closed = Ranks(r for r in facts.liveness.exited if any(e.was_closed for e in facts.liveness.activity(r).exits))
    told = facts.ledger.heard - (closed - facts.liveness.logged - facts.liveness.dumped)
    return facts.ledger.left_by(missing, joined, (joined | facts.ledger.heard) - refused, (joined | told) - refused)


def _unreachable(facts: Facts) -> Hypothesis | None:
    """Concludes that a process which could not reach the store may never have joined the call.

    Only where a single rank gave up on a call, nothing failed, and no dump holds a call.
    """
    found = [e for e in facts.case.of(StoreError) if e.operation == "connect"]
    waiting = Ranks(e.rank for e in facts.case.of(CollectiveTimeout) if e.rank is not None)
    if not found or len(waiting) != 1 or facts.failures or len(facts.case.calls):
        return None
    shown = list(facts.case.of(CollectiveTimeout))[:2]
    line = shown[0]
    return Hypothesis(
        f"A process could not reach the store until it gave up, and {ranks_phrase(waiting)} waits in {line.op}: it may never have joined",
        (*(Line(e, _says(e)) for e in found[:3]), *(Line(e, f"rank {e.rank} gave up on it") for e in shown)),
        (Doubt.at_most(Confidence.LOW, "no line ties that process to the call"),),
        stalled=line.stalled(waiting),
        refuted_by="a line of that process from after it had joined",
    )


def _says(event: StoreError) -> str:
    who = f"rank {event.rank}" if event.rank is not None else "a rank"
    if event.operation == "unique-id":
        return f"{who} waits for rank {event.peer if event.peer is not None else 0} of the group to set the communicator up"
    return f"{who}: the store gave up ({event.operation})"
