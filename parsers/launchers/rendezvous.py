"""torchrun's rendezvous: nodes that do not come, leave or lose the store.

pytorch ``torch/distributed/elastic/rendezvous``: ``api.py``, ``dynamic_rendezvous.py``; 1.9 to 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, RendezvousError
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_NAME = r"Rendezvous(?:Timeout|Closed|Connection|State|GracefulExit|Infra)?(?:Error|Exception|ExitError)"
_RAISED = lazy(rf"\b(?:{_NAME}: \S.{{0,400}}|(?<=api\.){_NAME}:?\s*$)")

_SAID = lazy(
    r"The node '(?P<node>[^']{1,200})' has failed to (?:send a keep-alive heartbeat|shutdown the "
    r"rendezvous|close the rendezvous)"
    r"|(?P<removed>the node\(s\) .{1,2000}? have been removed from the rendezvous)"
    r"|(?P<cannot>can't complete rendezvous: (?:deadline reached|not enough participants)[^\n]{0,200})"
    r"|(?P<closed>The rendezvous '[^']{1,200}' is closed[^\n]{0,100})"
)
_QUOTED = lazy(r"'([^']{1,200})'")


@line_parser
class Rendezvous(LineParser):
    """*rendezvous-error*; ``node`` is ``<host>_<pid>_<n>``. After the first node has died, the others fail to reach or
    to shut down the rendezvous: noise.
    """

    literals = (
        "RendezvousTimeoutError",
        "RendezvousClosedError",
        "RendezvousConnectionError",
        "RendezvousStateError",
        "RendezvousGracefulExitError",
        "RendezvousError",
        "keep-alive heartbeat to the rendezvous",
        "has failed to shutdown the rendezvous",
        "have been removed from the rendezvous",
        "can't complete rendezvous",
        "is closed, terminating pending rendezvous",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        body = line.body
        if match := _SAID.search(body):
            nodes = [match["node"]] if match["node"] else _QUOTED.findall(match["removed"] or "")[:64]
            for node in nodes or [None]:
                yield RendezvousError(**common(line), message=match[0][:500], node=node)
        elif match := _RAISED.search(body):
            yield RendezvousError(**common(line), message=match[0][:500])
