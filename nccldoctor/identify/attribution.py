"""Who wrote what: gives every event and every dump its global rank, host and process.

Content comes first (``[rank3]:``, a launcher's table, an INIT line), then what the launcher's folders say, then file
names. A name that content contradicts is overruled, and the contradiction is kept as a Gap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nccldoctor.events import Event, GpuError, InspectorRecord, ProcessExit, SchedulerEvent, Setting, Stack, Writer
from nccldoctor.identify.processes import ProcessTable, pci_address, read_processes
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.model.hosts import host_order, short_host
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import DumpHead
from nccldoctor.parsers.base import Parsed


def _folder(source: Source) -> str:
    return source.path.rpartition("/")[0]


def source_ranks(
    parsed: Sequence[Parsed], census: ProcessTable
) -> tuple[dict[int, int | None], dict[int, str], list[Gap]]:
    """The rank of each file that one rank wrote, None for merged files and launchers' own logs; how it is known where
    the name does not say it; and where name and lines contradict each other.
    """
    out: dict[int, int | None] = {}
    known: dict[int, str] = {}
    gaps: list[Gap] = []
    for one in parsed:
        source = one.source
        own = Counter(e.rank for e in one.events if e.rank is not None and e.written_by is Writer.RANK)
        named = source.rank if source.local_rank is None else None
        if own and named is not None and named not in own:
            gaps.append(_contradiction(source, Ranks(own)))
        if not own:
            out[source.id] = named
        elif len(own) > 1 or (source.rank is None and source.local_rank is None and _many_writers(one)):
            out[source.id] = None
        else:
            (out[source.id],) = own
            known[source.id] = "its lines"
            gaps += _launched(source, out[source.id], census)
    _spread_over_folders(parsed, out, known)
    _map_local_ranks(parsed, out, known, census)
    return out, known, gaps


def _contradiction(source: Source, own: Ranks) -> Gap:
    word = "rank" if len(own) == 1 else "ranks"
    return Gap(f"{source.path} is named for rank {source.rank}", f"its lines say {word} {own}", own, source.id)


def _launched(source: Source, rank: int | None, census: ProcessTable) -> list[Gap]:
    """Where the launcher says of this local rank of this host that it is another rank than the lines say."""
    at = (short_host(source.host), source.local_rank) if source.host and source.local_rank is not None else None
    told = census.by_local.get(at) if at is not None else None
    if told is None or told == rank:
        return []
    what = f"{source.path} is local rank {source.local_rank} of {source.host}, rank {told} by the launcher"
    return [Gap(what, f"its lines say rank {rank}", Ranks([told] if rank is None else [told, rank]), source.id)]


def _many_writers(one: Parsed) -> bool:
    """Whether a file without a rank in its name is a launcher's or a merged log that happens to quote one rank only."""
    return any(isinstance(e, ProcessExit | SchedulerEvent) for e in one.events) or any(
        e.rank is None and e.group_rank is not None for e in one.events
    )


def _spread_over_folders(parsed: Sequence[Parsed], out: dict[int, int | None], known: dict[int, str]) -> None:
    """stdout.log and stderr.log of one local rank stand in one folder: what one says holds for the other."""
    told: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in parsed:
        rank = out[one.source.id]
        if one.source.local_rank is not None and rank is not None:
            told[_folder(one.source), one.source.local_rank].add(rank)
    for one in parsed:
        if one.source.local_rank is None:
            continue
        ranks = told.get((_folder(one.source), one.source.local_rank), set())
        if out[one.source.id] is None and len(ranks) == 1:
            out[one.source.id] = next(iter(ranks))
            known[one.source.id] = "lines of the other stream"


