"""NCCL's own warnings, and what its numbers mean; ``log_rows.toml`` reads its variables and calls.

Sources of the templates: NVIDIA/nccl ``src/enqueue.cc``, ``src/debug.cc``, ``src/misc/param.cc`` at the release tags
v2.3.5 to v2.30.7, and text in the libraries 2.31.2 and 2.32.3. ``communicators_rows.toml`` reads the INIT lines,
``network.py`` and ``sockets.py`` the errors of transports, ``cuda_errors.py`` those of CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import asdict

from nccldoctor.events import Event, GpuError, IbError, NcclWarn, Note
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.kernel.driver import describe_xid, weight
from nccldoctor.parsers.nccl.network import can_read as network_can_read
from nccldoctor.parsers.nccl.prefix import NcclMessage, message_fields, messages
from nccldoctor.parsers.nccl.topics import topic_of
from nccldoctor.parsers.roles import Role, role_of
from nccldoctor.parsers.rows import Table, for_rows, is_read_by
from nccldoctor.patterns import lazy

_TABLE = Table(__file__).data
_OTHERS_READ: list[str] = _TABLE["others_read"]
_DATATYPES: list[str] = _TABLE["datatypes"]
_RESULTS: list[str] = _TABLE["results"]
_ADVICE = lazy(_TABLE["advice"])

_DIAG_XID = lazy(r"Xid (?P<xid>\d{1,4}) detected .{0,200}?on host (?P<host>[\w.\-]{1,120}?)\.?(?:\s|$)")


@reads("NCCL WARN", "NCCL ATTN", "NCCL DIAG", ".cu:", general=True)
def nccl_warn(line: Line) -> Iterator[Event]:
    """Warnings that no parser of a more definite kind reads, and the findings of NCCL's own diagnostics (2.31)."""
    for message in messages(line.body):
        text = message.message
        if message.level == "DIAG":
            yield from _diagnostics(line, message)
        elif text.startswith("HINT:"):
            yield Note(**message_fields(line, message), what="nccl-hint", detail=text[:300])
        elif hit := _ADVICE.match(text):
            yield Note(**message_fields(line, message), what=(hit.lastgroup or "").replace("_", "-"), detail=text[:300])
        elif message.level in ("WARN", "ATTN") and text and not _is_claimed(text):
            role = role_of(text, message.file or "") or Role("library", "cause")
            about = {"file": message.file, "device": message.device, "topic": topic_of(text)} | asdict(role)
            yield NcclWarn(**message_fields(line, message, **about), message=text[:500])


@reads("Last error:")
def last_error(line: Line) -> Iterator[Event]:
    """The warning of NCCL that PyTorch quotes below *Last error:*, where it has a meaning of its own."""
    below = next(line.following(1), line)
    role = role_of(below.body.strip())
    if below is not line and role and role.what and role.whose != "peer" and not _is_claimed(below.body):
        about = message_fields(below, NcclMessage("", below.body.strip()))
        yield NcclWarn(**about, message=below.body.strip()[:500], **asdict(role))


def _is_claimed(text: str) -> bool:
    if network_can_read(text) or is_read_by("ib-failover", text, IbError):
        return True
    return bool(_TRAIL.match(text)) or any(part in text for part in _OTHERS_READ)


def _diagnostics(line: Line, message: NcclMessage) -> Iterator[Event]:
    if hit := _DIAG_XID.search(message.message):
        xid = int(hit["xid"])
        worth = weight(xid, message.message)
        yield GpuError(
            **(message_fields(line, message) | {"host": hit["host"], "pid": None}),
            xid=xid,
            message=describe_xid(xid, message.message),
            software=worth == "software",
            weight=worth,
        )
    elif any(c.isalnum() for c in message.message):
        yield Note(**message_fields(line, message), what="nccl-diagnostics", detail=message.message[:300])


_TRAIL = lazy(r"^(?P<at>[\w./+\-]{1,120}:\d{1,6}) -> ?(?P<code>\d)\b(?P<thread> \[[\w ]{1,30}\])?")


@for_rows
def nccl_result(code: str) -> str:
    """``ncclResult_t`` in words."""
    return _RESULTS[int(code)]


@for_rows
def nccl_datatype(code: str) -> str:
    """``ncclDataType_t`` by its number, which stays where it is new."""
    return _DATATYPES[int(code)] if int(code) < len(_DATATYPES) else code
