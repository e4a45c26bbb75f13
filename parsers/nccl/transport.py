"""How NCCL connects: the network it chose, the links between ranks, and how long the bootstrap took.

INFO lines of a healthy start, and of one that never ended: a rank whose rings are not connected waits in its first
call.
Wordings: NVIDIA/nccl ``src/init.cc``, ``src/bootstrap.cc``, ``src/transport/*.cc``, ``src/misc/socket.cc``, v2.3.5
to v2.32.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.nccl.prefix import message_fields, messages
from nccldoctor.parsers.rows import Table, first_fit
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_CALL = lazy(r"(?P<api>nccl\w{1,60})\(")


@reads(*dict.fromkeys(_TABLE.literals), "NCCL CALL ", "NCCL TRACE ", sampled=True)
def transport(line: Line) -> Iterator[Event]:
    """*note* for each of these lines. A job prints thousands of them, so they are looked for in parts of a large
    file only.
    """
    for message in messages(line.body):
        text = message.message[:1_000]
        if message.level == "CALL" and _CALL.match(text):
            yield Note(**message_fields(line, message), what="nccl-call", detail=text[:300])
        elif message.level == "TRACE" and text:
            yield Note(**message_fields(line, message), what="nccl-trace", detail=text[:300])
        elif message.level == "INFO" and (fit := first_fit(_TABLE.rows, text)):
            row, hit = fit
            fields = row.event_fields(hit, Note) | {"detail": hit[0].strip()[:300]}
            yield Note(**message_fields(line, message, **fields))
