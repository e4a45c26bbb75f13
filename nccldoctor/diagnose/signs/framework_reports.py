"""What other frameworks say of missing ranks: Horovod, JAX, XLA, HCCL, torchft, and engines that serve models.

Some name the absent ranks, as Horovod's coordinator and JAX's coordination service do; an engine of vLLM only says that some worker
has not answered. Horovod may also show two branches: ``loss [ready ranks: 3], conv1 [ready ranks: 0, 1, 2]`` are sides that wait for each
other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.hypothesis import Hypothesis, Line
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.events import Absence, Event, PeerTimeout
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import clique_devices

_GAP = 4
"""Lines between two rows of one report."""

_OPEN = {
    "answer": "reports.open-answer",
    "tokens": "reports.open-tokens",
    "collective": "reports.open-collective",
    "barrier": "reports.open-barrier",
    "device": "reports.open-device",
    "leader": "reports.open-leader",
    "quorum": "reports.open-quorum",
    "set-up": "reports.open-init",
}
"""Headlines by what a report that names no rank waits for."""


def open_reports(troubles: Iterable[Event]) -> list[Absence]:
    """The newest report of each process, unless a later step or a good end answers it. One file may hold those of several ranks."""
    by_process: dict[tuple[int, int | None], list[Absence]] = defaultdict(list)
    for event in troubles:
        if isinstance(event, Absence):
            by_process[event.place.source, event.rank].append(event)
    return [event for events in by_process.values() for event in _newest_block(events)]


def _newest_block(events: Sequence[Absence]) -> list[Absence]:
    """The rows of the last report of one process. A coordinator lists in each report all that is missing at that time."""
    block = [events[-1]]
    for event in reversed(events[:-1]):
        if (block[-1].place.line or 0) - (event.place.line or 0) > _GAP or event.by != block[-1].by:
            break
        block.append(event)
    return block[::-1]


def named_ranks(reports: Iterable[Absence], world: Ranks) -> Ranks:
    """All ranks that these reports show to be absent, among all ranks of the job."""
    return Ranks(rank for report in reports for rank in report.absent_ranks(world))


def cite(reports: Sequence[Absence]) -> list[Line]:
    """The first of the reports as evidence."""
    return [Line(e, _report_words(e)) for e in reports[:3]]


def _report_words(event: Absence) -> str:
    """What one report says: ``Horovod is missing rank 2 in grad_conv4.``"""
    if event.missing:
        return say("reports.is-missing", by=event.by, missing=event.missing, call=event.call)
    if event.reached and event.arrived == len(event.reached):
        return say("reports.waits-with", by=event.by, call=event.call, reached=event.reached)
    if event.what == "step":
        return say("reports.made-no-step", rank=event.rank, seconds=event.seconds or None)
    return say("reports.waits", by=event.by, call=event.call)


def open_report_headline(reports: Sequence[Absence], world: Ranks) -> str:
    """A headline for reports that do not say whose fault it is; empty where there are none."""
    if not reports:
        return ""
    first = reports[0]
    missing = named_ranks(reports, world)
    if missing:
        return say("reports.misses-most", by=first.by, missing=missing)
    if silent := devices_not_heard_of(reports):
        arrived = Ranks(r for e in reports for r in e.reached)
        return say("reports.devices-wait", by=first.by, call=first.call, arrived=arrived, silent=silent)
    if first.what == "step":
        stuck = Ranks(e.rank for e in reports if e.rank is not None)
        return say("reports.no-step", stuck=stuck, seconds=first.seconds or None, by=first.by)
    came = say("reports.all-arrived", size=first.size)
    if not first.is_unfinished:
        reached, is_last = first.reached if first.size is None else None, first.what == "quorum"
        came = say("reports.some-arrived", reached=reached, arrived=first.arrived, size=first.size, is_last=is_last)
    return say(_OPEN.get(first.what, "reports.open"), by=first.by, call=first.call, came=came)


def devices_not_heard_of(reports: Iterable[Absence]) -> Ranks:
    """The devices of a clique of XLA without a line of their own, where most of them wait.

    Example: devices 0, 1 and 3 of ``clique=devices=[0,1,2,3]`` each say that they wait: device 2 did not report.
    """
    cliques = {clique_devices(e.text): e for e in reports if e.reached}
    if len(cliques) != 1:
        return Ranks()
    members = next(iter(cliques))
    silent = members - (r for e in reports for r in e.reached)
    return silent if 2 * len(silent) < len(members) else Ranks()


def peer_headline(facts: Facts) -> str:
    """A headline for ranks that gave up on a peer; empty where there are none."""
    waits = list(facts.case.of(PeerTimeout))
    if not waits:
        return ""
    ends = _missed_by_others(waits)
    first = next((e for e in waits if e.peer is not None and (e.peer in ends or not ends)), waits[0])
    if first.peer is None:
        call = first.op or say("reports.call-of", by=first.by)
        return say("reports.peer-timed-out", rank=first.rank, device=first.device, call=call)
    own = [e for e in waits if e.group == first.group and (e.peer in ends if ends else e.peer == first.peer)]
    peers = Ranks(e.peer for e in own if e.peer is not None)
    waiting = Ranks(e.group_rank for e in own if e.group_rank is not None) if ends else Ranks()
    return say(
        "reports.waited-for-peer",
        rank=first.rank,
        device=first.device,
        waiting=waiting if first.rank is None else None,
        peers=peers,
        group=first.group.spoken if first.group is not None else None,
        op=first.op,
    )


def _missed_by_others(waits: Iterable[PeerTimeout]) -> set[int]:
    """The peers, numbered inside their group, that somebody waited for and that report no wait themselves."""
    named = [e for e in waits if e.peer is not None]
    return {e.peer for e in named if e.peer is not None} - {e.group_rank for e in named}


def end_of_chain(facts: Facts) -> tuple[Ranks, list[PeerTimeout]]:
    """The global rank at which a chain of peers ends, with the waits that lead to it.

    Nothing where it is not unique. Example: inside one group rank 0 waits for 3, 3 for 2 and 2 for 1: rank 1 is the end. These numbers
    count inside the group. They differ from the global ones by one number where its ranks are consecutive.
    """
    named = [e for e in facts.case.of(PeerTimeout) if e.peer is not None and e.group_rank is not None]
    ends = _missed_by_others(named)
    offsets = {e.rank - e.group_rank for e in named if e.rank is not None and e.group_rank is not None}
    waiting = {e.group_rank for e in named}
    if len({str(e.group) for e in named}) != 1 or len(waiting) < 2 or len(ends) != 1 or len(offsets) != 1:
        return Ranks(), []
    rank = ends.pop() + offsets.pop()
    first: dict[tuple[int | None, int | None], PeerTimeout] = {}
    for event in named:
        first.setdefault((event.group_rank, event.peer), event)
    return (Ranks([rank]), list(first.values())) if rank >= 0 else (Ranks(), [])


def find_branches(facts: Facts, reports: Iterable[Absence]) -> Hypothesis | None:
    """Two calls that share no rank; the smaller side differs where it is a third of the job at most."""
    world = facts.case.world
    sides = _calls_apart(facts, [e for e in reports if e.what == "collective"])
    if sides is None or facts.progress.recorded_ranks:
        return None
    few, most = sides
    odd, rest = few[0], most[0]
    is_whole = facts.case.world_size is not None or bool(few[1].reached and most[1].reached)
    is_minority = is_whole and 3 * len(odd) <= len(world) and world == odd | rest
    doubts = [doubt_of("only-this-report", by=few[1].by)]
    if facts.case.world_size is None:
        doubts.append(doubt_of("no-world-size"))
    if not is_minority:
        doubts.append(doubt_of("no-majority-reports"))
    one, other, tensors = few[1].call, most[1].call, few[1].by == "Horovod"
    return Hypothesis(
        headline_of("reports.branches-apart", odd=odd, odd_call=one, rest=rest, rest_call=other, tensors=tensors),
        [Line(e, say("reports.submitted", ranks=ranks)) for ranks, e in sides],
        doubts,
        ranks=odd if is_minority else Ranks(),
        suspects=Ranks() if is_minority else world,
        victims=rest if is_minority else Ranks(),
        refuted_by=say("refuted.one-line-of-code"),
    )


def _calls_apart(facts: Facts, reports: Iterable[Absence]) -> list[tuple[Ranks, Absence]] | None:
    """Two calls that no rank has both submitted, the one of fewer ranks first, with a report of each.

    Ranks that some call misses submitted those in whose rows they are not; where the size of the job is known, so did all others.
    """
    rows = list(reports)
    listed = Ranks(r for e in rows for r in e.missing)
    came: dict[Ranks, Absence] = {}
    for call in dict.fromkeys(e.call or "" for e in rows):
        events = [e for e in rows if (e.call or "") == call]
        missing = Ranks(r for e in rows if e in events or call in e.text for r in e.missing)
        reached = Ranks(r for e in events for r in e.reached)
        if not reached and missing:
            reached = (facts.case.world if facts.case.world_size is not None else listed) - missing
        if reached:
            came.setdefault(reached, events[0])
    if not came:
        return None
    most = max(came, key=lambda ranks: (len(ranks), -min(ranks)))
    apart = [ranks for ranks in came if not ranks & most]
    few = min(apart, key=lambda ranks: (len(ranks), min(ranks)), default=None)
    return [(few, came[few]), (most, came[most])] if few else None
