"""Errors of the transports: InfiniBand and RoCE completions and events, libfabric plug-ins, sockets.

Sources of the templates: NVIDIA/nccl ``src/transport/net_ib.cc`` (later ``net_ib/*``), ``src/misc/ibvwrap.cc``,
``src/misc/socket.cc`` (later ``src/os/linux.cc``), ``src/proxy.cc`` at the tags v2.4.2 to v2.30.7, texts of the
libraries 2.31.2 and 2.32.3; aws/aws-ofi-nccl ``src/nccl_ofi_*.cpp``. ``opcode`` and ``len`` of a failed completion
are undefined and are not read; ``HINT`` lines of 2.30.7 follow from the number alone and are no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, IbError
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.nccl.prefix import host_part, message_fields, messages_or_line
from nccldoctor.parsers.nccl.sockets import socket_fields
from nccldoctor.parsers.roles import role_of
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_PATTERNS = _TABLE.patterns()
_FAULTS: dict[str, list[str]] = _TABLE.data["faults"]
_TEAR_DOWN = tuple(_TABLE.data["tear_down_calls"])

_STALL = lazy(r"WQE stall \(no CQE\): peer=(?P<peer>[^\s|]{1,80})")
_PAIRS = lazy(r"\b(dev|port|localGid|remoteGid)=([^\s|]{1,80})")
_PLUGIN = lazy(r"NET/OFI (?P<says>(?=.{0,250}?(?:[Ee]rr|[Ff]ail|Unexpected|nreachable|completion queue)).{1,300})")
_VERBS = lazy(r"Call to (?P<call>ibv_\w{2,40})(?:\(\))? failed\b(?P<why>.{0,300})")


def _details(text: str, goes_on: bool = False) -> dict[str, Any]:
    """``goes_on``: something stands behind the vendor's error, so that a number at the very end is cut."""
    out: dict[str, Any] = {}
    for hit in _PATTERNS["detail"].finditer(text):
        name, value = hit["name"].strip(" =").lower(), hit["value"]
        if name.startswith("vendor"):
            cut = goes_on and hit.end() == len(text)
            out["vendor_err"] = int(value) if value.isdigit() and not cut else None
        elif name.startswith("local"):
            out["local_gid"] = value
        elif name.startswith("remote"):
            out["remote_gid"] = value
        else:
            out["hca"], _, port = value.partition(":")
            if port.isdigit():
                out["port"] = int(port)
    return out


def ib_fields(text: str) -> dict[str, Any] | None:
    """The fields of an :class:`IbError` in the text of one message; None where it tells of no such error."""
    if hit := _PATTERNS["completion"].search(text):
        status = hit["old"] or hit["new"]
        return {
            "what": "completion",
            "peer": host_part(hit["peer"]),
            "status": int(status),
            **_details(text[hit.end() :], goes_on=bool(hit["new"])),
        }
    if hit := _PATTERNS["async_event"].search(text):
        port, event = int(hit["port"]) if hit["port"] else None, hit["text"]
        weight = next((name for name, texts in _FAULTS.items() if any(map(event.__contains__, texts))), "notice")
        return {"what": weight, "hca": hit["hca"], "port": port, "message": event.strip()}
    if hit := _STALL.search(text):
        local, _, remote = text.partition("remote:")
        near, far = dict(_PAIRS.findall(local)), dict(_PAIRS.findall(remote))
        return {
            "what": "stall",
            "peer": host_part(hit["peer"]),
            "hca": near.get("dev"),
            "port": int(near["port"]) if near.get("port", "").isdigit() else None,
            "local_gid": near.get("localGid"),
            "remote_gid": far.get("remoteGid"),
        }
    if hit := _PATTERNS["speed"].search(text):
        slower = int(hit["new"]) < int(hit["old"])
        message = f"{hit['old']} -> {hit['new']} Mbps"
        port = int(hit["port"]) if hit["port"] else None
        return {"what": "speed" if slower else "notice", "hca": hit["hca"], "port": port, "message": message}
    if hit := _VERBS.search(text):
        what = "notice" if hit["call"].startswith(_TEAR_DOWN) else "setup"
        return {"what": what, "message": f"{hit['call']} failed{hit['why']}".strip()[:300], **_details(hit["why"])}
    if (hit := _PLUGIN.search(text)) and (role := role_of(hit["says"])) and (role.whose, role.weight) == _TRANSFER:
        return {"what": "fabric", "message": hit[0]}
    return None


_TRANSFER = ("fabric", "cause")
"""The role of a transfer that failed; what a plug-in can't make before any transfer loses no connection."""


_PROVIDER = lazy(r"libfabric:\d{1,10}:\d{1,12}:.{0,40}?:cq:\w{1,60}\(\):\d{1,6}<warn> ?(?P<what>.{0,400})")


def can_read(text: str) -> bool:
    """True when a parser of this family understands the text of an NCCL message."""
    return ib_fields(text) is not None or socket_fields(text) is not None


_NEEDED = tuple(_PATTERNS[name] for name in ("completion", "async_event", "speed"))


@reads(*_TABLE.literals, needs=(_PROVIDER, *_NEEDED, _STALL, _VERBS, _PLUGIN))
def ib(line: Line) -> Iterator[Event]:
    """InfiniBand, RoCE and libfabric errors."""
    if (warning := _PROVIDER.search(line.body)) and "err" in warning["what"]:
        yield IbError(**common(line), what="fabric", message=warning["what"].strip()[:300])
    for message in messages_or_line(line):
        fields = ib_fields(message.message)
        # at level INFO a plug-in only says that a provider it tried does not fit
        if fields is not None and (fields["what"], message.level) != ("fabric", "INFO"):
            about = message_fields(line, message)
            about["rank"] = quoting_rank(line) if about["rank"] is None else about["rank"]
            yield IbError(**about, **({"message": message.message[:300]} | fields))


def quoting_rank(line: Line) -> int | None:
    """The rank whose error quotes this line as NCCL's last error: only the first line of that error names it."""
    above = line.preceding(4)
    first = next(above, None)
    if first is None or not first.body.strip().endswith("Last error:"):
        return None
    return next((other.mark.rank for other in (first, *above) if "NCCL error" in other.body), None)
