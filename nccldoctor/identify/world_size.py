"""Finds how many ranks the job has, or how many at least.

What counts the whole job is proof: the members of the default group, a launcher, the store. What may count a part of it (a communicator,
``world_size=8`` of some program, the sizes of a gather) is a lower bound; it is the number of the job where most of those ranks were
heard and none beyond. Example: a gather makes 8 ranks out of 1, and ranks 0-6 were heard: the job has 8. Of rank 9 alone, whose gather
makes 16 in a group that no line names, it has at least 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from nccldoctor.events import (
    CollectiveTimeout,
    CommInit,
    DumpSignal,
    Event,
    Events,
    FrAnalysis,
    InspectorRecord,
    NcclError,
    Note,
    RasStatus,
    Setting,
    StoreError,
    WorkStatus,
)
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.event_details import barrier_counts, call_sizes, expected_clients, group_size
from nccldoctor.parsers.ras.blocks import MOST_GPUS

GATHERS = frozenset({"ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"})
"""Operations whose output is their input times the number of members, or the other way round."""


class WorldSize(Struct, frozen=True):
    """The number of ranks of the job, None where nothing proves it, and how many it has at least."""

    exact: int | None
    at_least: int


def world_size(batch: Batch, events: Events, seen: Ranks) -> WorldSize:
    """The size of the job by all that was read; ``seen`` are the ranks that anything names."""
    recorded = [len(c.ranks) for d in batch.dumps for c in d.config if c.desc == "default_pg" and c.ranks]
    above = max(seen, default=-1) + 1
    if recorded:
        size = max(recorded)
        return WorldSize(size if above <= size else None, max(size, above))
    parts = [e.nranks for e in events.of_kind(CommInit, InspectorRecord) if e.nranks]
    parts += [size for size in _noted(events, "world-size") if size > 1]  # engines that serve print 1 for each process
    parts += _gather_sizes(events, is_whole=False)
    least = max(above, *(size for size in (0, *parts, *_least_sizes(events)) if size <= MOST_GPUS))
    whole = next((size for size in _sizes_of_the_job(events) if least <= size <= MOST_GPUS), None)
    if whole is None and least in parts and 2 * len(seen) >= least:
        whole = least
    return WorldSize(whole, whole or least)


def _sizes_of_the_job(events: Events) -> Iterator[int]:
    """Sizes that are told of the whole job, the surest first: any script may set a variable."""
    yield from filter(None, [gpus_by_ras(events.of_kind(RasStatus))])
    yield from _gather_sizes(events, is_whole=True)
    for event in events.of_kind(Note):
        if event.what == "group-options" and _is_default(event):
            yield from filter(None, [group_size(event.detail)])
    yield from (e.expected for e in events.of_kind(FrAnalysis) if e.expected and _is_default(e))
    yield from _noted(events, "job-size")
    waited = (barrier_counts(e.text) or (expected_clients(e.text), 0) for e in events.of_kind(StoreError))
    yield from sorted((size for size, _ in waited if size), reverse=True)  # 8 in ``7/8 clients joined``
    settings = [e for e in events.of_kind(Setting) if e.name == "WORLD_SIZE" and e.value.isdigit()]
    yield from (int(e.value) for e in settings[-1:])


def gpus_by_ras(events: Iterable[RasStatus]) -> int:
    """All GPUs by the summary of RAS, else by a communicator that holds those of every row; else 0.

    The table lists the communicators of all processes: one of 16 ranks, and eight of 2 on 16 GPUs.
    """
    if total := max((e.nranks or 0 for e in events if e.what == "TOTAL"), default=0):
        return total
    rows = [(e.nranks or 0, e.gpus) for e in events if e.gpus is not None]
    size = max((nranks for nranks, _ in rows), default=0)
    return size if all(gpus <= size for _, gpus in rows) else 0


def _least_sizes(events: Events) -> Iterator[int]:
    """Sizes that the job has at least: by its launcher, by its groups, and by ranks of which others tell."""
    yield from _noted(events, "least-size")
    yield from filter(None, (group_size(e.detail) for e in events.of_kind(Note) if e.what == "group-options"))
    yield from (e.from_rank + 1 for e in events.of_kind(DumpSignal) if e.from_rank is not None)


def _noted(events: Events, what: str) -> Iterator[int]:
    return (int(e.detail) for e in events.of_kind(Note) if e.what == what)


def _gather_sizes(events: Events, *, is_whole: bool) -> Iterator[int]:
    """Members by the sizes of gathers: input 100 and output 1600 make 16.

    ``is_whole`` asks for those of the default group, else for those of other groups and of groups that no line names.
    """
    of_default = {(e.rank, e.failed) for e in events.of_kind(WorkStatus) if e.failed is not None and _is_default(e)}
    for event in events.of_kind(CollectiveTimeout, NcclError):
        if isinstance(event, CollectiveTimeout):
            op, numel_in, numel_out = event.op, event.numel_in, event.numel_out
        else:
            op, numel_in, numel_out = call_sizes(event.text) or (None, None, None)
        small, big = sorted((numel_in or 0, numel_out or 0))
        if op not in GATHERS or not small or big % small or big == small:
            continue
        seq = event.seq if isinstance(event, CollectiveTimeout) else None
        is_default = _is_default(event) if event.group is not None else (event.rank, seq) in of_default
        if is_default is is_whole:
            yield big // small


def _is_default(event: Event) -> bool:
    group = event.group
    return group is not None and (group.desc == "default_pg" or (not group.desc and group.uid == "0"))
