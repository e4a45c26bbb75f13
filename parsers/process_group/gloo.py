"""Connections that Gloo lost: a worker that is gone takes its connections with it, and its peers print this.

Sources: gloo ``transport/tcp/pair.cc``, ``transport/tcp/unbound_buffer.cc`` and pytorch ``ProcessGroupGloo.cpp``, as
built into torch 1.8 to 2.13. A receive that timed out is no broken connection: the peer may merely be late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, SocketError
from nccldoctor.parsers.base import Line, common, finds
from nccldoctor.parsers.nccl.sockets import how_of
from nccldoctor.patterns import lazy

_PEER = r"\[(?P<{0}>[^\[\]\s]{{1,60}})\]:\d{{1,5}}"

_LOST = lazy(
    rf"gloo/transport/\S{{1,80}}\] (?:(?P<closed>Connection closed by peer) {_PEER.format('peer')}"
    rf"|(?:Read|Write|writev|readv) error {_PEER.format('peer2')}: (?P<why>[A-Z][\w ]{{1,60}}))"
    r"|Gloo connectFullMesh failed with (?P<mesh>.{1,240})"
)
_REMOTE = lazy(rf"remote=(?P<to>{_PEER.format('ip')})")


@finds(_LOST, "gloo/transport/", "Gloo connectFullMesh failed")
def gloo(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*socket-error*, always an echo: Gloo names the address of the peer that is gone, not why it went.

    One event for a line; a mesh that did not come up names the peer it tried last.
    """
    peer = hit["peer"] or hit["peer2"]
    if hit["mesh"] and (tried := _REMOTE.search(hit["mesh"])):
        peer = tried["ip"]
    mesh = "".join(hit["mesh"].partition("[none]")[:2]) if hit["mesh"] else ""  # the last word of gloo
    how = "closed" if hit["closed"] else "setup" if hit["mesh"] else how_of(hit["why"])
    message = f"Gloo connectFullMesh failed with {mesh}" if mesh else hit[0].partition("] ")[2]
    yield SocketError(**common(line), peer=peer, echo=True, how=how, message=message[:300])
