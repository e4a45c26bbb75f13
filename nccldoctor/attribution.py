"""Who wrote what: gives every event and every dump its global rank, host and process.

Content comes first (``[rank3]:``, a launcher's table, an INIT line), then what the launcher's folders say, then file
names. A name that content contradicts is overruled, and the contradiction is kept as a Gap.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nccldoctor.columns import DumpHead
from nccldoctor.events import (
    CommInit,
    Event,
    GpuError,
    KernelEvent,
    OutOfMemory,
    Phase,
    ProcessExit,
    RendezvousError,
    SchedulerEvent,
    Setting,
    Stack,
)
from nccldoctor.model import Gap, Source
from nccldoctor.parsers.base import Parsed
from nccldoctor.ranks import Ranks

OUTSIDE = (GpuError, KernelEvent, OutOfMemory, ProcessExit, RendezvousError, SchedulerEvent)
"""Kinds that speak of a process but are written by somebody else: a file's own rank says nothing about them."""


@dataclass(slots=True)
class Roster:
    """Who is who, as it is being learned; read-only once :func:`attribute` has returned it."""

    host: dict[int, str] = field(default_factory=dict)
    pid: dict[int, int] = field(default_factory=dict)
    device: dict[int, str] = field(default_factory=dict)
    by_pid: dict[tuple[str | None, int], int] = field(default_factory=dict)
    by_local: dict[tuple[str, int], int] = field(default_factory=dict)
    by_device: dict[tuple[str, str], int] = field(default_factory=dict)
    by_task: dict[int, int] = field(default_factory=dict)
    shared_pids: set[int] = field(default_factory=set)

    def learn(self, rank: int, host: str | None, pid: int | None, local: int | None, device: str | None) -> None:
        """Note what one line says of one rank; the first word stands."""
        if host:
            host = short(host)
            self.host.setdefault(rank, host)
            if local is not None:
                self.by_local.setdefault((host, local), rank)
            if device:
                self.by_device.setdefault((host, device), rank)
        if device:
            self.device.setdefault(rank, device)
        if pid is not None:
            self.pid.setdefault(rank, pid)
            self.by_pid.setdefault((host or None, pid), rank)
            if self.by_pid.setdefault((None, pid), rank) != rank:
                self.shared_pids.add(pid)


def short(host: str) -> str:
    """A host's name up to its first dot, as NCCL prints it."""
    return host if host.replace(".", "").isdigit() else host.split(".", 1)[0]


def bus(address: str | None) -> str | None:
    """One spelling for a PCI address: ``0000:3a:00`` from ``0000:3a:00.0``, ``00000000:3A:00.0`` or NCCL's ``3a000``.

    NCCL prints hex without separators and leading zeros; from the right: one digit function, two device, two bus, the
    rest domain (NVIDIA/nccl, ``src/misc/utils.cc``).
    """
    if not address:
        return None
    text = address.lower().removeprefix("pci:")
    if ":" in text:
        parts = text.split(".", 1)[0].split(":")
        domain, rest = (parts[0], parts[1:]) if len(parts) == 3 else ("0", parts)
        return f"{domain[-4:].zfill(4)}:{':'.join(rest)}"
    if not all(c in "0123456789abcdef" for c in text):
        return None
    text = text.zfill(9)
    return f"{text[:-5][-4:]}:{text[-5:-3]}:{text[-3:-1]}"


@dataclass(frozen=True, slots=True)
class Attributed:
    """What :func:`attribute` found out."""

    events: tuple[Event, ...]
    sources: tuple[Source, ...]
    dump_rank: tuple[int | None, ...]
    roster: Roster
    gaps: tuple[Gap, ...]


