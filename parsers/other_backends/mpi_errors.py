"""Errors that MPI libraries print about their own connections and calls.

Wordings as logs in public reports quote them (Open MPI, MPICH, Cray MPICH, Intel MPI); the releases are not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, ExceptionRaised, SocketError
from nccldoctor.parsers.base import Line, common, line_parser, reads
from nccldoctor.parsers.rows import Row, RowParser
from nccldoctor.patterns import lazy

_LOST = "MPI communication peer process has unexpectedly disconnected"
_BELOW = 20
_LOCAL_HOST = lazy(r"\bLocal host: {1,8}(?P<host>[\w.-]{1,200})")
_LOCAL_PID = lazy(r"\bLocal PID: {1,8}(?P<pid>\d{1,10})")
_PEER = lazy(r"\bPeer host: {1,8}(?P<peer>[\w.-]{1,200})")


@reads(_LOST)
def lost_peer(line: Line) -> Iterator[Event]:
    """*socket-error*, an echo: the peer ended first, and the process that says so is its victim."""
    told: dict[str, str] = {}
    for below in line.following(_BELOW):
        for pattern in (_LOCAL_HOST, _LOCAL_PID, _PEER):
            if hit := pattern.search(below.body):
                told |= hit.groupdict()
        if "peer" in told:
            break
    own = {"host": told.get("host", line.mark.host), "pid": int(told["pid"]) if "pid" in told else line.mark.pid}
    yield SocketError(**common(line) | own, peer=told.get("peer"), message=_LOST, how="closed", echo=True)


@line_parser
class FatalErrors(RowParser):
    """*exception* of a rank whose call of MPICH failed; an echo where the network or a peer failed it."""

    event = ExceptionRaised
    rows = (
        Row(
            "): Fatal error in ",
            r"Abort\(\d{1,10}\)(?: on node \d{1,7})? \(rank (?P<rank>\d{1,7}) in comm 0\): "
            r"(?P<message>Fatal error in \w{1,80}: "
            r"(?:Other MPI error|Unknown error class|Process failed|.{0,40}[Cc]ommunication error).{0,120})",
            type="MPIError",
            origin="echo",
        ),
        Row(
            "): Fatal error in ",
            r"Abort\(\d{1,10}\)(?: on node \d{1,7})? \(rank (?P<rank>\d{1,7}) in comm 0\): (?P<message>Fatal error in \w{1,80}: .{1,200})",
            type="MPIError",
            origin="own",
        ),
    )
