"""Leaves out what ``srun -v`` says of steps that were over before the last one was launched.

Example: a script runs ``srun -v prepare`` and then ``srun -v train``. The ends of the four tasks of the first are no ends of ranks.
``srun`` returns when all its tasks ended: where fewer ends than launched tasks stand above a launch, the steps ran side by side, and
all lines are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nccldoctor.events import Event, Note, ProcessExit
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model.ranks import Ranks


def launched_tasks(events: Iterable[Event]) -> int:
    """How many tasks ``srun -v`` says that it launched."""
    return sum(len(Ranks.parse(event.detail)) for event in events if isinstance(event, Note) and _is_launch(event))


def without_earlier_sruns(read: Ingested) -> Ingested:
    """The input without launches and ends of tasks of earlier steps."""
    if not any(_is_launch(event) for one in read.parsed for event in one.events):
        return read
    parsed = tuple(replace(one, events=tuple(_of_last_step(one.events))) for one in read.parsed)
    return replace(read, parsed=parsed)


def _of_last_step(events: Sequence[Event]) -> Sequence[Event]:
    last = max((_line(event) for event in events if _is_launch(event)), default=0)
    ended = max((_line(event) for event in events if _is_end_of_task(event) and _line(event) < last), default=0)
    before = [event for event in events if _line(event) <= ended and (_is_launch(event) or _is_end_of_task(event))]
    ends = sum(map(_is_end_of_task, before))
    if not ends or ends != launched_tasks(before):
        return events
    earlier = set(map(id, before))
    return [event for event in events if id(event) not in earlier]


def _is_launch(event: Event) -> bool:
    return isinstance(event, Note) and event.what == "tasks-on-host"


def _is_end_of_task(event: Event) -> bool:
    return isinstance(event, ProcessExit) and event.reporter == "srun"


def _line(event: Event) -> int:
    return event.place.line or 0
