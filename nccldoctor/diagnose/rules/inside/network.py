"""All members are in the call, and the transport reports errors.

What it means: a link, a port, a NIC or the fabric between two hosts failed.
How we know: completion errors or port events that are no echo of a dead peer (status 5 only follows another error, *closed by remote peer*
follows an end). Named is the end with the port error, else both ends.
What would refute it: an end of the peer's process before the first error.
"""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.align.failures import Failure
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Citation, Line, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.events import Event, IbError, KernelEvent, NcclError, SchedulerEvent, SocketError
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.hosts import endpoint_address
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import is_unresponsive_peer
from nccldoctor.words.names import ranks_phrase

CAUSE = CauseClass.NETWORK

UNANSWERED = 12
"""The completion status of a send that nobody answered: the path is broken, or the other process is gone."""

_KERNEL = {"nic": "network adapter in trouble", "link-down": "link that went down", "pcie": "PCIe error"}


@rule(CAUSE, refuted_by="an end of the peer's process before the first error")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The first transport error that nobody's end explains."""
    found = [f for f in facts.failures if f.cause is CAUSE]
    ended = [
        f
        for f in facts.failures
        if (f.cause in (CauseClass.DIED, CauseClass.RAISED) and f.ranks and f.certain) or _is_node_failure(f)
    ]
    if not found or (
        ended and not any(isinstance(e, IbError) and e.what in ("port", "async") for e in found[0].events)
    ):
        return None
    first = found[0]
    if _is_one_sided(facts, first):
        end = _common_peer(first.events)
        return None if end is None or stall.kind is StallKind.ABSENT else _lost_way_to_peer(facts, stall, first, end)
    if not first.certain and stall.call is None:
        return None
    ports = [
        e
        for e in first.events
        if (isinstance(e, IbError) and e.what in ("port", "async")) or isinstance(e, KernelEvent)
    ]
    evidence: list[Citation] = [Line(e, _says(e), observer=_observer(e)) for e in first.events[:6]]
    evidence += [
        Line(e, f"NCCL on rank {e.rank} gave up: {e.code}")
        for e in facts.case.of(NcclError)
        if e.rank not in first.ranks
    ][:2]
    evidence.append(Waiting(stall.call))
    wait = f"; {stall.what} cannot end" if stall.call is not None else ""
    verb = "report" if len(first.ranks) > 1 else "reports"
    what = f"a {_what(ports[0])}" if ports and first.ranks else f"transport errors: {_what(first.events[0])}"
    who = (
        ranks_phrase(first.ranks).capitalize()
        if first.ranks
        else next((e.host for e in first.events if e.host), "A host")
    )
    doubts = (
        []
        if ports
        else [
            Doubt(
                "no port reports an error: either end, or the path, may be at fault",
                Confidence.MEDIUM,
                Confidence.MEDIUM,
            )
        ]
    )
    if len(first.ranks) != 1:
        doubts.append(Doubt.at_most(Confidence.MEDIUM, "the errors do not single out one end"))
    return Hypothesis(
        f"{who} {verb} {what}{wait}",
        evidence,
        doubts,
        ranks=first.ranks,
        suspects=first.suspects,
        call=stall.call,
    )


def _common_peer(events: Sequence[Event]) -> str | None:
    """The address that all of several observers lost, where it is one and the same."""
    lost = [e for e in events if isinstance(e, IbError | SocketError) and e.peer and e.rank is not None]
    ends = {endpoint_address(e.peer) for e in lost if e.peer}
    return ends.pop() if len(ends) == 1 and len({e.rank for e in lost}) > 1 else None


def _lost_way_to_peer(facts: Facts, stall: ObservedStall, failure: Failure, end: str) -> Hypothesis:
    """Concludes a broken way to one peer that several ranks lost without any end of its processes.

    The fault is in its adapter, its path, or the whole host.
    """
    evidence: list[Citation] = [*(Line(e, _says(e)) for e in failure.events[:6]), Waiting(stall.call)]
    what = _what(failure.events[0]).replace(f" to {end}", "")
    return Hypothesis(
        f"{ranks_phrase(failure.ranks).capitalize()} lost the way to one and the same end, {end}: {what}",
        evidence,
        (Doubt.at_most(Confidence.MEDIUM, "the adapter, the path or the whole host may be at fault"),),
        ranks=failure.suspects,
        call=stall.call,
        refuted_by="an end of the peer's process before the first error, or the same errors towards other hosts",
    )


def _is_one_sided(facts: Facts, failure: Failure) -> bool:
    """True when the peer's processes rather than the link seem to be gone.

    Only one host complains, no port reports an error, and ranks of another host are silent. Nothing of other hosts was
    read where all known ranks are on this one: then they may be silent as well.
    """
    if any(
        (isinstance(e, IbError) and e.what in ("port", "async")) or isinstance(e, KernelEvent) for e in failure.events
    ):
        return False
    if any(isinstance(e, IbError) and _is_local_error(e) for e in failure.events):
        return False
    hosts = {facts.case.rank_host.get(r) for r in failure.ranks}
    silent = facts.case.world - Ranks(
        r for r, s in facts.liveness.by_rank.items() if s.is_alive or s.exits or s.secondary_errors
    )
    unread = facts.case.world_size is None or hosts == set(facts.case.rank_host.values())
    return len(hosts) == 1 and (bool(silent) or unread) and bool(failure.ranks)


def _is_local_error(event: IbError) -> bool:
    """True when an error is more than a missing answer: one of the provider, or of this end."""
    if event.what == "completion":
        return not event.is_flush and event.status not in (None, UNANSWERED)
    return event.what in ("fabric", "setup") and not is_unresponsive_peer(event.message)


def _is_node_failure(failure: Failure) -> bool:
    return any(isinstance(e, SchedulerEvent) and e.what == "node-failure" for e in failure.events)


def _what(event: Event) -> str:
    if isinstance(event, KernelEvent):
        return f"{_KERNEL.get(event.what, event.what.replace('-', ' '))}: {event.text[:80]}"
    if isinstance(event, IbError):
        peer = f" to {event.peer}" if event.peer else ""
        return (
            f"{event.what} error{peer}"
            + (f", status {event.status}" if event.status is not None else "")
            + (f" on {event.hca}" if event.hca else "")
        )
    words = event.message if isinstance(event, SocketError) else event.text
    return words[:80] + event.group_rank_note


def _says(event: Event) -> str:
    who = f"rank {event.rank}" if event.rank is not None else (event.host or "a host")
    return f"{who}: {_what(event)}"


def _observer(event: Event) -> str:
    if isinstance(event, KernelEvent):
        return f"kernel:{event.host or ''}"
    return f"port:{event.rank}" if isinstance(event, IbError) and event.what in ("port", "async") else ""
