"""Horovod's stall check: its coordinator lists the tensors that some ranks did not submit, and those ranks.

Sources: horovod ``common/stall_inspector.cc`` 0.18 to 0.28 (a row for each missing rank), ``common/operations.cc``
0.9 to 0.17 (one row for each tensor).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import AbsenceReport, AbsenceWarning, Event
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, ranks_in, reads
from nccldoctor.patterns import lazy

_TENSOR = lazy(
    r"(?P<call>[^\s,\[\]]{1,300})\s{1,3}\[(?P<what>missing|ready) ranks:\s?(?P<ranks>\d[\d, ]{0,60000})\]"
    r"(?: \[ready ranks:\s?(?P<ready>\d[\d, ]{0,60000})\])?"
)
_ROW = lazy(r"(?:^|[\s:])(?P<rank>\d{1,7})(?P<shut>!)?: \[(?P<calls>[^\]]{1,4000})")
_HEAD = lazy(r"(?:Missing|Stalled) ranks:\s*$")
_WAITED = lazy(r"for more than (?P<seconds>\d{1,7}) seconds")
_NAME = 120
_MOST = 1024
"""Lines below the head of a block that are read; it has one row for each missing rank."""


@reads("[missing ranks:", "[ready ranks:", "Missing ranks:", "Stalled ranks:")
def horovod_stalls(line: Line) -> Iterator[Event]:
    """One *absence* for each row: the missing ranks, and a tensor that the others wait for."""
    for hit in _TENSOR.finditer(line.body):
        is_missing = hit["what"] == "missing"
        ready = ranks_in((hit["ready"] if is_missing else hit["ranks"]) or "")
        yield AbsenceWarning(
            **common(line),
            by="Horovod",
            what="collective",
            call=_tensor(hit["call"]),
            missing=ranks_in(hit["ranks"]) if is_missing else Ranks(),
            reached=ready,
            arrived=len(ready) or None,
        )
    if _HEAD.search(line.body) and any(_WAITED.search(above.body) for above in (line, *line.preceding(4))):
        yield from _rows_below(line)


def _rows_below(head: Line) -> Iterator[Event]:
    waited = next((w for above in (head, *head.preceding(4)) if (w := _WAITED.search(above.body))), None)
    for below in head.window.near(head, _MOST):
        row = _ROW.search(below.body) or _ROW.search(below.raw)  # a rank at the beginning may look like a label
        if row is None:
            if below.mark.stream == head.mark.stream and below.body.strip():
                return
            continue
        kind = AbsenceReport if row["shut"] else AbsenceWarning
        yield kind(
            **common(head, text=f"{head.body.strip()} {below.body.strip()}"[:500]),
            by="Horovod",
            what="collective",
            call=_tensor(row["calls"].partition(",")[0].removesuffix(" ...")),
            missing=Ranks([int(row["rank"])]),
            seconds=int(waited["seconds"]) if waited else None,
        )


def _tensor(name: str) -> str:
    """The name of a tensor; of a long one its beginning and its end."""
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[1 - _NAME // 2 :]}"
