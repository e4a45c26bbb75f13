"""Says on which node the pods of a list, or of a specification, run.

Sources: kubernetes ``pkg/scheduler/schedule_one.go``, ``pkg/printers/internalversion/printers.go``, ``kubectl/pkg/describe``
(1.12 to 1.32); volcano ``pkg/scheduler/cache``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_POD = lazy(rf"{_NAME}$")
_METADATA = lazy(rf"^(?P<indent> {{2,16}})\"?name\"?: \"?(?P<pod>{_NAME})\"?,?\s{{0,9}}$")
_ABOVE = 400
"""Lines of metadata and of the specification above ``nodeName``."""


def _note(line: Line, pod: str, node: str) -> Note:
    return Note(**common(line, rank=None, pid=None, host=node, pod=pod), what="pod-on-node", detail=f"{pod} on {node}")


@for_rows
def pods_of_list(header: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The rows of ``kubectl get pods -o wide``: each value begins where the name of its column does."""
    title = f" {header.body}"
    name, node = title.find(" NAME "), title.find(" NODE ")
    if name < 0 or node < 0:
        return
    for row in header.following(4096):
        cells = row.body[name:].split(maxsplit=1)[:1] + row.body[node:].split(maxsplit=1)[:1]
        is_row = len(row.body) > node > 0 and row.body[node - 1] == " " != row.body[node]
        if not is_row:
            return
        if len(cells) == 2 and all(_POD.match(cell) for cell in cells):
            yield _note(row, *cells)


@for_rows
def pod_of_specification(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The name in the metadata above ``nodeName``, at the same depth."""
    above = (found for other in line.preceding(_ABOVE) if (found := _METADATA.match(other.body)))
    pod = next((found["pod"] for found in above if found["indent"] == hit["indent"]), None)
    if pod is not None:
        yield _note(line, pod, hit["host"])
