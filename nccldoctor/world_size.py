"""How many ranks the job has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nccldoctor.columns import Batch
from nccldoctor.events import CollectiveTimeout, CommInit, Event, InspectorRecord, RasStatus

GATHERS = frozenset({"ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"})
"""Operations whose sizes tell the number of members."""


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
    """A gather's output is its input times the members: the size of the default group, where a timeout line gives both."""
    for event in events:
        if (
            isinstance(event, CollectiveTimeout)
            and event.op in GATHERS
            and (event.group is None or event.group.desc == "default_pg" or event.group.uid == "0")
        ):
            small, big = sorted((event.numel_in or 0, event.numel_out or 0))
            if (
                small > 0
                and big % small == 0
                and big > small
                and (event.group is not None or event.group_rank in (None, event.rank))
            ):
                return big // small
    return None
