"""What other frameworks say of missing ranks: Horovod, JAX, XLA, HCCL, torchft, and engines that serve models.

Some name the absent ranks, as Horovod's coordinator and JAX's coordination service do; an engine of vLLM only says that some worker
has not answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.citations import Line
from nccldoctor.diagnose.phrases import reports as words
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.events import Absence, Event, PeerTimeout
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import clique_devices

_GAP = 4
"""Lines between two rows of one report."""


def open_reports(troubles: Iterable[Event]) -> list[Absence]:
    """The newest report of each file among the troubles that nothing answers: no later step, and no good end."""
    by_source: dict[int, list[Absence]] = defaultdict(list)
    for event in troubles:
        if isinstance(event, Absence):
            by_source[event.place.source].append(event)
    return [event for events in by_source.values() for event in _newest_block(events)]


def _newest_block(events: Sequence[Absence]) -> list[Absence]:
    """The rows of the last report in one file.

    A coordinator lists in each report all that is missing at that time.
    """
    block = [events[-1]]
    for event in reversed(events[:-1]):
        if (block[-1].place.line or 0) - (event.place.line or 0) > _GAP or event.by != block[-1].by:
            break
        block.append(event)
    return block[::-1]


def named_ranks(reports: Iterable[Absence], world: Ranks) -> Ranks:
    """All ranks that these reports show to be absent, among all ranks of the job."""
    return Ranks(rank for report in reports for rank in report.absent_ranks(world))


def cite(reports: Sequence[Absence], most: int = 3) -> list[Line]:
    """The first of the reports as evidence."""
    return [Line(e, words.report_words(e)) for e in reports[:most]]


def open_report_headline(reports: Sequence[Absence], world: Ranks) -> str:
    """A headline for reports that do not say whose fault it is; empty where there are none."""
    if not reports:
        return ""
    first = reports[0]
    missing = named_ranks(reports, world)
    if missing:
        return say("reports.misses-most", by=first.by, missing=missing)
    if arrived := devices_that_wait(reports):
        silent = devices_not_heard_of(reports)
        return say("reports.devices-wait", by=first.by, call=first.call, arrived=arrived, silent=silent)
    if first.what == "step":
        stuck = Ranks(e.rank for e in reports if e.rank is not None)
        return say("reports.no-step", stuck=stuck, seconds=first.seconds or None, by=first.by)
    return words.open_report(first)


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


def devices_that_wait(reports: Sequence[Absence]) -> Ranks:
    """The devices of such a clique that arrived."""
    return Ranks(r for e in reports for r in e.reached) if devices_not_heard_of(reports) else Ranks()


def peer_headline(facts: Facts) -> str:
    """A headline for ranks that gave up on a peer; empty where there are none."""
    waits = list(facts.case.of(PeerTimeout))
    if not waits:
        return ""
    ends = _missed_by_others(waits)
    first = next((e for e in waits if e.peer is not None and (e.peer in ends or not ends)), waits[0])
    return words.peer_timed_out(first, _waiting_inside(waits, first) if len(ends) == 1 else Ranks())


def _waiting_inside(waits: Sequence[PeerTimeout], first: PeerTimeout) -> Ranks:
    """The ranks inside one group that waited for the same peer."""
    return Ranks(
        e.group_rank for e in waits if e.group_rank is not None and (e.group, e.peer) == (first.group, first.peer)
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
    return (Ranks([rank]), _one_of_each(named)) if rank >= 0 else (Ranks(), [])


def _one_of_each(waits: Iterable[PeerTimeout]) -> list[PeerTimeout]:
    """The first wait of each rank for each peer."""
    first: dict[tuple[int | None, int | None], PeerTimeout] = {}
    for event in waits:
        first.setdefault((event.group_rank, event.peer), event)
    return list(first.values())
