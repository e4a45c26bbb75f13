"""Finds addresses that say by themselves that a rank took the wrong network interface, and names that do not resolve."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from nccldoctor.events import CommInit, Event, ExceptionRaised, SocketError, StoreError, TearDown
from nccldoctor.identify.case import Case
from nccldoctor.model.hosts import host_key, why_unreachable
from nccldoctor.parsers.event_details import has_tried_address

_NO_ANSWER = ("refused", "timed-out", "unreachable", "setup")


Endpoint = CommInit | SocketError | StoreError


def wrong_addresses(case: Case) -> Iterator[tuple[Endpoint, str]]:
    """Failed connections to an address that nobody can reach, and ranks that offer such an address, each with the reason.

    Example: ranks of two hosts print ``Bootstrap : Using lo:127.0.0.1<0>``.
    """
    told = (e.host for e in chain[CommInit | SocketError](case.of(CommInit), case.of(SocketError)) if e.host)
    has_others = len({host_key(host) for host in chain(case.rank_host.values(), told)}) > 1
    failed = ((e, e.peer) for e in case.of(SocketError) if e.how in _NO_ANSWER)
    offered = ((e, e.address) for e in case.of(CommInit))
    stores = ((e, e.address.rpartition(":")[0]) for e in case.of(StoreError) if e.operation == "connect" and e.address)
    for event, address in chain[tuple[Endpoint, str | None]](failed, offered, stores):
        if address and (why := why_unreachable(address, from_other_hosts=has_others)):
            yield event, why


def lookups_in_vain(case: Case) -> tuple[StoreError, ...]:
    """Failed lookups of a store's name, where every process that printed one shows nothing later but that it gives up.

    Example of others: no IPv6 address is found, the lookup of an IPv4 address succeeds, and a rank goes on to its steps. The warnings of
    its peers are as harmless then.
    """
    lookups = [e for e in case.of(StoreError) if e.operation == "resolve"]
    last: dict[int, dict[int | None, int]] = defaultdict(dict)
    for lookup in lookups:
        last[lookup.place.source][lookup.rank] = lookup.place.line or 0
    gone_on = {
        (event.place.source, rank)
        for event in case.events
        if (here := last.get(event.place.source)) and _is_further(event)
        for rank in (here if event.rank is None else (event.rank,))
        if rank in here and (event.place.line or 0) > here[rank]
    }
    harmless = {e.address for e in lookups if (e.place.source, e.rank) in gone_on}
    return tuple(e for e in lookups if e.address not in harmless)


def _is_further(event: Event) -> bool:
    """True of a line of a process that got further than to look up a name."""
    if isinstance(event, StoreError):
        return event.operation not in ("connect", "resolve") or has_tried_address(event.text)
    if isinstance(event, ExceptionRaised):
        return event.origin == "own"
    return event.is_sign_of_life and event.is_testimony and not isinstance(event, TearDown)
