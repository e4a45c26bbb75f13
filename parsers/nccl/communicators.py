"""NCCL's INIT lines: which rank of which communicator is which host, process and GPU, and where start-up stands.

Source of the templates: NVIDIA/nccl ``src/init.cc`` and ``src/bootstrap.cc`` at the release tags v2.4.2 to v2.30.7,
texts of the libraries 2.31.2 and 2.32.3. A start without its completion is a rank that hangs in set-up. From 2.30
the end of a communicator is logged only with ``NCCL_DEBUG_SUBSYS=DESTROY``: its absence proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import CommInit, Event, Note
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.nccl.prefix import message_fields, messages_or_line
from nccldoctor.patterns import lazy

_STAGES = {
    "Init START": "start",
    "Init COMPLETE": "complete",
    **{f"{what} {when}": what.lower() for what in ("Abort", "Destroy", "Revoke") for when in ("START", "COMPLETE")},
}

_INIT = lazy(
    r"comm (?:0x(?P<comm>[0-9a-fA-F]{1,16})|\S{1,40}) rank (?P<rank>\d{1,7}) n[rR]anks (?P<n>\d{1,7})(?P<rest>.{0,400}?) ?- "
    rf"(?P<stage>{'|'.join(_STAGES)})"
)
_INIT_WORD = lazy(r"(cudaDev|nvmlDev|busId|parent|color|splitCount|childCount|commId) (\S{1,40})")
_TORN = lazy(r"\bncclComm(?:InitRank|Split)\w{0,20} comm\b")
"""What only lines of :data:`_INIT` hold, also where other writers or damage broke their numbers."""
_BOOTSTRAP = lazy(r"Bootstrap ?: Using [^:\s]{1,40}:(?P<address>\[[^\]]{1,60}\]|[^<\s]{1,60})")
_TIMINGS = lazy(r"Init timings\b.{0,80}? rank (?P<rank>\d{1,7}) nranks \d{1,7} total (?P<total>[\d.]{1,12})")


@reads(
    *_STAGES,
    "ncclCommInitRank comm ",
    "Bootstrap : Using",
    "Bootstrap: Using",
    "Init timings",
    needs=(_INIT, _TORN, _BOOTSTRAP, _TIMINGS),
)
def communicator(line: Line) -> Iterator[Event]:
    """Start, end and identity of communicators.

    One event for each INIT line; the rank in it counts inside its communicator.
    """
    for message in messages_or_line(line):
        text = message.message
        if hit := _INIT.search(text):
            words = dict(_INIT_WORD.findall(hit["rest"]))
            child = words.get("splitCount") or words.get("childCount")
            yield CommInit(
                **message_fields(line, message),
                what=_STAGES[hit["stage"]],
                group_rank=int(hit["rank"]),
                comm=f"0x{hit['comm']}" if hit["comm"] else None,
                comm_id=words.get("commId"),
                parent=words.get("parent"),
                split=f"{child or ''}:{words['color']}" if "color" in words else None,
                nranks=int(hit["n"]),
                cuda_dev=_short_number(words.get("cudaDev")),
                nvml_dev=_short_number(words.get("nvmlDev")),
                bus_id=pci_address(words.get("busId", "")),
            )
        elif _TORN.search(text):
            yield CommInit(**message_fields(line, message), what="torn", cuda_dev=message.device)
        elif hit := _BOOTSTRAP.search(text):
            address, fields = hit["address"].strip("[]"), message_fields(line, message)
            yield CommInit(**fields, what="bootstrap", address=address, cuda_dev=message.device)
        elif hit := _TIMINGS.search(text):
            fields = message_fields(line, message, group_rank=int(hit["rank"]))
            yield Note(**fields, what="init-timings", detail=text[:300])


def _short_number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 7 else None


def pci_address(bus_id: str) -> str | None:
    """NCCL's ``busId`` as ``domain:bus:device``: ``29000`` is ``0000:29:00`` (one digit function, two device, two
    bus, rest domain).

    Source: ``int64ToBusId`` in NVIDIA/nccl ``src/misc/utils.cc``. Text that is no hexadecimal number gives None.
    """
    try:
        number = int(bus_id, 16)
    except ValueError:
        return None
    if number < 0 or number >= 1 << 64:
        return None
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}"
