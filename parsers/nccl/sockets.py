"""Connections of NCCL that closed, broke or never came up.

Sources of the templates: NVIDIA/nccl ``src/misc/socket.cc`` (later ``src/os/linux.cc``), ``src/proxy.cc``,
``src/bootstrap.cc`` at the tags v2.4.2 to v2.30.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, SocketError
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.nccl.prefix import host_part, message_fields, messages_or_line
from nccldoctor.parsers.rows import Table, first_fit, for_rows, needs_of

_TABLE = Table(__file__)
_HOW: dict[str, list[str]] = _TABLE.data["how"]


@for_rows
def how_of(why: str) -> str:
    """The kind of failure that an operating system's error text names."""
    return next((name for name, words in _HOW.items() if any(word in why for word in words)), "other")


def socket_fields(text: str) -> dict[str, Any] | None:
    """The fields of a :class:`SocketError` in the text of one message; None where it tells of no such error.

    A refused connection that is tried again is no error: the other side has not begun to listen yet.
    """
    fit = first_fit(_TABLE.rows, text)
    if fit is None:
        return None
    row, hit = fit
    fields: dict[str, Any] = {"message": text[hit.start() :][:300]} | row.event_fields(hit, SocketError)
    if "how" not in fields:
        fields["how"] = how_of(hit["why"])
        if "retrying" in hit["why"] and fields["how"] in ("refused", "other"):
            return None
    return fields | {"peer": host_part(fields.get("peer"))}


@reads(*_TABLE.literals, needs=needs_of(_TABLE.rows))
def socket(line: Line) -> Iterator[Event]:
    """Connections of NCCL that closed, broke or never came up."""
    for message in messages_or_line(line):
        fields = socket_fields(message.message)
        # without NCCL's prefix only its own wording counts: other programs connect and fail, too
        text = message.message
        if fields is not None and (
            bool(message.level)
            or fields["how"] == "setup"
            or "ocketProgress" in text
            or "ocketPollConnect" in text
            or "ocketStartConnect" in text
            or (fields["how"] == "closed" and "remote peer" in text)
            or "ocketFinalizeAccept" in text
        ):
            yield SocketError(**message_fields(line, message), **fields)
