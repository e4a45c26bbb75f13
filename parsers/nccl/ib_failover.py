"""NCCL that goes on over another port after an InfiniBand error (``NCCL_IB_RESILIENCY_PORT_FAILOVER``), or cannot.

Source: NVIDIA/nccl ``src/transport/net_ib/p2p_resiliency.cc`` and ``p2p.cc``, v2.29.7 to v2.32. With it switched on, the failed
completion itself is told at level INFO, and only what follows says whether the job survived it.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, IbError, Note
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.nccl.prefix import message_fields, messages_or_line
from nccldoctor.parsers.rows import Table, first_fit, needs_of

_TABLE = Table(__file__)


def can_read(text: str) -> bool:
    """True when this parser understands the text of an NCCL message."""
    fit = first_fit(_TABLE.rows, text)
    return fit is not None and "survived" not in fit[0].values


@reads(*_TABLE.literals, needs=needs_of(_TABLE.rows))
def ib_failover(line: Line) -> Iterator[Event]:
    """*ib-error* where no port is left, a note where the transport goes on over another one.

    One event for each message; the line before a failed completion that names its peer says nothing more.
    """
    for message in messages_or_line(line):
        text = message.message
        fit = first_fit(_TABLE.rows, text)
        if fit is None or ("Got CQE" in text and _is_repeated_below(line)):
            continue
        (row, hit), fields = fit, message_fields(line, message)
        if "survived" in row.values:
            yield Note(**fields, what="ib-failover", detail=text.strip()[:300])
        else:
            status = row.event_fields(hit, IbError).get("status")
            yield IbError(**fields, what="completion", status=status, message=hit[0].strip()[:300])


def _is_repeated_below(line: Line) -> bool:
    return any("Got completion from peer" in below.body for below in line.following(3))
