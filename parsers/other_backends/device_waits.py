"""Kernels that wait for their peers on the GPU and give up: those of DeepEP.

The kernel prints one line for each peer that it misses and traps. CUDA then reports an error (``unspecified launch failure``) on
the rank that waited, so that every victim seems to crash.

Sources: DeepEP ``csrc/kernels`` (``utils.cuh``: after a barrier a positive value of *thread* N says that peer N never came;
``internode.cu`` counts eight ranks to a node; ``internode_ll.cu``; ``deep_ep/include``), February 2025 to July 2026.
All numbers count inside the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, GroupRef, PeerTimeout
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.patterns import lazy

_RANKS_OF_NODE = 8
"""Ranks of a node, as DeepEP's kernels between nodes are compiled (``NUM_MAX_NVL_PEERS``)."""

_DEEP_EP = lazy(
    r"\bDeepEP (?:(?P<what>[A-Za-z][\w() -]{0,60}?) )?timeout(?P<where> check failed| for \w+(?: \w+)?| \([\w ]{1,40}\))?[:,]"
    r"(?P<fields>.{1,300})"
)
_OPERATIONS = {
    "dispatch": "dispatch",
    "notify": "dispatch",
    "combine": "combine",
    "barrier": "barrier",
    "check failed": "barrier",
}
"""What a line says of its kernel, and the operation; *notify* is the first part of a dispatch."""

_RANK = lazy(r"\brank(?: =|:)? (?P<rank>\d{1,6})(?:/(?P<size>\d{1,6}))?")
_PLACE = lazy(r"\b(?:RDMA|IB): (?P<node>\d{1,6}), nvl:? (?P<slot>\d{1,3})")
_PEER = lazy(r"\b(?:src|dst)_rank (?P<peer>\d{1,6})")
_ORIGIN = lazy(
    r"\bsrc RDMA: (?P<node>\d{1,6}), src nvl: (?P<slot>\d{1,3})|\bsrc RDMA(?: lane)?: (?P<lane>\d{1,6})"
    r"|\bsrc NVL: (?P<beside>\d{1,3})"
)
_SIGNAL = lazy(r"\bthread = (?P<peer>\d{1,6}), value = (?P<value>-?\d{1,12})")


def _is_of_peer_that_came(line: Line) -> bool:
    """True of a peer that came: the same rank prints a line of the one that did not."""
    hit = _DEEP_EP.search(line.body)
    signal = _SIGNAL.search(hit["fields"]) if hit else None
    return signal is not None and _has_come(signal)


@reads("DeepEP ", told_elsewhere=_is_of_peer_that_came)
def deep_ep_timeouts(line: Line) -> Iterator[Event]:
    """*peer-timeout*: the rank inside the expert-parallel group that waited, and the peer that it missed where the line tells."""
    hit = _DEEP_EP.search(line.body)
    if hit is None:
        return
    fields = hit["fields"]
    signal = _SIGNAL.search(fields)
    if signal and _has_come(signal):
        return
    own, place = _RANK.search(fields), _PLACE.search(fields)
    words = f"{hit['what']}{hit['where']}"
    yield PeerTimeout(
        **common(line),
        by="DeepEP",
        group=GroupRef(desc="expert-parallel"),
        op="DeepEP " + next((op for word, op in _OPERATIONS.items() if word in words), "kernel"),
        group_rank=int(own["rank"]) if own else _index(place),
        size=int(own["size"]) if own and own["size"] else None,
        peer=int(signal["peer"]) if signal else _peer(fields, place),
    )


def _has_come(signal: re.Match[str]) -> bool:
    return int(signal["value"]) <= 0


def _index(place: re.Match[str] | None) -> int | None:
    return int(place["node"]) * _RANKS_OF_NODE + int(place["slot"]) if place else None


def _peer(fields: str, place: re.Match[str] | None) -> int | None:
    """The peer whose data did not come; tokens cross nodes between ranks of one slot, then the node."""
    if named := _PEER.search(fields):
        return int(named["peer"])
    origin = _ORIGIN.search(fields)
    if origin is None or place is None:
        return None
    if origin["node"]:
        return _index(origin)
    node, slot = (origin["lane"], place["slot"]) if origin["lane"] else (place["node"], origin["beside"])
    return int(node) * _RANKS_OF_NODE + int(slot)
