"""Finds the two ends of a connection whose errors a finding cites.

Rank 10 on dgx-a3 lost 10.0.3.11, and rank 2 on dgx-a1 lost 10.0.3.13: one link between two hosts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.events import CommInit, Event, IbError, SocketError, StoreError
from nccldoctor.model import CauseClass, Finding
from nccldoctor.model.figures import BrokenLink, LinkEnd
from nccldoctor.model.hosts import endpoint_address, short_host
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.sanitize import line

REPORTS = 2
"""Reports of one end that are shown."""

STATUSES = {
    4: "local protection error",
    9: "remote invalid request",
    10: "remote access error",
    11: "remote operation error",
    12: "transport retry counter exceeded",
    13: "receiver-not-ready retry counter exceeded",
}
"""Completion statuses that NCCL prints as numbers (rdma-core, ``ibv_wc_status``)."""


def broken_link(facts: Facts, finding: Finding) -> BrokenLink | None:
    """The link whose error a finding about links cites; None where it cites none, or no end is known."""
    if finding.cause not in (CauseClass.NETWORK, CauseClass.INIT):  # of other causes it is an echo
        return None
    cited = {item.where for item in finding.evidence if item.supports}
    errors = [e for e in facts.case.events.of_kind(IbError, SocketError, StoreError) if e.place in cited]
    first = next((e for e in errors if e.rank in finding.ranks), errors[0] if errors else None)
    if first is None:
        return None
    host = _host_of(facts, first)
    near = [e for e in errors if _host_of(facts, e) == host]
    lost = next((endpoint_address(peer) for e in (first, *near) if (peer := _peer_of(e))), "")
    others = {_host_of(facts, e) for e in errors if _peer_of(e)} - {host, ""}
    at: dict[str, set[str]] = defaultdict(set)
    for init in facts.case.of(CommInit):
        if init.address and init.host:
            at[endpoint_address(init.address)].add(short_host(init.host))
    hosts = at.get(lost, set())
    far_host = (next(iter(hosts)) if len(hosts) == 1 else "") or (others.pop() if len(others) == 1 else "")
    if not (host or first.rank is not None) or not (lost or far_host):
        return None
    far = [e for e in errors if far_host and _host_of(facts, e) == far_host]
    own = next((endpoint_address(peer) for e in far if (peer := _peer_of(e))), "")
    decisive = next((e for e in (first, *near) if _peer_of(e)), first)
    return BrokenLink(_link_end(host, own, near), _link_end(far_host, lost, far), _error(decisive))


def _peer_of(event: Event) -> str:
    return (event.peer or "") if isinstance(event, IbError | SocketError) else ""


def _host_of(facts: Facts, event: Event) -> str:
    named = facts.case.rank_host.get(event.rank, "") if event.rank is not None else ""
    return named or short_host(event.host or "")


def _link_end(host: str, address: str, errors: Sequence[Event]) -> LinkEnd:
    ports = (f"{e.hca}" + (f" port {e.port}" if e.port else "") for e in errors if isinstance(e, IbError) and e.hca)
    return LinkEnd(
        host=host,
        address=address,
        ranks=Ranks(e.rank for e in errors if e.rank is not None),
        device=next(ports, ""),
        reports=tuple(dict.fromkeys(_error(e) for e in errors))[:REPORTS],
    )


def _error(event: Event) -> str:
    if isinstance(event, IbError) and event.status is not None:
        words = STATUSES.get(event.status, "completion error")
        return f"{words} (status {event.status})"
    if isinstance(event, IbError) and event.event:
        return line(event.event, 40)
    return event.phrase()
