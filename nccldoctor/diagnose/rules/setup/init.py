"""A communicator, a store or a rendezvous never came up.

How we know: store and rendezvous errors, or communicators that some ranks started and nobody completed, and no call of that group on
record. Named is who did not join, if the evidence says who did.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from nccldoctor.align.exits import has_gone_on_after
from nccldoctor.align.facts import Facts
from nccldoctor.align.health.troubles import waits_at_store
from nccldoctor.align.stack_activity import split_frame, wait_of
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.world.addresses import lookups_in_vain, wrong_addresses
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall, newest_line
from nccldoctor.diagnose.phrases import setup as words
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.framework_reports import cite, named_ranks
from nccldoctor.diagnose.signs.log_endings import closed_after_an_attempt
from nccldoctor.events import (
    CollectiveTimeout,
    CommInit,
    CudaError,
    Event,
    ExceptionRaised,
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
from nccldoctor.model import CauseClass
from nccldoctor.model.hosts import why_unreachable
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import is_user_code
from nccldoctor.parsers.event_details import (
    barrier_counts,
    is_failed_set_up,
    is_raised_by_gloo,
    is_vain_wait_at_store,
    rank_checked_in_twice,
    ranks_on_one_gpu,
)
from nccldoctor.words.names import op_name
from nccldoctor.words.sentences import essentials

_WAY = ("init.cc:", "bootstrap.cc:", "init.cu:", "bootstrap.cu:")
"""Where a result code passes when the making of a communicator fails."""

_MAKES_COMMUNICATOR = "ncclCommInitRank "
"""The frame of that call in a traceback, where Python calls NCCL itself."""


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


def _waits_at_store(facts: Facts) -> Hypothesis | None:
    """The last lines say that ranks wait for others at the store: set-up that was cut off, or hangs."""
    waiting = waits_at_store(facts.case)
    absent, missing = _missing_at_barrier(waiting)
    if not missing or facts.failures or facts.liveness.first_alarm is not None:
        return None
    # a bar that may count steps: not one that loads data, for the others may wait for the rank that draws it
    bars = (e.place for e in facts.case.of(Progress) if e.counts != "work")
    if any(bar.is_below(waiting[-1].place) for bar in bars):
        return None
    named = say("setup.not-joined", who=who(facts.case, absent)) if absent else ""
    return Hypothesis(
        headline_of("setup.job-never-started", why=named or say("setup.missing-joiners", missing=missing)),
        tuple(Line(e, say("setup.waits-at-store", rank=e.rank)) for e in waiting[-6:]),
        (doubt_of("log-ends", named=absent),),
        ranks=absent,
        refuted_by=say("refuted.completed-call"),
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
        r for e in reasons if getattr(e, "topic", "") == "duplicate-gpu" for r in ranks_on_one_gpu(words.error_words(e))
    )
    doubled = Ranks(r for e in reasons if (r := rank_checked_in_twice(words.error_words(e))) is not None)
    alike = [
        e for e in reasons or signs if (e.kind, getattr(e, "topic", "")) == (first.kind, getattr(first, "topic", ""))
    ]
    reporters = Ranks(e.rank for e in alike if e.rank is not None)
    clash = say("setup.came-twice", ranks=doubled) if doubled else ""
    clash = say("setup.share-a-gpu", ranks=sharing) if sharing else clash
    # where all of several ranks lack the same, the job does, and no rank stands out
    is_of_few = len(reporters) == 1 or bool(facts.case.world - reporters)
    is_cause_known = bool(reasons) and not (isinstance(first, SocketError) and (first.echo or first.how == "reset"))
    evidence: list[Citation] = [
        Line(e, say("setup.first-error") if e is first else say("setup.another-error")) for e in (reasons or signs)[:3]
    ]
    evidence += [Line(e, say("setup.failed-here")) for e in signs[:3]]
    # a driver, a fabric manager, an interface or a version is the same in all processes of a host or a job, one GPU is shared by
    # two, and that two came under one number is seen by a third
    shared = ("duplicate-gpu", "peer-access", "checked-in", "interface", "driver", "version", "plugin", "topology")
    topic = getattr(first, "topic", "")
    is_shared = isinstance(first, SocketError) or topic in shared or topic.startswith("fabric")
    return Hypothesis(
        headline_of(
            "setup.communicator-failed",
            library=words.library_of(first),
            who=clash or words.writers(first, reporters),
            error=words.error_words(first),
            reason=essentials(words.error_words(first))[1],
            why=why,
        ),
        evidence,
        (doubt_of("cause-of-failure", known=is_cause_known),),
        ranks=reporters if is_cause_known and is_of_few and not is_shared else Ranks(),
        suspects=sharing | doubled,
        refuted_by=say("refuted.completed-call"),
    )


def _startup_errors(facts: Facts, unreachable: Sequence[SocketError]) -> Iterator[Event]:
    """Lines that only a failing start-up writes."""
    yield from (e for e in facts.case.of(NcclWarn) if e.topic or is_failed_set_up(e.message))
    yield from (e for e in facts.case.of(NcclError) if is_failed_set_up(e.message))
    made = {e.place for e in facts.case.of(ExceptionRaised) if any(_MAKES_COMMUNICATOR in frame for frame in e.frames)}
    yield from (e for e in facts.case.of(NcclError) if e.place in made)
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
    yield from sorted(facts.case.of(SocketError), key=lambda e: (e.how != "setup", e.echo))


SET_UP = frozenset(
    {"unique-id", "barrier", "clients-missing", "connect", "crowded", "peer-connect", "port-in-use", "set-up", "wait"}
)
"""Operations of the store that belong to setting a group up."""


@rule(CauseClass.INIT, refuted_by=say("refuted.completed-call"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Set-up that did not end, where nothing of the job's work is on record."""
    if _has_worked(facts):
        told = [e for e in facts.case.of(NcclError) if e.topic and not has_gone_on_after(facts.liveness, e)]
        return (
            _later_group(facts, stall)
            or _unreachable(facts)
            or (_communicator_failed(facts) if told and stall.kind is not StallKind.ABSENT else None)
        )
    if stall.kind in (StallKind.NOTHING, StallKind.CRASH):
        is_told = any(e.topic for e in facts.case.events.of_kind(CudaError, NcclWarn))
        return (
            (_communicator_failed(facts) if is_told else None)
            or _started_not_completed(facts)
            or _not_joined(facts, stall)
            or _unresolved(facts)
            or _never_started(facts)
            or _store_gave_up(facts)
            or _waits_at_store(facts)
            or _communicator_failed(facts)
            or _half_completed(facts)
        )
    return _started_not_completed(facts) or _first_call(facts, stall)


