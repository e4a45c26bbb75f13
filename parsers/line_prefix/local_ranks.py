"""What the local ranks in front of the lines of a file mean (``torchrun --tee``: ``[default3]:``).

A launcher gives the ranks of one node consecutive numbers: what some lines say of two local ranks holds for the others. A file into
which the launchers of several nodes wrote shows two such beginnings, and then the prefix tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nccldoctor.events import Event, ProcessExit, Writer
from nccldoctor.parsers.base import Line

FEWEST = 2
"""Local ranks whose number must be known before the others follow from them."""

LineGroup = str | None
"""What is told apart inside a merged file: the host or the task in front of a line."""


class LocalRanks:
    """Learns the global ranks behind the local ones, and gives them to events that name no rank."""

    def __init__(self) -> None:
        self._local: dict[int, tuple[LineGroup, int]] = {}
        self._known: dict[LineGroup, set[tuple[int, int]]] = {}

    def note(self, line: Line) -> None:
        """Remember the local rank in front of a line that parsers were offered, and the rank if it names one too."""
        mark = line.mark
        if mark.local_rank is None or line.place.line is None:
            return
        writer = f"task{mark.task}" if mark.task is not None else mark.host
        self._local[line.place.line] = (writer, mark.local_rank)
        if mark.rank is not None:
            self._known.setdefault(writer, set()).add((mark.local_rank, mark.rank))

    def resolved(self, events: Iterable[Event]) -> list[Event]:
        """The events, with the rank of the process that wrote them where its local rank tells it."""
        found = list(events)
        if not self._local:
            return found
        first = {
            writer: base
            for writer in {w for w, _ in self._local.values()}
            if (base := self._first(writer, found)) is not None
        }
        return [self._named(event, first) for event in found]

    def _first(self, writer: LineGroup, events: list[Event]) -> int | None:
        """The rank of local rank 0; None where too little is known or it contradicts itself."""
        pairs = set(self._known.get(writer, ()))
        pairs |= {
            (e.local_rank, e.rank)
            for e in events
            if isinstance(e, ProcessExit)
            and e.local_rank is not None
            and e.rank is not None
            and writer in (None, e.host)
        }
        bases = {rank - local for local, rank in pairs}
        return bases.pop() if len(bases) == 1 and len(pairs) >= FEWEST else None

    def _named(self, event: Event, first: dict[LineGroup, int]) -> Event:
        if event.rank is not None or event.place.line not in self._local or event.written_by is not Writer.RANK:
            return event
        writer, local = self._local[event.place.line]
        return replace(event, rank=first[writer] + local) if writer in first else event
