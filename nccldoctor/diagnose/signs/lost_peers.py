"""Finds the far end of connections that broke: the host that closed them, or the store that was lost.

Example: rank 1 prints ``Connection closed by remote peer node9<44012>``. Nothing was read of node9, which is where to look.
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.events import CommInit, NcclError, SocketError, StoreError
from nccldoctor.model.hosts import host_key, is_loopback
from nccldoctor.model.ranks import Ranks

_BROKEN = ("closed", "reset")

_OF_OWN = ("ncclUnhandledCudaError", "ncclInvalidUsage", "ncclInvalidArgument")
"""Errors of NCCL that no lost peer causes."""


def closed_by(facts: Facts) -> tuple[str, list[SocketError]]:
    """The one host that closed connections, with the lines that say so; "" where lines of that host complain too.

    The loopback address names no host.
    """
    broken = [e for e in facts.case.of(SocketError) if e.how in _BROKEN and e.peer and "localRank" not in e.peer]
    names_of = {e.address.split("<")[0]: e.host for e in facts.case.of(CommInit) if e.address and e.host}
    ends = {host_key(host): host for e in broken if e.peer and (host := names_of.get(e.peer) or e.peer)}
    complaining = {host_key(e.host) for e in broken if e.host}
    left = [host for key, host in ends.items() if key not in complaining and not is_loopback(host)]
    if len(left) != 1:
        return "", []
    return left[0], [e for e in broken if e.peer and (names_of.get(e.peer) or e.peer) == left[0]]


def lost_store(facts: Facts) -> tuple[str, list[StoreError]]:
    """What to say of a store that ranks lost, with their lines; "" where nobody lost it.

    Nothing either where NCCL reports an error that no lost peer causes: it tells more.
    """
    lost = [e for e in facts.case.of(StoreError) if e.operation in ("recv", "send")]
    if not lost or any(e.code in _OF_OWN for e in facts.case.of(NcclError)):
        return "", []
    ranks = Ranks(e.rank for e in lost if e.rank is not None)
    address = next((e.address for e in lost if e.address), None)
    return say("trouble.store-lost", ranks=ranks, address=address), lost
