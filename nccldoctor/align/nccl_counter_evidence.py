"""Turns the call counts of NCCL's own observers (RAS, COLL lines, communicator dumps) into evidence about one call."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from nccldoctor.align.exits import SLACK
from nccldoctor.align.facts import Facts
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.events import CollCall, CommInit, Event, RasStatus
from nccldoctor.identify.nccl_counters import NcclCounters, calls_by_communicator
from nccldoctor.model import Evidence
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.numbers import plural

OP_TYPES = {
    "AllReduce": "ALLREDUCE",
    "Broadcast": "BROADCAST",
    "Reduce": "REDUCE",
    "AllGather": "ALLGATHER",
    "ReduceScatter": "REDUCE_SCATTER",
}
"""NCCL's name of an operation to the watchdog's."""

LEVEL = 3
"""Fewest members whose lines must end at one number before it counts as more than chance."""


def counters_of(facts: Facts, call: StuckCall | None) -> NcclCounters | None:
    """The counters that a stuck call is known from; None where PyTorch's own sequence numbers name it."""
    if call is None:
        return None
    return next((one for one in facts.case.nccl_counters if one.group == call.group), None)


def steady_queries(facts: Facts, one: NcclCounters) -> tuple[Event, float] | None:
    """The newest of several queries with the same counts, and its seconds after the first."""
    queries = [e for e in facts.case.of(RasStatus) if e.comm_id == one.comm and e.counts]
    timed = [e for e in queries if not math.isnan(facts.liveness.time(e))]
    if not one.is_steady or not timed:
        return None
    newest = max(timed, key=facts.liveness.time)
    apart = facts.liveness.time(newest) - min(map(facts.liveness.time, timed))
    return (newest, apart) if apart > 0 else None


def issue_evidence(facts: Facts, call: StuckCall, what: str, most: int) -> list[Evidence]:
    """Evidence that ranks inside a call issued it: a line of each, or the report that counts them together."""
    one = counters_of(facts, call)
    if one is None:
        return []
    lines: dict[str, tuple[Event, set[int]]] = {}
    for rank in call.inside:
        event = one.lines.get(rank)
        if event is not None:
            lines.setdefault(str(event.place), (event, set()))[1].add(rank)
    return [
        counter_evidence(event, one, f"{ranks_phrase(ranks).capitalize()} called {what}.")
        for event, ranks in list(lines.values())[:most]
    ]


def answered_ras(facts: Facts, rank: int) -> list[Evidence]:
    """Evidence that a rank answered RAS while the others waited.

    The report must have a time within the stall, or count fewer calls for this rank than for others.
    """
    for one in facts.case.nccl_counters:
        is_asked = one.observer == "ras" and rank in one.last and is_of_stall(facts, one)
        if is_asked and (rank in one.lagging or has_time(facts, one)):
            return [counter_evidence(one.lines[rank], one, f"Rank {rank} answered RAS, so its process was running.")]
    return []


def is_of_stall(facts: Facts, one: NcclCounters) -> bool:
    """True unless the counts were taken before the stalled call; counts without a time pass."""
    began = facts.liveness.began if not math.isnan(facts.liveness.began) else facts.liveness.alarm
    at = facts.liveness.time(next(iter(one.lines.values())))
    return not at < began - SLACK


def has_time(facts: Facts, one: NcclCounters) -> bool:
    """True when the counts have a time."""
    return not math.isnan(facts.liveness.time(next(iter(one.lines.values()))))


def can_wait_elsewhere(facts: Facts, one: NcclCounters, rank: int) -> bool:
    """True when a rank may wait in a communicator whose members are unknown or whose calls cannot be counted."""
    known = {other.comm for other in facts.case.nccl_counters}
    if one.observer == "ras":
        return any(uneven_communicators(facts, known))
    if one.observer == "comm-dump":
        own = [s for d, r in zip(facts.case.dumps, facts.case.dump_rank, strict=True) if r == rank for s in d.comms]
        return any(state.unfinished >= 0 and state.comm not in known for state in own)
    newest = max(facts.case.of(CollCall, rank), key=lambda e: (e.place.source, e.place.line or 0), default=None)
    named = calls_by_communicator(facts.case.of(CommInit), facts.case.of(CollCall))
    return newest is not None and not any(newest in calls for name, calls in named.items() if name in known)


def uneven_communicators(facts: Facts, known: Collection[str]) -> Iterator[RasStatus]:
    """RAS lines of uneven communicators whose global ranks are not known."""
    yield from (e for e in facts.case.of(RasStatus) if e.what == "MISMATCH" and e.counts and e.comm_id not in known)


def has_lagging_coll_lines(facts: Facts) -> bool:
    """True when COLL lines end at one number on most members and earlier on a few.

    The lines of a running job stop at any number; those of a stuck job stop at the same one. Ranks 0-6 end at opCount 412 and
    rank 7 ends at 411: rank 7 lags.
    """
    for one in facts.case.nccl_counters:
        level = len(one.last) - len(one.lagging)
        finished = any(facts.liveness.activity(r).has_finished for r in one.last)
        few = level >= LEVEL and 3 * len(one.lagging) <= level
        if one.group >= 0 and one.observer != "ras" and not finished and few:
            return bool(one.lagging)
    return False


def no_ras_answer(facts: Facts, rank: int) -> list[Evidence]:
    """Evidence that a rank did not answer RAS where others did."""
    for one in facts.case.nccl_counters:
        if rank in one.silent:
            line = one.lines.get(rank) or next(iter(one.lines.values()))
            others = len(one.members) - len(one.silent)
            return [counter_evidence(line, one, f"Rank {rank} didn't answer RAS; {plural(others, 'other rank')} did.")]
    return []


def counter_evidence(event: Event, one: NcclCounters, says: str) -> Evidence:
    """A line as evidence; COLL lines and communicator dumps are observed by their rank, RAS by itself."""
    who = {"coll": f"log:{event.rank}", "comm-dump": f"dump:{event.rank}"}.get(one.observer, one.observer)
    return Evidence(event.place, event.text[:300], says, observer=who)
