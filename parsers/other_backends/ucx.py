"""Errors of UCX, which UCC, Open MPI, NVSHMEM and NIXL send through.

Source: openucx/ucx ``src/uct/ib/mlx5/ib_mlx5_log.c`` (the adapter's syndromes), ``src/ucs/sys/sock.c``; logs of 1.8 to 1.16 in
public reports.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, IbError, SocketError
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.nccl.sockets import how_of
from nccldoctor.patterns import lazy

_COMPLETION = lazy(
    r"\b(?P<message>(?:[A-Z]\w{1,20}(?:[ -]\w{1,20}){0,8} on (?P<hca>[\w.-]{1,40}):(?P<port>\d{1,3})/\w{1,10}"
    r"|Error on QP 0x[0-9a-f]{1,8} wqe\[\d{1,8}\]: .{1,60}?) \(synd 0x(?P<syndrome>[0-9a-f]{1,2}) vend 0x(?P<vendor>[0-9a-f]{1,2})\b)"
)
_CONNECT = lazy(
    r"\bUCX {1,2}ERROR (?P<message>connect\(fd=-?\d{1,9}, dest_addr=(?P<peer>[^\s)]{1,80})\) failed: .{1,120})"
)

_STATUS = {
    0x01: 1, 0x02: 2, 0x04: 4, 0x05: 5, 0x06: 6, 0x10: 7, 0x11: 8, 0x12: 9, 0x13: 10, 0x14: 11, 0x15: 12, 0x16: 13, 0x22: 16,
}  # fmt: skip
"""The completion status (``ibv_wc_status``) that a syndrome of the adapter stands for (rdma-core ``providers/mlx5/cq.c``)."""


@reads(" (synd 0x", "ERROR connect(fd=", needs=(_COMPLETION, _CONNECT))
def ucx_errors(line: Line) -> Iterator[Event]:
    """*ib-error* of a completion that failed, *socket-error* of a connection that never came up."""
    if hit := _COMPLETION.search(line.body):
        yield IbError(
            **common(line),
            what="completion",
            status=_STATUS.get(int(hit["syndrome"], 16)),
            vendor_err=int(hit["vendor"], 16),
            hca=hit["hca"],
            port=int(hit["port"]) if hit["port"] else None,
            message=hit["message"],
        )
    elif hit := _CONNECT.search(line.body):
        yield SocketError(**common(line), peer=hit["peer"], message=hit["message"], how=how_of(hit["message"]))
