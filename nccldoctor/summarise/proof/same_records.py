"""Finds all ranks that left the same record as a quoted one.

Example: rank 0's watchdog gave up on ALLREDUCE #4 of the default group, and so did those of ranks 1-3 and 5-7.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.events import CallTimeout, Event, ExceptionRaised, ProcessExit, Stack
from nccldoctor.model import Place
from nccldoctor.model.exhibits import Exhibit
from nccldoctor.model.ranks import Ranks
from nccldoctor.patterns import lazy

_NUMBER = lazy(r"\d{1,30}")


def with_same_records(facts: Facts, exhibits: Sequence[Exhibit]) -> list[Exhibit]:
    """The exhibits, each quoted record with the further ranks that left the same."""
    quoted = {exhibit.lines.where: exhibit for exhibit in exhibits if exhibit.lines is not None}
    found: dict[Place, list[Event]] = {}
    for event in facts.case.events:
        if event.place in quoted:
            found.setdefault(event.place, []).append(event)
    out = []
    for exhibit in exhibits:
        lines = exhibit.lines
        events = found.get(lines.where, []) if lines is not None else []
        # the frame of an exception says more than its last line
        events = [event for event in events if isinstance(event, ExceptionRaised)] or events
        ranks = Ranks(rank for event in events for rank in _same_on(facts, event, lines.frame if lines else ""))
        out.append(replace(exhibit, alike=ranks) if lines is not None else exhibit)
    return out


def _same_on(facts: Facts, event: Event, frame: str) -> Ranks:
    """The further ranks with a record that says the same as this one."""
    if event.rank is None or (frame and not isinstance(event, Stack)):
        return Ranks()
    content = _record_content(event, frame)
    others = (
        e.rank for e in facts.case.of(type(event)) if e.rank != event.rank and _record_content(e, frame) == content
    )
    return Ranks(rank for rank in others if rank is not None)


def _record_content(event: Event, frame: str) -> object:
    """What a record says, without what differs from rank to rank in any case: times, addresses, process ids."""
    if isinstance(event, CallTimeout):
        group = event.group
        named = (group.uid, group.desc) if group is not None else None
        return event.op, event.seq, event.numel_in, event.numel_out, named
    if isinstance(event, Stack):
        at = next((n for n, one in enumerate(event.frames) if frame and one.startswith(f"{frame} (")), 0)
        named_frames = tuple(one for one in event.frames[at:] if not one.startswith("0x"))
        return event.main, event.look, named_frames
    if isinstance(event, ExceptionRaised):
        return event.type, event.frame, _NUMBER.sub("", event.message)
    if isinstance(event, ProcessExit):
        return event.exitcode, event.signal
    return event.details(), event.text
