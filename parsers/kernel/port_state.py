"""Ports of network adapters as ``ibstat`` and ``rdma link`` list them: those that are down or never came up.

Sources: infiniband-diags ``ibstat.c``, iproute2 ``rdma/link.c``. A snapshot has no time, and a port without a cable is
down in a healthy node, too: a lead to compare with other nodes, no fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.patterns import lazy

_ABOVE = 16
"""Lines of an adapter's block above the state of its port."""

_LINK = lazy(
    r"\blink (?P<hca>[\w.-]{1,40})/(?P<port>\d{1,3}) state (?P<state>[A-Z]{2,12}) physical_state (?P<phys>[A-Z_]{2,24})"
)
_ROW = lazy(
    r"^\s{0,16}(?:(?P<phys>Physical state: (?P<p>\w{2,24}))|State: (?P<state>\w{2,24})|Port (?P<port>\d{1,3}):"
    r"|CA '(?P<hca>[\w.-]{1,40})')"
)


@reads("Physical state: ", " physical_state ")
def port_state(line: Line) -> Iterator[Event]:
    """*note* for each port that is not up.

    The line with the physical state speaks for the port; its adapter stands above.
    """
    body = line.body[:1_000]
    if hit := _LINK.search(body):
        port = hit.groupdict()
    elif (row := _ROW.match(body)) and row["phys"]:
        port = {"phys": row["p"], **_port_above(line)}
    else:
        return
    state, physical = port.get("state") or "", port["phys"]
    if state.lower() in ("down", "init", "initializing") or physical.lower() in ("polling", "linkerrorrecovery"):
        where = f"{port.get('hca') or 'an adapter'} port {port.get('port') or '?'}"
        shown = ", ".join(filter(None, (state, physical)))
        yield Note(**common(line, rank=None), what="port-down", detail=f"{where} is {shown}")


def _port_above(line: Line) -> dict[str, str]:
    """The state, port and adapter above, each the nearest."""
    port: dict[str, str] = {}
    for above in line.preceding(_ABOVE):
        row = _ROW.match(above.body[:200])
        for name in ("state", "port", "hca") if row else ():
            if row and row[name]:
                port.setdefault(name, row[name])
        if "hca" in port:
            break
    return port