def _map_local_ranks(
    parsed: Sequence[Parsed], out: dict[int, int | None], known: dict[int, str], census: ProcessTable
) -> None:
    """Local ranks by the launcher's own table, else by equal blocks in the order of the host folders, if nothing contradicts."""
    open_ = [one.source for one in parsed if one.source.local_rank is not None and out[one.source.id] is None]
    for source in open_:
        if source.host and source.local_rank is not None:
            out[source.id] = census.by_local.get((short_host(source.host), source.local_rank))
            if out[source.id] is not None:
                known[source.id] = "what the launcher says of the local rank"
    locals_: dict[str, set[int]] = defaultdict(set)
    for one in parsed:
        if one.source.local_rank is not None:
            locals_[one.source.host or ""].add(one.source.local_rank)
    sizes = {len(found) for found in locals_.values()}
    if len(sizes) != 1 or any(max(found) + 1 != len(found) for found in locals_.values()):
        return
    block = sizes.pop()
    base = {host: i * block for i, host in enumerate(sorted(locals_, key=host_order))}
    guess = {
        o.source.id: base[o.source.host or ""] + o.source.local_rank for o in parsed if o.source.local_rank is not None
    }
    if all(out[i] in (None, rank) for i, rank in guess.items()):
        known.update({i: "local ranks in the order of the hosts" for i in guess if out[i] is None})
        out.update({i: rank for i, rank in guess.items() if out[i] is None})


def local_names(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """``node0/rank_0.log`` beside ``node1/rank_0.log``: no rank runs on two hosts, such names count the ranks of a host."""
    hosts: dict[int, set[str]] = defaultdict(set)
    for one in parsed:
        if one.source.rank is not None and one.source.host is not None and one.source.kind is SourceKind.LOG:
            hosts[one.source.rank].add(one.source.host)
    if not any(len(found) > 1 for found in hosts.values()):
        return parsed
    return [
        replace(
            one,
            source=replace(one.source, rank=None, local_rank=one.source.rank, why=f"{one.source.why} (of the host)"),
        )
        if one.source.rank is not None and one.source.host is not None and one.source.kind is SourceKind.LOG
        else one
        for one in parsed
    ]


def hosts_of_trees(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """Torchrun makes ``LOG_DIR/RUN/attempt_K/LOCAL_RANK``: several such ``LOG_DIR`` stand for as many hosts, whatever they are called."""
    above = {
        one.source.id: one.source.path.partition("/attempt_")[0].split("/")[:-1]
        for one in parsed
        if one.source.local_rank is not None and one.source.host is None and "/attempt_" in one.source.path
    }
    trees = {tuple(folders) for folders in above.values()}
    at = next((i for i, names in enumerate(zip(*trees, strict=False)) if len(set(names)) > 1), None)
    if at is None or len({tree[at] for tree in trees}) < len(trees):
        return parsed
    return [
        replace(one, source=replace(one.source, host=above[one.source.id][at])) if one.source.id in above else one
        for one in parsed
    ]


@dataclass(frozen=True, slots=True)
class Attributed:
    """What :func:`attribute` found out."""

    events: tuple[Event, ...]
    sources: tuple[Source, ...]
    dump_rank: tuple[int | None, ...]
    census: ProcessTable
    gaps: tuple[Gap, ...]


def attribute(parsed: Sequence[Parsed], dumps: Sequence[DumpHead]) -> Attributed:
    """Give each event, source and dump its rank."""
    parsed = local_names(hosts_of_trees(parsed))
    events = [event for one in parsed for event in one.events]
    census = ProcessTable()
    read_processes(events, census)
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
        if event.rank is not None and event.written_by is Writer.RANK:
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


def _whose(source: Source, rank: int | None, known: str, census: ProcessTable) -> Source:
    """The file with its rank, its host, and how both are known."""
    host = source.host or (census.host.get(rank) if rank is not None else None)
    why = ", ".join(filter(None, (known, source.why, "host of its rank" if host and not source.host else "")))
    return replace(source, rank=rank, host=host, why=why)


def _name(event: Event, ranks: Mapping[int, int | None], census: ProcessTable, sources: Mapping[int, Source]) -> Event:
    """The event with its rank and host, as far as anything tells."""
    if isinstance(event, Setting):
        return event
    source = sources[event.place.source]
    host = short_host(event.host) if event.host else (short_host(source.host) if source.host else None)
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


def _rank_of(event: Event, own: int | None, census: ProcessTable, host: str | None) -> int | None:
    if event.pid is not None:
        rank = census.rank_of(host, event.pid)
        if rank is not None:
            return rank
    if isinstance(event, GpuError) and host:
        device = pci_address(event.device)
        return census.by_device.get((host, device)) if device else None
    if isinstance(event, ProcessExit) and event.task is not None:
        return census.by_task.get(event.task)
    if isinstance(event, ProcessExit) and event.local_rank is not None and host:
        return census.by_local.get((host, event.local_rank))
    if event.written_by is not Writer.RANK:
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
