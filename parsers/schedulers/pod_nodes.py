"""Says on which node a pod runs: lists and descriptions of kubectl, its YAML and JSON, events of schedulers.

Sources: kubernetes ``pkg/scheduler/schedule_one.go``, ``pkg/printers/internalversion/printers.go``, ``kubectl/pkg/describe``
(1.12 to 1.32); volcano ``pkg/scheduler/cache``.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table, first_fit
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_POD = lazy(rf"{_NAME}$")
_NODE_LINE = lazy(rf"^Node:\s{{1,40}}(?P<host>{_NAME})/")
_NAME_LINE = lazy(rf"^Name:\s{{1,40}}(?P<pod>{_NAME})\s{{0,9}}$")
_SPEC = lazy(rf"^(?P<indent> {{2,16}})\"?nodeName\"?: \"?(?P<host>{_NAME})\"?,?\s{{0,9}}$")
_METADATA = lazy(rf"^(?P<indent> {{2,16}})\"?name\"?: \"?(?P<pod>{_NAME})\"?,?\s{{0,9}}$")
_ROWS_READ = 4096
_ABOVE = 400
"""Lines of metadata and of the specification above ``nodeName``."""


@reads(*_TABLE.literals, "NOMINATED NODE", "Namespace:  ", "nodeName")
def pod_nodes(line: Line) -> Iterator[Event]:
    """*note* ``pod-on-node`` with the pod and its node as host, for each pod that a line or a table names."""
    if fit := first_fit(_TABLE.rows, line.body):
        yield _note(line, fit[1]["pod"], fit[1]["host"])
    elif "NOMINATED NODE" in line.body:
        yield from _of_list(line)
    elif line.body.startswith("Namespace:"):
        yield from _of_description(line)
    elif spec := _SPEC.match(line.body):
        above = (hit for other in line.preceding(_ABOVE) if (hit := _METADATA.match(other.body)))
        pod = next((hit["pod"] for hit in above if hit["indent"] == spec["indent"]), None)
        if pod is not None:
            yield _note(line, pod, spec["host"])


def _note(line: Line, pod: str, node: str) -> Note:
    return Note(**common(line, rank=None, pid=None, host=node, pod=pod), what="pod-on-node", detail=f"{pod} on {node}")


def _of_list(header: Line) -> Iterator[Event]:
    """The rows of ``kubectl get pods -o wide``: each value begins where the name of its column does."""
    title = f" {header.body}"
    name, node = title.find(" NAME "), title.find(" NODE ")
    if name < 0 or node < 0:
        return
    for row in header.following(_ROWS_READ):
        cells = row.body[name:].split(maxsplit=1)[:1] + row.body[node:].split(maxsplit=1)[:1]
        is_row = len(row.body) > node > 0 and row.body[node - 1] == " " != row.body[node]
        if not is_row:
            return
        if len(cells) == 2 and all(_POD.match(cell) for cell in cells):
            yield _note(row, *cells)


def _of_description(line: Line) -> Iterator[Event]:
    """The node under the name and the namespace of ``kubectl describe pod``; other objects have none."""
    above = next(line.preceding(1), None)
    pod = _NAME_LINE.match(above.body) if above is not None else None
    node = next((hit for other in line.following(6) if (hit := _NODE_LINE.match(other.body))), None)
    if pod is not None and node is not None:
        yield _note(line, pod["pod"], node["host"])
