"""How many ranks the job has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nccldoctor.columns import Batch
from nccldoctor.events import CollectiveTimeout, CommInit, Event, InspectorRecord, NcclError, RasStatus

GATHERS = frozenset({"ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"})
"""Operations whose sizes tell the number of members."""

_CALL = re.compile(r"\bOpType=(\w{1,40}), NumelIn=(\d{1,18}), NumelOut=(\d{1,18})\b")


def world_of(batch: Batch, events: Sequence[Event], settings: Mapping[str, int]) -> int | None:
    """The world size: from the default group's members, INIT lines, the launcher's own variables, or RAS."""
    sizes = [len(c.ranks) for d in batch.dumps for c in d.config if c.desc == "default_pg" and c.ranks]
    if sizes:
        return max(sizes)
    comms = [e.nranks for e in events if isinstance(e, CommInit | InspectorRecord) and e.nranks]
    if comms:
        return max(comms)
    if "WORLD_SIZE" in settings:
        return settings["WORLD_SIZE"]
    counted = [e.nranks for e in events if isinstance(e, RasStatus) and e.what == "TOTAL" and e.nranks]
    if counted:
        return max(counted)
    return _by_ratio(events)


def _by_ratio(events: Sequence[Event]) -> int | None:
    """A gather's output is its input times the members: the size of the default group, where a line about a call gives both."""
    for event in events:
        op, one, other = _sizes(event)
        default = event.group is None or event.group.desc == "default_pg" or event.group.uid == "0"
        whose = event.group is not None or event.group_rank in (None, event.rank)
        if op not in GATHERS or not default or not whose:
            continue
        small, big = sorted((one or 0, other or 0))
        if small > 0 and big % small == 0 and big > small:
            return big // small
    return None


def _sizes(event: Event) -> tuple[str | None, int | None, int | None]:
    """Operation and elements of the call that a timeout, or an error of the library, is about."""
    if isinstance(event, CollectiveTimeout):
        return event.op, event.numel_in, event.numel_out
    found = _CALL.search(event.text) if isinstance(event, NcclError) else None
    return (found[1], int(found[2]), int(found[3])) if found else (None, None, None)
