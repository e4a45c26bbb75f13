"""Finds addresses that say by themselves that a rank took the wrong network interface."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from nccldoctor.events import CommInit, SocketError, StoreError
from nccldoctor.identify.case import Case
from nccldoctor.model.hosts import host_key, why_unreachable

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