def _first_call(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes a failed set-up when the first call of the job hangs and no rank is shown missing.

    Connecting is then more likely at fault than the program, unless a failure is on record.
    """
    call = stall.call
    if any(f.certain or f.cause in (CauseClass.DIED, CauseClass.RAISED) for f in facts.failures):
        return None
    if call is None or call.seq > 1 or stall.proven_absent or stall.named or facts.liveness.dumped:
        return None
    if call.inside <= Ranks(e.rank for e in facts.case.of(CommInit) if e.what == "complete" and e.rank is not None):
        return None
    if any(e.rank in call.inside and e.numel_in is None for e in facts.case.of(CollectiveTimeout)):
        return None
    if stall.mismatch is not None or any(stall.job.differing_lines(aspect) for aspect in ("op", "size", "dtype")):
        return None  # calls that differ can't complete, whatever was connected
    return Hypothesis(
        headline_of("setup.first-collective", inside=call.inside),
        (Waiting(call, 4),),
        (doubt_of("late-first-call"),),
        suspects=call.unknown,
        call=call,
    )


def _later_group(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that ranks wait for a new group that other ranks never joined.

    Every rank of the job must make a group, also one that it is no member of. Example: stacks show ranks 0-6 in
    ``new_group``, and rank 7 saves a checkpoint.
    """
    making = stall.job.making_group
    ends = stall.kind in (StallKind.ABSENT, StallKind.HIDDEN) and all(making(r) is not None for r in stall.ranks)
    lines = (
        stall.kind in (StallKind.NOTHING, StallKind.CRASH) and not facts.progress.recorded_ranks and not facts.failures
    )
    if not (ends or lines):
        return None
    inside = {r: e for r in facts.case.world if (e := making(r)) is not None}
    outside = facts.case.world - inside
    if not inside or not outside:
        return None
    own = [facts.liveness.activity(r) for r in outside]
    # ranks that the launcher closed before any line or stack showed their place may have been in the same set-up
    are_closed = all(any(e.was_closed for e in o.exits) and not (o.secondary_errors or o.stacks) for o in own)
    few = len(outside) < len(inside) and not (lines and are_closed)
    # since PyTorch 2.1 a rank that is no member of a new group goes on at once, and may wait for its peers in the next call
    stances = [facts.looks.newest.get(rank) for rank in outside]
    doubts = [doubt_of("not-in-group-yet", few=few)]
    if any(stance is not None and stance.posture.is_wait for stance in stances):
        doubts.insert(0, doubt_of("may-be-no-member"))
    return Hypothesis(
        headline_of("setup.waits-for-group", inside=Ranks(inside), outside=outside),
        [*list(inside.values())[:3], Waiting(stall.call, 2)],
        doubts,
        ranks=outside if few else Ranks(),
        suspects=Ranks() if few else outside,
        victims=Ranks(inside),
        call=stall.call,
        refuted_by=say("refuted.others-called-it"),
    )


def _has_worked(facts: Facts) -> bool:
    """True when the job issued calls or made steps; bars of loading are none."""
    if len(facts.case.calls) or any((e.last_completed or 0) > 0 for e in facts.case.of(WorkStatus)):
        return True
    # gloo connects all ranks of a group before its first collective
    raised = (e for e in facts.case.of(ExceptionRaised) if is_raised_by_gloo(e.message))
    return (
        any((wait_of(e.frames) or ("", ""))[0] == "call" for e in raised)
        or any(e.is_step and (e.step is None or e.step > 0) for e in facts.case.events.of_kind(Heartbeat, Progress))
        or any((e.seq or 0) > 1 for e in facts.case.of(CollectiveTimeout))
    )


def _started_not_completed(facts: Facts) -> Hypothesis | None:
    """A communicator that some ranks started and did not complete.

    Example: ranks 0-6 print "Init START" of a communicator of 8 ranks, nobody prints "Init COMPLETE": rank 7 never started it.
    """
    begun = next((starts for starts, done in _communicators(facts).values() if starts and not done), None)
    return _never_completed(facts, begun) if begun else None


def _communicators(facts: Facts) -> dict[str, tuple[dict[int, CommInit], Ranks]]:
    """The starts of each communicator by rank in it, and the ranks that completed it."""
    lines: dict[str, dict[str, dict[int, CommInit]]] = defaultdict(lambda: defaultdict(dict))
    for event in facts.case.of(CommInit):
        if event.group_rank is not None:
            name = event.comm_id or (f"{event.split}" if event.split else f"of {event.nranks}")
            lines[name][event.what].setdefault(event.group_rank, event)
    return {name: (own["start"], Ranks(own["complete"])) for name, own in lines.items()}


def _half_completed(facts: Facts) -> Hypothesis | None:
    """A communicator that some ranks completed, and that others started as the last thing they said of any."""
    newest = {e.rank: e for e in facts.case.of(CommInit)}
    for starts, done in _communicators(facts).values():
        left = {e.rank: e for r, e in starts.items() if e.rank is not None and r not in done and newest[e.rank] is e}
        if left and done:
            size = max(e.nranks or 0 for e in left.values())
            return Hypothesis(
                headline_of("setup.half-completed", ranks=Ranks(left), size=size, done=len(done)),
                [Line(e, say("setup.started-not-completed", rank=r, size=size)) for r, e in list(left.items())[:4]],
                [doubt_of("start-unnamed", cut=True)],
                suspects=Ranks(left),
            )
    return None


def _started_otherwise(facts: Facts, size: int) -> Ranks:
    """The ranks in a start of the whole job's communicator whose line is torn, or contradicts its peers.

    Examples: the line of rank 5 has a different commId from those of its peers, or starts with the label of rank 5 and says *rank 6*.
    Processes that write one log at once tear each other's lines, and what is torn may have taken the line of another rank with it.
    """
    starts = [e for e in facts.case.of(CommInit) if e.what == "start" and e.nranks == size]
    ids = Counter(e.comm_id for e in starts)
    usual = max(ids, key=lambda one: ids[one], default=None)
    odd = [e for e in starts if e.comm_id != usual or e.rank not in (None, e.group_rank)]
    odd += [e for e in facts.case.of(CommInit) if e.what == "torn"]
    return Ranks(r for e in odd for r in (e.rank, e.group_rank) if r is not None)


def _never_completed(facts: Facts, begun: Mapping[int, CommInit]) -> Hypothesis:
    size = max(e.nranks or 0 for e in begun.values())
    absent = Ranks(range(size)) - begun if size <= 1 << 20 else Ranks()
    is_world = size == facts.case.world_size
    torn = _started_otherwise(facts, size) if is_world else Ranks()
    absent = absent - torn or absent
    is_few = is_world and 0 < len(absent) <= max(1, size // 4)
    citations = [
        Line(e, say("setup.started-not-completed", rank=r, size=size), observer=f"log:{r}")
        for r, e in list(begun.items())[:3]
    ]
    for rank in list(absent)[:3] if is_few else []:
        last = facts.liveness.activity(rank).last_event
        if last is not None:
            citations.append(Line(last, say("setup.last-line-without-start", rank=rank)))
    citations += [Line(e, say("setup.store-timed-out")) for e in facts.case.of(StoreError)][:2]
    has_log = bool(absent & facts.liveness.logged)
    if is_few:
        headline = headline_of("setup.never-joined", who=who(facts.case, absent), size=size, begun=len(begun))
        doubts = [] if has_log else [doubt_of("no-log-of-missing")]
        doubts += [doubt_of("start-contradicts", ranks=torn)] if torn else []
    else:
        silent = absent if is_world else Ranks()
        headline = headline_of("setup.never-completed", size=size, begun=len(begun), without_start=silent)
        is_cut = facts.liveness.first_alarm is None  # the log may merely end in the middle of a start
        doubts = [doubt_of("start-unnamed", cut=is_cut)]
    return Hypothesis(
        headline,
        citations,
        doubts,
        ranks=absent if is_few else Ranks(),
        suspects=(absent if is_world and not is_few else torn - absent - begun),
        victims=Ranks(begun) if is_world else Ranks(),
    )


def _unresolved(facts: Facts) -> Hypothesis | None:
    """Processes could not look up the host of the store, and did nothing after that."""
    lookups = lookups_in_vain(facts.case)
    if not lookups:
        return None
    ranks = Ranks(e.rank for e in lookups if e.rank is not None)
    others = facts.liveness.logged - ranks
    first = {e.rank: e for e in reversed(lookups)}
    waiting = [e for e in facts.case.of(StoreError) if e.operation in SET_UP and e.rank not in ranks]
    has_ended = any(e.rank in first for e in facts.case.of(ExceptionRaised))
    name = (lookups[0].address or "").rpartition(":")[0]
    why = say("setup.name-unresolved", who=who(facts.case, ranks) if ranks else "", name=name)
    return Hypothesis(
        headline_of("setup.job-never-started", why=why),
        [Line(e, words.store_gave_out(e)) for e in (*[first[r] for r in sorted(first, key=str)][:4], *waiting[:2])],
        () if has_ended else (doubt_of("lookups-go-on"),),
        ranks=ranks if others else Ranks(),
        victims=others if others else ranks,
        refuted_by=say("refuted.completed-call"),
    )


def _never_started(facts: Facts) -> Hypothesis | None:
    """Pods for which the cluster had no place, image or volume, and that no later line shows on a node."""
    placed = [e for e in facts.case.of(Note) if e.what == "pod-on-node"]
    waiting = (e for e in facts.case.of(Note) if e.what == "pod-pending")
    pods = [e for e in waiting if not any((e.pod or p.pod) == p.pod and p.place.is_below(e.place) for p in placed)]
    if not pods or facts.failures:
        return None
    why = say("setup.not-started", pod=pods[-1].pod, why=pods[-1].detail[:160].rstrip(". "))
    cited = [Line(e, say("setup.pod-waits", pod=e.pod)) for e in pods[-3:]]
    return Hypothesis(headline_of("setup.job-never-started", why=why), cited, [doubt_of("may-have-started")])


def _store_gave_up(facts: Facts) -> Hypothesis | None:
    """The store or the rendezvous gave up."""
    # the program itself waited in vain for a key such as "ckpt/3" where the innermost frame is the user's
    vain = (e for e in facts.case.of(ExceptionRaised) if e.frames and is_vain_wait_at_store(e.message))
    own_keys = {e.rank for e in vain if e.rank is not None and is_user_code(split_frame(e.frames[0])[1])}
    set_up = (e for e in facts.case.of(StoreError) if e.operation in SET_UP)
    errors = [e for e in set_up if e.operation != "wait" or e.rank not in own_keys]
    rendezvous = list(facts.case.of(RendezvousError))
    has_started = any(t.what == "closing-signal" for t in facts.case.of(TearDown))  # an agent closes workers it started
    has_started |= any(e.what == "store-lost" for e in rendezvous) or bool(closed_after_an_attempt(facts))
    if not errors and (not rendezvous or has_started):
        return None
    waiting = Ranks(e.rank for e in errors if e.rank is not None)
    crashed = Ranks(r for f in facts.failures if f.cause is CauseClass.RAISED and f.certain for r in f.ranks)
    if crashed - waiting and not any(e.operation in ("crowded", "port-in-use") for e in errors):
        return None  # an exception of its own says why that rank never joined
    awaited = (e for e in errors if e.operation == "unique-id" and (e.group is None or e.group.uid in (None, "0")))
    absent = Ranks(e.peer for e in awaited if e.peer is not None) - waiting
    unjoined, missing = _missing_at_barrier([e for e in errors if e.operation == "barrier"])
    missing = missing or max((e.missing or 0 for e in errors), default=0)
    unjoined = unjoined or _unaccounted(facts, missing)
    crowds = [(c[1], c[0]) for e in errors if e.operation == "crowded" and (c := barrier_counts(e.text))]
    if absent:
        what = say("setup.never-made-first-call", who=who(facts.case, absent))
    elif crowds:  # more ranks joined than the group has members
        here, size = max(crowds)
        what = say("setup.crowded", here=here, size=size)
    elif unjoined:
        what = say("setup.not-joined", who=who(facts.case, unjoined))
    else:
        what = _without_a_rank(errors, rendezvous, missing)
    ranks = absent or (Ranks() if crowds else unjoined)
    # so do ranks end whose store gave up
    own = [(r, facts.liveness.activity(r)) for r in facts.liveness.exited if ranks]
    ended = Ranks(r for r, o in own if any(e.exitcode == 1 and not e.was_closed for e in o.exits))
    left = waiting | Ranks(r for r in ended if not facts.liveness.activity(r).own_exceptions)
    is_rest = frozenset(facts.case.world) <= ranks | left and facts.case.world_size is not None
    return Hypothesis(
        headline_of("setup.job-never-started", why=what),
        [Line(e, words.store_gave_out(e)) for e in errors[:6]]
        + [Line(e, say("setup.rendezvous-failed")) for e in rendezvous[:2]]
        + [line for rank in list(ranks)[:3] if (line := newest_line(facts, rank)) is not None],
        (doubt_of("no-why", known=ranks and is_rest, heard=ranks and ranks <= facts.liveness.logged - ended),),
        ranks=ranks,
        victims=left - ranks,
    )


def _without_a_rank(errors: Sequence[StoreError], rendezvous: Sequence[RendezvousError], missing: int) -> str:
    """What kept the job from coming up, where no rank is known. A scheduler says why a task did not start."""
    failed = next((e for e in rendezvous if e.what == "launch-failed"), None)
    if failed is not None:
        return say("setup.launch-failed", node=failed.node or "", why=essentials(failed.message)[1][:80])
    taken = next((e for e in errors if e.operation == "port-in-use"), None)
    if taken is not None:
        return say("setup.port-taken", address=taken.address, host=taken.host)
    if missing:
        return say("setup.missing-joiners", missing=missing)
    unreached = next((e for e in errors if e.operation == "peer-connect"), None)
    if unreached is not None:
        own, peer = unreached.group_rank, unreached.peer
        return say("setup.peer-unreachable", group_rank=own, peer=peer, address=unreached.address)
    if errors and all(e.operation == "connect" for e in errors):
        address = next((e.address for e in errors if e.address), None)
        why = why_unreachable(address.rpartition(":")[0], from_other_hosts=False) if address is not None else ""
        return say("setup.store-unreachable", address=address, why=why)
    return say("setup.missing-rank-unknown", lost=not errors and any(e.what == "no-store" for e in rendezvous))


def _not_joined(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """JAX or HCCL waited for processes at the start of the job, and may name them."""
    reports = [e for e in stall.job.open_reports if e.what == "set-up"]
    if not reports:
        return None
    named = named_ranks(reports, facts.case.world)
    late: Mapping[int, Event] = {} if named else _began_after_others_gave_up(facts, reports)
    absent = named or Ranks(late)
    waiting = Ranks(e.rank for e in reports if e.rank is not None) | (r for e in reports for r in e.reached)
    by = reports[0].by
    named_or_not = who(facts.case, absent) if absent else "at least one process"
    why = say("setup.framework-waits", who=named_or_not, by=by, began_late=bool(late))
    return Hypothesis(
        headline_of("setup.job-never-started", why=why),
        [*cite(reports), *(Line(e, say("setup.connects-late", rank=r)) for r, e in late.items())],
        (doubt_of("framework-says", by=by, named=named),),
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
    joined = facts.ledger.waiting | (rank for rank, operation in at_store if operation not in ("connect", "resolve"))
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
        headline_of("setup.store-and-call", waiting=waiting, op=op_name(line.op)),
        (
            *(Line(e, words.store_gave_out(e)) for e in found[:3]),
            *(Line(e, say("setup.timed-out-in-call", rank=e.rank)) for e in shown),
        ),
        (doubt_of("process-not-tied"),),
        stalled=line.stalled(waiting),
        refuted_by=say("refuted.joined-later"),
    )
