"""torchrun's rendezvous: nodes that do not come, leave or lose the store.

pytorch ``torch/distributed/elastic/rendezvous``: ``api.py``, ``dynamic_rendezvous.py``; 1.9 to 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, RendezvousError
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table, first_fit, needs_of
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_STACK = 40
"""Lines of a traceback above its exception that are looked at."""

_QUOTED = lazy(r"'([^']{1,200})'")


@reads(*_TABLE.literals, needs=needs_of(_TABLE.rows))
def rendezvous(line: Line) -> Iterator[Event]:
    """*rendezvous-error*; ``node`` is ``<host>_<pid>_<n>``. After the first node has died, the others fail to reach or
    to shut down the rendezvous: noise.
    """
    if fit := first_fit(_TABLE.rows, line.body):
        hit = fit[1]
        named = hit.groupdict()
        nodes = _QUOTED.findall(named["removed"])[:64] if "removed" in named else [named.get("node")]
        for node in nodes or [None]:
            yield RendezvousError(
                **common(line),
                message=hit[0][:500],
                node=node,
                what=_kind_of_loss(line, hit[0]),
            )


def _kind_of_loss(line: Line, message: str) -> str:
    if _was_running(line, message):
        return "store-lost"
    return "closed" if "RendezvousClosedError" in message or " is closed" in message else ""


def _was_running(line: Line, message: str) -> bool:
    """True where an agent lost the store behind a rendezvous that had come up.

    It watched its workers, or its heartbeats, which begin with the end of the rendezvous, no longer arrive.
    """
    if "RendezvousConnectionError" not in line.body:
        return False
    if "keep-alive heartbeat" in message:
        return True
    return any("num_nodes_waiting" in above.body for above in line.preceding(_STACK))
