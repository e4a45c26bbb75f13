"""What the counts of NCCL's own observers say of one call: who issued it, what it is, who answered at all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator

from nccldoctor.align.exits import SLACK
from nccldoctor.align.facts import Facts
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.events import CollCall, CommInit, Event, RasStatus
from nccldoctor.identify.nccl_counters import NcclCounters, calls_by_communicator
from nccldoctor.model import Evidence, Group, Stalled
from nccldoctor.model.ranks import Ranks

OP_TYPES = {
    "AllReduce": "ALLREDUCE",
    "Broadcast": "BROADCAST",
    "Reduce": "REDUCE",
    "AllGather": "ALLGATHER",
    "ReduceScatter": "REDUCE_SCATTER",
}
"""NCCL's name of an operation to the watchdog's."""


LEVEL = 3
"""Fewest members whose lines end at one number, so that it is no accident."""


def counters_of(facts: Facts, call: StuckCall | None) -> NcclCounters | None:
    """The counts that a stuck call is known from; None where PyTorch's own numbers tell."""
    if call is None:
        return None
    return next((one for one in facts.case.nccl_counters if one.group == call.group), None)


def stalled_from_counters(call: StuckCall, group: Group, one: NcclCounters) -> Stalled:
    """The call in the words of the contract."""
    line = one.call
    return Stalled(
        op=OP_TYPES.get(one.op or ""),
        seq=call.seq,
        group=group.label,
        numel_in=line.numel if line else None,
        dtype=line.dtype if line else None,
        entered=call.entered,
        missing=call.missing | call.unknown,
    )


def issue_evidence(facts: Facts, call: StuckCall, what: str, most: int) -> list[Evidence]:
    """That ranks inside a call issued it: a line of each, or the report that counts them together."""
    one = counters_of(facts, call)
    if one is None:
        return []
    lines: dict[str, tuple[Event, set[int]]] = {}
    for rank in call.inside:
        event = one.lines.get(rank)
        if event is not None:
            lines.setdefault(str(event.place), (event, set()))[1].add(rank)
    return [
        counter_evidence(event, one, f"{_ranks(ranks)} issued {what}") for event, ranks in list(lines.values())[:most]
    ]


def answered_ras(facts: Facts, rank: int) -> list[Evidence]:
    """That a rank answered RAS while the others waited: at that time, or as one of those that are behind."""
    asked = [
        one
        for one in facts.case.nccl_counters
        if one.observer == "ras" and rank in one.last and is_of_stall(facts, one)
    ]
    found = [one for one in asked if rank in one.lagging or has_time(facts, one)]
    return [counter_evidence(one.lines[rank], one, f"rank {rank} answered RAS: its process ran") for one in found[:1]]


def is_of_stall(facts: Facts, one: NcclCounters) -> bool:
    """Whether the counts are not from before the stalled call; counts without a time may be of any moment."""
    began = facts.liveness.began if not math.isnan(facts.liveness.began) else facts.liveness.alarm
    at = facts.liveness.time(next(iter(one.lines.values())))
    return not at < began - SLACK


def has_time(facts: Facts, one: NcclCounters) -> bool:
    """Whether it is known when the counts were taken."""
    return not math.isnan(facts.liveness.time(next(iter(one.lines.values()))))


def may_wait_elsewhere(facts: Facts, one: NcclCounters, rank: int) -> bool:
    """Whether a rank may wait for others in a communicator whose members are not known, or whose calls cannot be counted."""
    known = {other.comm for other in facts.case.nccl_counters}
    if one.observer == "ras":
        return any(uneven_communicators(facts, known))
    if one.observer == "comm-dump":
        mine = [s for d, r in zip(facts.case.dumps, facts.case.dump_rank, strict=True) if r == rank for s in d.comms]
        return any(state.unfinished >= 0 and state.comm not in known for state in mine)
    newest = max(facts.case.of(CollCall, rank), key=lambda e: (e.place.source, e.place.line or 0), default=None)
    named = calls_by_communicator(facts.case.of(CommInit), facts.case.of(CollCall))
    return newest is not None and not any(newest in calls for name, calls in named.items() if name in known)


def uneven_communicators(facts: Facts, known: Collection[str]) -> Iterator[RasStatus]:
    """Communicators that RAS calls uneven, without telling which ranks of the job they hold."""
    yield from (e for e in facts.case.of(RasStatus) if e.what == "MISMATCH" and e.counts and e.comm_id not in known)


def expected_count(facts: Facts, one: NcclCounters) -> int | None:
    """How many calls most members of the other communicators of that size issued; None where there is no other."""
    others = [o for o in facts.case.nccl_counters if o.observer == one.observer and o is not one]
    alike = [o for o in others if len(o.members) == len(one.members) and not o.members & one.members]
    numbers = Counter(n for o in alike for n in o.totals.values()).most_common(1)
    return numbers[0][0] if numbers else None


def has_lagging_coll_lines(facts: Facts) -> bool:
    """Whether COLL lines end at one number on most members and earlier on few: hosts of a running job stop at any number, those of a
    job that stands at the same one.
    """
    for one in facts.case.nccl_counters:
        level = len(one.last) - len(one.lagging)
        done = any(facts.liveness.activity(r).has_finished for r in one.last)
        if one.group >= 0 and one.observer != "ras" and not done and level >= LEVEL and 3 * len(one.lagging) <= level:
            return bool(one.lagging)
    return False


def no_ras_answer(facts: Facts, rank: int) -> list[Evidence]:
    """That RAS had no answer of a rank where others answered."""
    found = [one for one in facts.case.nccl_counters if rank in one.silent]
    return [
        counter_evidence(
            one.lines.get(rank) or next(iter(one.lines.values())),
            one,
            f"rank {rank} did not answer RAS, {len(one.members) - len(one.silent)} others did",
        )
        for one in found[:1]
    ]


def counter_evidence(event: Event, one: NcclCounters, says: str, *, supports: bool = True) -> Evidence:
    """What such an observer wrote as evidence: RAS is one of its own, COLL lines are those of their rank, as its dumps are."""
    who = {"coll": f"log:{event.rank}", "comm-dump": f"dump:{event.rank}"}.get(one.observer, one.observer)
    return Evidence(event.place, event.text[:300], says, supports, who)


def _ranks(ranks: set[int]) -> str:
    return f"rank {Ranks(ranks)}" if len(ranks) == 1 else f"ranks {Ranks(ranks)}"
