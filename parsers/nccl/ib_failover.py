"""NCCL that goes on over another port after an InfiniBand error (``NCCL_IB_RESILIENCY_PORT_FAILOVER``), or cannot.

Source: NVIDIA/nccl ``src/transport/net_ib/p2p_resiliency.cc`` and ``p2p.cc``, v2.29.7 to v2.32. With it switched on, the failed
completion itself is told at level INFO, and only what follows says whether the job survived it.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, IbError, Note
from nccldoctor.parsers.base import Line, LineParser, line_parser
from nccldoctor.parsers.nccl.prefix import message_fields, messages_or_line
from nccldoctor.patterns import lazy

_LOST = lazy(
    r"NET/IB ?: (?:\w{1,80}: )?(?P<text>The error is fatal \([^)]{1,80}\)|Fatal error\. Detected \d{1,4} failed devices out of \d{1,4}"
    r"|Got CQE with error|Unsupported completion status [\w ,.'\-]{1,80}\((?P<status>\d{1,5})\)"
    r"|Could not find a replacement QP for the failed QP).{0,200}"
)
_SURVIVED = lazy(r"NET/IB ?: (?:\w{1,80}: )?The error is not fatal\. Trying to continue")


def can_read(text: str) -> bool:
    """True when this parser understands the text of an NCCL message."""
    return _LOST.search(text) is not None


@line_parser
class IbFailover(LineParser):
    """*ib-error* where no port is left, a note where the transport goes on over another one."""

    literals = (
        "The error is fatal (",
        " failed devices out of ",
        "Got CQE with error",
        "Unsupported completion status ",
        "find a replacement QP for the failed QP",
        "The error is not fatal. Trying to continue",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One event for each message; the line before a failed completion that names its peer says nothing more."""
        for message in messages_or_line(line):
            text = message.message
            if _SURVIVED.search(text):
                yield Note(**message_fields(line, message), what="ib-failover", detail=text.strip()[:300])
            elif (hit := _LOST.search(text)) and not ("Got CQE" in text and _is_repeated_below(line)):
                status = int(hit["status"]) if hit["status"] else None
                yield IbError(
                    **message_fields(line, message), what="completion", status=status, message=hit[0].strip()[:300]
                )


def _is_repeated_below(line: Line) -> bool:
    return any("Got completion from peer" in below.body for below in line.following(3))
