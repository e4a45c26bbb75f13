"""Who wrote what: gives every event and every dump its global rank, host and process.

Content comes first (``[rank3]:``, a launcher's table, an INIT line), then what the launcher's folders say, then file
names. A name that content contradicts is overruled, and the contradiction is kept as a Gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nccldoctor.census import OUTSIDE, Census, bus, learn, short
from nccldoctor.columns import DumpHead
from nccldoctor.events import (
    Event,
    GpuError,
    InspectorRecord,
    ProcessExit,
    Setting,
    Stack,
)
from nccldoctor.file_ranks import hosts_of_trees, local_names, source_ranks
from nccldoctor.model import Gap, Source
from nccldoctor.parsers.base import Parsed
from nccldoctor.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Attributed:
    """What :func:`attribute` found out."""

    events: tuple[Event, ...]
    sources: tuple[Source, ...]
    dump_rank: tuple[int | None, ...]
    census: Census
    gaps: tuple[Gap, ...]


def attribute(parsed: Sequence[Parsed], dumps: Sequence[DumpHead]) -> Attributed:
    """Give each event, source and dump its rank."""
    parsed = local_names(hosts_of_trees(parsed))
    events = [event for one in parsed for event in one.events]
    census = Census()
    learn(events, census)
    ranks, known, gaps = source_ranks(parsed, census)
    for one in parsed:
        rank = ranks.get(one.source.id)
        if rank is not None and one.source.host:
            census.learn(rank, one.source.host, None, one.source.local_rank, None)
        for event in one.events:
            if rank is not None and isinstance(event, Stack) and event.pid is not None:
                census.learn(rank, event.host or one.source.host, event.pid, None, None)
    by_id = _by_id(parsed)
    named = [_name(event, ranks, census, by_id) for event in events]
    writers: dict[int, set[int]] = {}
    for event in named:
        if event.rank is not None and not isinstance(event, OUTSIDE):
            writers.setdefault(event.place.source, set()).add(event.rank)
    for source, found in writers.items():
        if ranks.get(source) is None:
            known[source] = f"lines of {'ranks' if len(found) > 1 else 'rank'} {Ranks(found)}"
    sources = tuple(
        _whose(one.source, ranks.get(one.source.id), known.get(one.source.id, ""), census) for one in parsed
    )
    dump_rank, more = _dump_ranks(dumps, {s.id: s.rank for s in (p.source for p in parsed)})
    return Attributed(tuple(named), sources, dump_rank, census, (*gaps, *more))


def _by_id(parsed: Sequence[Parsed]) -> Mapping[int, Source]:
    return {one.source.id: one.source for one in parsed}


def _whose(source: Source, rank: int | None, known: str, census: Census) -> Source:
    """The file with its rank, its host, and how both are known."""
    host = source.host or (census.host.get(rank) if rank is not None else None)
    why = ", ".join(filter(None, (known, source.why, "host of its rank" if host and not source.host else "")))
    return replace(source, rank=rank, host=host, why=why)


def _name(event: Event, ranks: Mapping[int, int | None], census: Census, sources: Mapping[int, Source]) -> Event:
    """The event with its rank and host, as far as anything tells."""
    if isinstance(event, Setting):
        return event
    source = sources[event.place.source]
    host = short(event.host) if event.host else (short(source.host) if source.host else None)
    rank = event.rank
    if rank is not None and event.group is not None and event.group.desc == "default_pg":
        rank = (
            _default_group_rank(event) if event.group_rank is not None else rank
        )  # nearer to the record than a line's prefix
    if rank is None:
        rank = _rank_of(event, ranks.get(event.place.source), census, host)
    changes: dict[str, Any] = {}
    if rank != event.rank:
        changes["rank"] = rank
    if event.host is None and (host or rank is not None):
        found = host or census.host.get(rank if rank is not None else -1)
        if found:
            changes["host"] = found
    return replace(event, **changes) if changes else event


def _rank_of(event: Event, own: int | None, census: Census, host: str | None) -> int | None:
    if event.pid is not None:
        rank = census.rank_of(host, event.pid)
        if rank is not None:
            return rank
    if isinstance(event, GpuError) and host:
        device = bus(event.device)
        return census.by_device.get((host, device)) if device else None
    if isinstance(event, ProcessExit) and event.task is not None:
        return census.by_task.get(event.task)
    if isinstance(event, ProcessExit) and event.local_rank is not None and host:
        return census.by_local.get((host, event.local_rank))
    if isinstance(event, OUTSIDE):
        return None
    if own is not None:
        return own
    if isinstance(event, InspectorRecord):
        return None  # its rank counts inside some communicator
    return _default_group_rank(event)


def _default_group_rank(event: Event) -> int | None:
    """``[Rank 3]`` of the default group is the global rank; of any other group it is not.

    Lines of PyTorch before 2.3 name no group. There the number is taken as it stands: such jobs mostly have the default
    group alone, and those releases print no other rank (pytorch, ProcessGroupNCCL.cpp, 1.8 to 2.1).
    """
    group = event.group
    if event.group_rank is None:
        return None
    if group is None or (group.uid is None and group.pg_id is None and not group.desc):
        return event.group_rank
    default = group.desc == "default_pg" or (group.desc in (None, "") and (group.uid == "0" or group.pg_id == 0))
    return event.group_rank if default else None


def _dump_ranks(dumps: Sequence[DumpHead], hints: Mapping[int, int | None]) -> tuple[tuple[int | None, ...], list[Gap]]:
    """The rank of each dump by its name, checked against the groups it says it is in."""
    out: list[int | None] = []
    gaps: list[Gap] = []
    taken: dict[int, str] = {}
    sets = {id(c.ranks): frozenset(c.ranks) for c in {id(c.ranks): c for d in dumps for c in d.config}.values()}
    for dump in dumps:
        members = sorted((sets[id(c.ranks)] for c in dump.config if c.ranks), key=len)
        possible = frozenset.intersection(*members) if members else None
        rank = hints.get(dump.source)
        if rank is not None and possible is not None and rank not in possible:
            gaps.append(
                Gap(
                    f"{dump.path} is named for rank {rank}",
                    "its own groups do not hold that rank",
                    Ranks([rank]),
                    dump.source,
                )
            )
            rank = None
        if rank is None and possible is not None and len(possible) == 1:
            (rank,) = possible
        if rank is None and not dump.problem:
            gaps.append(
                Gap(
                    f"{dump.path}: whose dump this is",
                    "neither its name nor its groups tell; try --rank-from",
                    Ranks(),
                    dump.source,
                )
            )
        elif rank is not None and rank in taken and not dump.problem:
            gaps.append(
                Gap(
                    f"{dump.path}: a second dump of rank {rank}", f"{taken[rank]} was taken", Ranks([rank]), dump.source
                )
            )
            rank = None
        elif rank is not None and not dump.problem:
            taken[rank] = dump.path
        out.append(rank)
    return tuple(out), gaps
