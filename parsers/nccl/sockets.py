"""Connections of NCCL that closed, broke or never came up.

Sources of the templates: NVIDIA/nccl ``src/misc/socket.cc`` (later ``src/os/linux.cc``), ``src/proxy.cc``,
``src/bootstrap.cc`` at the tags v2.4.2 to v2.30.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, SocketError
from nccldoctor.parsers.base import Line, LineParser, line_parser
from nccldoctor.parsers.nccl.prefix import NcclMessage, host_part, message_fields, messages_or_line
from nccldoctor.patterns import lazy

_CLOSED = lazy(
    r"Connection closed by (?:remote peer (?P<peer>[^\s.]\S{0,99})|(?P<local>localRank \d{1,5}))"
    r"|Could not receive type from (?P<from>localRank \d{1,5})"
)
_FAILED = lazy(
    r"Call to (?:recv|send|connect|poll|accept|getsockopt|bind|listen)\b(?: (?:from|to) (?P<peer>\S{1,100}))?"
    r" (?:failed|returned) ?:? ?(?P<why>.{0,120})"
    r"|[cC]onnect (?:to (?P<peer2>\S{1,100}) )?(?:returned|failed) ?:? ?(?P<why2>.{0,160})"
    r"|(?P<why3>exceeded (?:error )?retr(?:ies|y count).{0,60})"
)
_ODD = lazy(
    r"(?P<stranger>socketFinalizeAccept: wrong (?:magic|type).{0,120})|(?P<setup>No usable listening interface"
    r" found"
    r"|(?:Bootstrap|NET/Socket) ?: no (?:socket )?interface found.{0,80}|Net : No interface found in the same"
    r" subnet as remote address.{0,80}"
    r"|no device found matching .{0,120}verify NCCL_OOB_NET_IFNAME)"
)

_HOW = (
    ("reset", ("Connection reset by peer", "Broken pipe")),
    ("timed-out", ("timed out", "Timed out")),
    ("unreachable", ("No route to host", "unreachable", "Network is down", "Host is down")),
    ("refused", ("Connection refused",)),
)


def how_of(why: str) -> str:
    """The kind of failure that an operating system's error text names."""
    return next((name for name, words in _HOW if any(word in why for word in words)), "other")


def socket_fields(text: str) -> dict[str, Any] | None:
    """The fields of a :class:`SocketError` in the text of one message; None where it tells of no such error.

    A refused connection that is tried again is no error: the other side has not begun to listen yet.
    """
    if hit := _CLOSED.search(text):
        peer = hit["local"] or hit["from"] or host_part(hit["peer"])
        return {"peer": peer, "echo": True, "how": "closed", "message": text[hit.start() :][:300]}
    if hit := _ODD.search(text):
        return {"how": "stranger" if hit["stranger"] else "setup", "message": hit[0][:300]}
    if hit := _FAILED.search(text):
        why = (hit["why"] or hit["why2"] or hit["why3"] or "").strip()
        how = how_of(why)
        if "retrying" in why and how in ("refused", "other"):
            return None
        return {"peer": host_part(hit["peer"] or hit["peer2"]), "how": how, "message": text[hit.start() :][:300]}
    return None


@line_parser
class SocketParser(LineParser):
    """Connections of NCCL that closed, broke or never came up."""

    literals = (
        "Connection closed by remote peer",
        "Connection closed by localRank",
        "from localRank",
        "Call to recv",
        "Call to send",
        "Call to connect",
        "Call to poll",
        "Call to accept",
        "onnect to ",
        "connect returned",
        "exceeded retries",
        "exceeded error retry",
        "socketFinalizeAccept",
        "interface found",
        "verify NCCL_OOB_NET_IFNAME",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One event for each message that tells of such an error."""
        for message in messages_or_line(line):
            if (found := socket_fields(message.message)) is not None and _is_of_nccl(message, found):
                yield SocketError(**message_fields(line, message), **found)


def _is_of_nccl(message: NcclMessage, found: dict[str, Any]) -> bool:
    """Without NCCL's prefix only its own wording counts: other programs connect and fail, too."""
    text = message.message
    return (
        bool(message.level)
        or "ocketProgress" in text
        or "ocketPollConnect" in text
        or "ocketStartConnect" in text
        or (found["how"] == "closed" and "remote peer" in text)
        or "ocketFinalizeAccept" in text
    )
