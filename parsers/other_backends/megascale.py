"""Megascale, the collectives between slices of TPUs: its hang detector and what it takes for the cause; TPUs that halted.

Source: libtpu of JAX 0.4.33 to 0.8 as MaxText and OpenXLA quote it (``docs/guides/monitoring_and_debugging/megascale_hang_playbook.md``).
Every worker prints the first sentence; the coordinator, mostly task 0 of slice 0, prints the digest with the hosts.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import AbsenceReport, Event, GpuError, SocketError
from nccldoctor.parsers.base import Line, common, line_parser, reads
from nccldoctor.parsers.rows import Row, RowParser
from nccldoctor.patterns import lazy

_WAITS = lazy(r"Timed out waiting for (?P<graphs>\d{1,7}) graphs? to complete at launch_id (?P<launch>\d{1,12})")
_CAUSE = lazy(
    r"hang that is likely caused by (?:(?P<chip>bad TPU)|(?P<link>a networking issue)|(?P<input>data input stall)"
    r"|(?P<program>running different modules|inconsistent))"
)
_HOSTS = lazy(r"(?:have bad TPUs are|The hosts are|input stalls are): (?P<hosts>[\w.:/, -]{1,2000})")
_BELOW = 6
_CALLS = {"input": "the data input", "program": "a program that differs between hosts", "": "a graph"}


@reads("Megascale hang detected: ", "Megascale detects a hang")
def megascale(line: Line) -> Iterator[Event]:
    """*gpu-error* or *socket-error* with the hosts that the digest names, else *absence-report*."""
    if hit := _WAITS.search(line.body):
        yield AbsenceReport(**common(line), by="Megascale", what="collective", call=f"launch {hit['launch']}")
    elif "detects a hang" in line.body:
        cause = _CAUSE.search(line.body)
        yield from _digest(line, (cause.lastgroup if cause else "") or "")


def _digest(line: Line, cause: str) -> Iterator[Event]:
    below = next((hit for other in line.following(_BELOW) if (hit := _HOSTS.search(other.body))), None)
    hosts = [host.strip() for host in below["hosts"].split(",") if host.strip()] if below else []
    fields = common(line, rank=None, pid=None)
    if cause == "chip":
        for host in hosts or [None]:
            yield GpuError(**fields | {"host": host}, message="bad TPU chip, says Megascale", board="TPU")
    elif cause == "link":
        where = {"host": hosts[0]} if hosts else {}
        yield SocketError(
            **fields | where,
            peer=hosts[1] if len(hosts) > 1 else None,
            message="a networking issue, says Megascale",
            how="other",
        )
    else:
        yield AbsenceReport(**fields, by="Megascale", what="collective", call=_CALLS.get(cause))


@line_parser
class TpuFaults(RowParser):
    """*gpu-error* of a TPU whose driver, or PJRT, says that it halted."""

    event = GpuError
    rows = (
        Row("FATAL ERROR !!!! for [", r"(?P<message>FATAL ERROR !{4}) for \[(?P<device>/dev/\w{1,30})", board="TPU"),
        Row(
            "Accelerator device halted prematurely", r"(?P<message>Accelerator device halted prematurely)", board="TPU"
        ),
    )