def attribute(parsed: Sequence[Parsed], dumps: Sequence[DumpHead]) -> Attributed:
    """Give each event, source and dump its rank."""
    parsed = _hosts_of_trees(parsed)
    events = [event for one in parsed for event in one.events]
    roster = Roster()
    _learn(events, roster)
    ranks, gaps = _source_ranks(parsed, roster)
    for one in parsed:
        rank = ranks.get(one.source.id)
        if rank is not None and one.source.host:
            roster.learn(rank, one.source.host, None, one.source.local_rank, None)
        for event in one.events:
            if rank is not None and isinstance(event, Stack) and event.pid is not None:
                roster.learn(rank, event.host or one.source.host, event.pid, None, None)
    by_id = _by_id(parsed)
    named = [_name(event, ranks, roster, by_id) for event in events]
    sources = tuple(
        replace(one.source, rank=ranks.get(one.source.id), host=one.source.host or _host_of(ranks, one.source, roster))
        for one in parsed
    )
    dump_rank, more = _dump_ranks(dumps, {s.id: s.rank for s in (p.source for p in parsed)})
    return Attributed(tuple(named), sources, dump_rank, roster, (*gaps, *more))


def _hosts_of_trees(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
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


def _by_id(parsed: Sequence[Parsed]) -> Mapping[int, Source]:
    return {one.source.id: one.source for one in parsed}


def _host_of(ranks: Mapping[int, int | None], source: Source, roster: Roster) -> str | None:
    rank = ranks.get(source.id)
    return None if rank is None else roster.host.get(rank)


def _learn(events: Iterable[Event], roster: Roster) -> None:
    """Read the lines that tie a rank to a host, a process or a board."""
    inits: list[CommInit] = []
    for event in events:
        if isinstance(event, ProcessExit) and event.rank is not None:
            roster.learn(event.rank, event.host, event.pid, event.local_rank, None)
        elif isinstance(event, CommInit) and event.nranks:
            inits.append(event)
        elif isinstance(event, Phase) and event.what == "starting" and event.rank is not None:
            roster.learn(event.rank, event.host, event.pid, _local_in(event.text), None)
        elif event.rank is not None and (event.pid is not None or event.host) and not isinstance(event, OUTSIDE):
            roster.learn(event.rank, event.host, event.pid, None, None)
    _tasks(events, roster)
    biggest = max((e.nranks or 0 for e in inits), default=0)
    for event in inits:
        if event.nranks == biggest and event.group_rank is not None:
            rank = event.rank if event.rank is not None else event.group_rank
            roster.learn(rank, event.host, event.pid, event.nvml_dev, bus(event.bus_id))


def _tasks(events: Iterable[Event], roster: Roster) -> None:
    """Slurm's task ids are global ranks where each task is one rank: as many ranks were heard of as there are tasks, or a host has
    several tasks (a launcher that starts the ranks of its node is one task for each host).
    """
    exits = [e for e in events if isinstance(e, ProcessExit) and e.task is not None and e.rank is None]
    heard = {e.rank for e in events if e.rank is not None}
    hosts = {e.host for e in exits}
    tasks = {e.task for e in exits}
    if not tasks:
        return
    several = all(h is not None and "[" not in h and "," not in h for h in hosts) and len(tasks) > len(hosts)
    if not several and max(t for t in tasks if t is not None) > max(heard, default=-1):
        return
    by_node = len(tasks) <= len(hosts) < len(heard)  # then a task may be a launcher that started the ranks of its node
    if by_node and not all(e.host and e.task is not None and roster.host.get(e.task) == short(e.host) for e in exits):
        return
    for event in exits:
        if event.task is not None:
            roster.by_task[event.task] = event.task
            roster.learn(event.task, event.host, event.pid, None, None)


def _local_in(text: str) -> int | None:
    _, found, tail = text.partition("local_rank=")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    return int(digits) if found and digits and len(digits) < 6 else None


def _folder(source: Source) -> str:
    return source.path.rpartition("/")[0]


def _source_ranks(parsed: Sequence[Parsed], roster: Roster) -> tuple[dict[int, int | None], list[Gap]]:
    """The rank of each file that one rank wrote; None for merged files and launchers' own logs."""
    said = {
        one.source.id: Counter(e.rank for e in one.events if e.rank is not None and not isinstance(e, OUTSIDE))
        for one in parsed
    }
    out: dict[int, int | None] = {}
    gaps: list[Gap] = []
    for one in parsed:
        source, own = one.source, said[one.source.id]
        if len(own) == 1:
            (rank,) = own
            if source.rank is not None and source.rank != rank and source.local_rank is None:
                gaps.append(
                    Gap(
                        f"{source.path} is named for rank {source.rank}",
                        f"its lines say rank {rank}",
                        Ranks([rank]),
                        source.id,
                    )
                )
            if source.rank is None and source.local_rank is None and _many_writers(one):
                out[source.id] = None
            else:
                out[source.id] = rank
        elif own:
            out[source.id] = None
        else:
            out[source.id] = source.rank if source.local_rank is None else None
    _spread_over_folders(parsed, out)
    _map_local_ranks(parsed, out, roster)
    return out, gaps


def _many_writers(one: Parsed) -> bool:
    """Whether a file without a rank in its name is a launcher's or a merged log that happens to quote one rank only."""
    return any(isinstance(e, ProcessExit | SchedulerEvent) for e in one.events) or any(
        e.rank is None and e.group_rank is not None for e in one.events
    )


def _spread_over_folders(parsed: Sequence[Parsed], out: dict[int, int | None]) -> None:
    """stdout.log and stderr.log of one local rank stand in one folder: what one says holds for the other."""
    known: dict[str, set[int]] = defaultdict(set)
    for one in parsed:
        rank = out[one.source.id]
        if one.source.local_rank is not None and rank is not None:
            known[_folder(one.source)].add(rank)
    for one in parsed:
        ranks = known.get(_folder(one.source), set())
        if one.source.local_rank is not None and out[one.source.id] is None and len(ranks) == 1:
            out[one.source.id] = next(iter(ranks))


def _map_local_ranks(parsed: Sequence[Parsed], out: dict[int, int | None], roster: Roster) -> None:
    """Local ranks by the launcher's own table, else by equal blocks in the order of the host folders, if nothing contradicts."""
    open_ = [one.source for one in parsed if one.source.local_rank is not None and out[one.source.id] is None]
    for source in open_:
        if source.host and source.local_rank is not None:
            out[source.id] = roster.by_local.get((short(source.host), source.local_rank))
    locals_: dict[str, set[int]] = defaultdict(set)
    for one in parsed:
        if one.source.local_rank is not None:
            locals_[one.source.host or ""].add(one.source.local_rank)
    sizes = {len(found) for found in locals_.values()}
    if len(sizes) != 1 or any(max(found) + 1 != len(found) for found in locals_.values()):
        return
    block = sizes.pop()
    base = {host: i * block for i, host in enumerate(sorted(locals_, key=_natural))}
    guess = {
        o.source.id: base[o.source.host or ""] + o.source.local_rank for o in parsed if o.source.local_rank is not None
    }
    if all(out[i] in (None, rank) for i, rank in guess.items()):
        out.update({i: rank for i, rank in guess.items() if out[i] is None})


def _natural(host: str) -> list[tuple[int, str]]:
    """A key that puts node2 before node10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", host)]


def _name(event: Event, ranks: Mapping[int, int | None], roster: Roster, sources: Mapping[int, Source]) -> Event:
    """The event with its rank and host, as far as anything tells."""
    if isinstance(event, Setting):
        return event
    source = sources[event.place.source]
    host = short(event.host) if event.host else (short(source.host) if source.host else None)
    rank = event.rank
    if rank is None:
        rank = _rank_of(event, ranks.get(event.place.source), roster, host)
    changes: dict[str, Any] = {}
    if rank != event.rank:
        changes["rank"] = rank
    if event.host is None and (host or rank is not None):
        found = host or roster.host.get(rank if rank is not None else -1)
        if found:
            changes["host"] = found
    return replace(event, **changes) if changes else event


def _rank_of(event: Event, own: int | None, roster: Roster, host: str | None) -> int | None:
    if event.pid is not None:
        rank = roster.by_pid.get((host, event.pid)) if host is not None else None
        if rank is None and event.pid not in roster.shared_pids:
            rank = roster.by_pid.get((None, event.pid))
        if rank is not None:
            return rank
    if isinstance(event, GpuError) and host:
        device = bus(event.device)
        return roster.by_device.get((host, device)) if device else None
    if isinstance(event, ProcessExit) and event.task is not None:
        return roster.by_task.get(event.task)
    if isinstance(event, ProcessExit) and event.local_rank is not None and host:
        return roster.by_local.get((host, event.local_rank))
    if isinstance(event, OUTSIDE):
        return None
    if own is not None:
        return own
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
