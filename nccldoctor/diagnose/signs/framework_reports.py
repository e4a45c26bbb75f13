"""What other frameworks say of ranks that did not come: Horovod, JAX, XLA, HCCL, torchft, and engines that serve models.

Some name the absent ranks, as Horovod's coordinator and JAX's coordination service do; an engine of vLLM only says that some worker
has not answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.citations import Line
from nccldoctor.events import Absence, Event, PeerTimeout
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import clique_devices
from nccldoctor.words.names import ranks_phrase, verb

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
    return [Line(e, report_words(e)) for e in reports[:most]]


def report_words(event: Absence) -> str:
    """One report in words: ``Horovod misses rank 2 in grad_conv4``."""
    where = f" in {event.call}" if event.call else ""
    if event.missing:
        return f"{event.by} misses {ranks_phrase(event.missing)}{where}"
    if event.reached and event.arrived == len(event.reached):
        return (
            f"{event.by} waits{where}, in which only {ranks_phrase(event.reached)} {verb(event.reached, 'is', 'are')}"
        )
    if event.what == "step":
        who = f"rank {event.rank}" if event.rank is not None else "a process"
        return f"{who} made no step" + (f" for {event.seconds:,} s" if event.seconds else "")
    return f"{event.by} waits{where}"


def open_report_headline(reports: Sequence[Absence], world: Ranks) -> str:
    """A headline for reports that do not tell whose fault it is; empty where there are none."""
    if not reports:
        return ""
    first = reports[0]
    missing = named_ranks(reports, world)
    if missing:
        return (
            f"{first.by} misses {ranks_phrase(missing)}, {verb(missing, 'which is', 'which are')} most of the job: "
            "ranks disagree about what to do next, and no line says which one left the others"
        )
    if came := devices_that_wait(reports):
        silent = devices_not_heard_of(reports)
        which = f"device{'s' if len(silent) > 1 else ''} {silent} did not report"
        return f"{first.by} waits in {first.call}: device{'s' if len(came) > 1 else ''} {came} came, and {which}"
    if first.what == "step":
        stuck = Ranks(e.rank for e in reports if e.rank is not None)
        who = ranks_phrase(stuck).capitalize() if stuck else "A process"
        limit = f" for {first.seconds:,} s" if first.seconds else ""
        return f"{who} made no step{limit}, says the watchdog of {first.by}; no line says which rank holds them up"
    return _HEADLINES.get(first.what, "{by} waits for ranks that did not come; no line says which").format(
        by=first.by,
        call=f" to {first.call}" if first.call else "",
        where=first.call or "a collective",
        came=_came(first),
        size=first.size,
    )


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
    """The devices of such a clique that came."""
    return Ranks(r for e in reports for r in e.reached) if devices_not_heard_of(reports) else Ranks()


_HEADLINES = {
    "answer": "The engine of {by} waits for an answer of its workers{call}; no line says which worker is late, or why",
    "tokens": "The engine of {by} has requests and makes no token; no line says which worker holds it up",
    "collective": "{by} waits in {where}: {came}",
    "barrier": "{by} waits at barrier {where}: {came}",
    "device": "{by} gave up on a device whose work did not end: it waits for a peer, or its kernel hangs; no line says which",
    "leader": "A task lost the {where} of {by}: task 0, which runs it, ended or was restarted, or the network to it failed",
    "quorum": "{by} waits for a quorum: {came} that it needs; no line says which replica groups are missing",
    "set-up": "The job never came up: {by} waited for processes that did not join; no line says which",
}


def _came(event: Absence) -> str:
    if event.is_unfinished:
        return f"all {event.size} came and it did not end; no line says which one holds it up"
    counted = event.arrived is not None and event.size is not None
    came = f"{event.arrived} of {event.size} came" if counted else "not all came"
    if event.size is None and event.reached:
        came = f"{ranks_phrase(event.reached)} came"
    return came if event.what == "quorum" else f"{came}; no line says which did not"


def peer_headline(facts: Facts) -> str:
    """A headline for ranks that gave up on a peer; empty where there are none."""
    waits = list(facts.case.of(PeerTimeout))
    if not waits:
        return ""
    first = next((e for e in waits if e.peer is not None), waits[0])
    who = f"Rank {first.rank}" if first.rank is not None else "A rank"
    who += f" (device {first.device} of its node)" if first.rank is None and first.device is not None else ""
    call = f" in {first.op}" if first.op else ""
    if first.peer is None:
        return f"{who} gave up on a call{call} of HCCL; no line says which rank it waited for"
    group = f"group {first.group}" if first.group is not None else "its group"
    return f"{who} waited in vain for rank {first.peer} of {group}{call}; that rank may wait for another one itself"


def end_of_chain(facts: Facts) -> tuple[Ranks, list[PeerTimeout]]:
    """The global rank at which a chain of peers ends, with the waits that lead to it.

    Nothing where it is not unique. Example: inside one group rank 0 waits for 3, 3 for 2 and 2 for 1: rank 1 is the end. These numbers
    count inside the group. They differ from the global ones by one number where its ranks are consecutive.
    """
    by_group: dict[str, dict[int, PeerTimeout]] = defaultdict(dict)
    for event in facts.case.of(PeerTimeout):
        if event.peer is not None and event.group_rank is not None:
            by_group[str(event.group)].setdefault(event.group_rank, event)
    if len(by_group) != 1:
        return Ranks(), []
    waits = next(iter(by_group.values()))
    ends = {e.peer for e in waits.values() if e.peer is not None} - waits.keys()
    offsets = {e.rank - own for own, e in waits.items() if e.rank is not None}
    if len(waits) < 2 or len(ends) != 1 or len(offsets) != 1:
        return Ranks(), []
    rank = ends.pop() + offsets.pop()
    return (Ranks([rank]), list(waits.values())) if rank >= 0 else (Ranks(), [])
