"""Gives every event, every file and every dump its global rank and host.

Content comes first (``[rank3]:``, a launcher's table, an INIT line), then what the launcher's folders say, then file names. A name
that content contradicts is overruled, and the contradiction is kept as a Gap. Example: the lines of ``rank_2.log`` begin with
``[rank5]:``, so the file is of rank 5, and a Gap says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.discover.filename_hints import FAMILY, RAY_WORKER, hosts_in_names
from nccldoctor.events import (
    CallTimeout,
    Event,
    Events,
    ExceptionRaised,
    GpuError,
    InspectorRecord,
    ProcessExit,
    ProcessState,
    Progress,
    SchedulerEvent,
    Setting,
    Stack,
    Writer,
)
from nccldoctor.identify.group_ranks import LocalLines, find_local_lines
from nccldoctor.identify.looks import with_looks
from nccldoctor.identify.pods import find_pods, with_kernel_logs
from nccldoctor.identify.processes import ProcessTable, read_processes
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.model.hosts import host_order, short_host
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import DumpHead
from nccldoctor.parsers.base import Parsed
from nccldoctor.parsers.kernel import driver

_NO_DIGITS = str.maketrans("", "", "0123456789")


class Attributed(Struct, frozen=True):
    """Events and sources with their ranks and hosts; ``dump_rank`` gives the rank of each dump (None: not known)."""

    events: Events
    sources: tuple[Source, ...]
    dump_rank: tuple[int | None, ...]
    processes: ProcessTable
    gaps: tuple[Gap, ...]


class _FileRanks(Struct):
    """The rank of each file by source id (None: several or none), and how it is known."""

    rank: dict[int, int | None] = {}
    why: dict[int, str] = {}


def attribute(parsed: Sequence[Parsed], dumps: Sequence[DumpHead]) -> Attributed:
    """Give each event, source and dump its rank."""
    parsed = _with_local_ranks(_with_hosts_of_trees(_with_named_pids(_without_ranks_of_pids(_with_workers(parsed)))))
    events = Events(event for one in parsed for event in one.events)
    processes = ProcessTable(pods=find_pods(events))
    read_processes(events, processes)
    parsed = _with_hosts_in_names([_with_host_in_name(one, processes) for one in parsed])
    files, gaps = _file_ranks(parsed, processes)
    gaps += _learn_processes(parsed, files, processes)
    merged = {one.source.id for one in parsed if files.rank[one.source.id] is None}
    known = {e.rank for e in events if e.rank is not None} | set(processes.host)
    local = find_local_lines(events, merged, known)
    named = Events(
        _with_rank(e, one.source, files.rank[one.source.id], processes, local) for one in parsed for e in one.events
    )
    processes.pods = with_kernel_logs(processes.pods, named, processes.host)
    writers: dict[int, set[int]] = defaultdict(set)
    for event in named:
        if event.rank is not None and event.written_by is Writer.RANK:
            writers[event.place.source].add(event.rank)
    for source_id, ranks in writers.items():
        if files.rank.get(source_id) is None:
            files.why[source_id] = f"lines of {'ranks' if len(ranks) > 1 else 'rank'} {Ranks(ranks)}"
    sources = tuple(_source_with_rank(one.source, files, processes) for one in parsed)
    dump_rank, dump_gaps = _dump_ranks(dumps, {one.source.id: one.source.rank for one in parsed})
    looked = with_looks(named, {source.id: source for source in sources})
    return Attributed(looked, sources, dump_rank, processes, (*gaps, *dump_gaps))


def _learn_processes(parsed: Sequence[Parsed], files: _FileRanks, processes: ProcessTable) -> list[Gap]:
    """Learn where each file's rank runs, from its stacks. One of another rank's process gives the file to that rank, with a gap."""
    gaps: list[Gap] = []
    for one in parsed:
        source, rank = one.source, files.rank[one.source.id]
        if rank is None:
            continue
        if source.host:
            processes.learn(rank, source.host, *_process_told(source), None)
        writers = {(e.host, e.pid) for e in one.events if e.host and e.pid is not None and e.written_by is Writer.RANK}
        if len(writers) == 1 and not source.host and rank not in processes.host and not _is_of_worker(source):
            processes.learn(rank, *writers.pop(), None, None)
        for event in () if _is_of_worker(source) else one.events:
            if event.pid is None or not _is_of_stack_tool(event):
                continue
            host = event.host or source.host
            if (other := _other_rank_of(event.pid, rank, host, processes)) is None:
                processes.learn(rank, host, event.pid, None, None)
            elif files.rank[source.id] != other:
                files.rank[source.id], files.why[source.id] = other, "its process"
                what, why = f"{source.path} is named for rank {rank}", f"its process {event.pid} is rank {other}"
                gaps.append(Gap(what, why, Ranks([rank, other]), source.id, odd=True))
    return gaps


def _without_ranks_of_pids(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """``stack.41.txt`` of process 41, as the stack itself says: the number in the name is no rank.

    Not so where a file next to it disagrees: ``task_0.txt`` to ``task_3.txt`` all hold a stack of process 1, each of its own pod.
    """
    told = {
        one.source.id: [e.pid == one.source.rank for e in one.events if _is_of_stack_tool(e) and e.pid is not None]
        for one in parsed
        if one.source.why == FAMILY
    }
    folder = {one.source.id: one.source.path.rpartition("/")[0] for one in parsed}
    of_ranks = {folder[source] for source, fits in told.items() if fits and not any(fits)}
    return [
        replace(one, source=replace(one.source, rank=None, pid=one.source.rank, why=""))
        if any(told.get(one.source.id, ())) and folder[one.source.id] not in of_ranks
        else one
        for one in parsed
    ]


def _with_named_pids(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """``stacks-1/32714.txt`` with nothing in it but an error, or a stack without a pid: the name has it."""
    return [
        replace(one, events=tuple(replace(e, pid=e.pid or pid) if _is_of_stack_tool(e) else e for e in one.events))
        if (pid := one.source.pid) is not None
        else one
        for one in parsed
    ]


def _with_workers(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """A manifest says that a process is a worker of a rank: its stacks are not those of the rank."""
    out = []
    for one in parsed:
        events = (replace(e, main=False, helper=e.main or e.helper) if isinstance(e, Stack) else e for e in one.events)
        out.append(replace(one, events=tuple(events)) if _is_of_worker(one.source) else one)
    return out


def _is_of_worker(source: Source) -> bool:
    return source.collected is not None and source.collected.parent is not None


def _process_told(source: Source) -> tuple[int | None, int | None]:
    """The pid and the local rank of a rank's file, as far as a manifest or its folder says."""
    told = source.collected
    if told is None:
        return None, source.local_rank
    return (told.pid, told.local_rank) if told.parent is None else (None, None)


def _other_rank_of(pid: int, named: int, host: str | None, processes: ProcessTable) -> int | None:
    """The rank of a process, where lines of the same host say that another process is the named rank.

    A loop over ``pgrep`` numbers its stacks from 0, in the order of the processes and not of the ranks.
    """
    other, own = processes.rank_of(host or processes.host.get(named), pid), processes.pid.get(named)
    if other is None or own is None or own == pid or other == named:
        return None
    return other if processes.host.get(other) == processes.host.get(named) else None


def _is_of_stack_tool(event: Event) -> bool:
    """True of a stack, and of the error that a tool printed instead: their file is of one process."""
    return isinstance(event, Stack) or (isinstance(event, ProcessState) and event.tool == "stack tool")


def _with_hosts_of_trees(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """Torchrun writes ``LOG_DIR/RUN/attempt_K/LOCAL_RANK``: several such ``LOG_DIR`` are as many hosts, whatever their names."""
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


def _with_host_in_name(one: Parsed, processes: ProcessTable) -> Parsed:
    """``worker-27.log``, where lines anywhere say that ranks run on ``worker-27``: the file is of that host."""
    if one.source.host is not None:
        return one
    *folders, name = one.source.path.split("/")
    host = next((part for part in (name.split(".")[0], *reversed(folders)) if part in processes.hosts), None)
    return replace(one, source=replace(one.source, host=host)) if host is not None else one


def _with_hosts_in_names(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """The hosts that the names of ranks' logs hold, where no log has a host yet."""
    logs = [one.source for one in parsed if one.source.rank is not None and one.source.kind is SourceKind.LOG]
    hosts = (
        hosts_in_names({s.path: s.rank for s in logs if s.rank is not None}) if not any(s.host for s in logs) else {}
    )
    return [
        replace(one, source=replace(one.source, host=hosts.get(one.source.path, one.source.host))) for one in parsed
    ]


def _with_local_ranks(parsed: Sequence[Parsed]) -> Sequence[Parsed]:
    """``node0/rank_0.log`` and ``node1/rank_0.log``: no rank runs on two hosts, so such names count the ranks of a host."""
    by_host = [
        one.source.rank is not None and one.source.host is not None and one.source.kind is SourceKind.LOG
        for one in parsed
    ]
    hosts: dict[int | None, set[str | None]] = defaultdict(set)
    for one, is_by_host in zip(parsed, by_host, strict=True):
        if is_by_host:
            hosts[one.source.rank].add(one.source.host)
    if all(len(names) <= 1 for names in hosts.values()):
        return parsed
    return [
        replace(one, source=replace(s, rank=None, local_rank=s.rank, why=f"{s.why} (of the host)"))
        if is_by_host and (s := one.source)
        else one
        for one, is_by_host in zip(parsed, by_host, strict=True)
    ]


def _file_ranks(parsed: Sequence[Parsed], processes: ProcessTable) -> tuple[_FileRanks, list[Gap]]:
    """The rank of each file of one writer, and where its name and its lines contradict each other. Merged files have none."""
    files = _FileRanks()
    shared = set[int]()
    gaps: list[Gap] = []
    for one in parsed:
        source = one.source
        own = Counter(e.rank for e in one.events if e.rank is not None and e.written_by is Writer.RANK)
        named = source.rank if source.local_rank is None else None
        if own and named is not None and named not in own:
            why = f"its lines say {'rank' if len(own) == 1 else 'ranks'} {Ranks(own)}"
            gaps.append(Gap(f"{source.path} is named for rank {source.rank}", why, Ranks(own), source.id, odd=True))
        # an exception behind a launcher's label whose rank no line names, where lines name the rank of another label
        raised = (e for e in one.events if isinstance(e, ExceptionRaised))
        if len(own) > 1 or (own and any(e.rank is None and e.local_rank is not None for e in raised)):
            shared.add(source.id)
            files.rank[source.id] = None
        elif not own:
            files.rank[source.id] = named
        elif source.rank is None and source.local_rank is None and _has_many_writers(one):
            files.rank[source.id] = None
        else:
            (rank,) = own
            files.rank[source.id], files.why[source.id] = rank, "its lines"
            gaps += _contradicted_launcher(source, rank, processes)
    _by_processes(parsed, files, processes)
    for source in (one.source for one in parsed):  # Ray names such a file for its process: worker-<id>-<job>-12567.out
        if RAY_WORKER in source.why and source.pid is not None and files.rank[source.id] is None:
            files.rank[source.id] = processes.rank_of(short_host(source.host) if source.host else None, source.pid)
    _share_in_folders([one.source for one in parsed if one.source.id not in shared], files)
    _map_local_ranks(parsed, files, processes)
    return files, gaps


def _contradicted_launcher(source: Source, rank: int, processes: ProcessTable) -> list[Gap]:
    """A gap where the launcher gives this local rank of this host another rank than the lines do."""
    if not source.host or source.local_rank is None:
        return []
    by_launcher = processes.by_local.get((short_host(source.host), source.local_rank))
    if by_launcher is None or by_launcher == rank:
        return []
    what = f"{source.path} is local rank {source.local_rank} of {source.host}, rank {by_launcher} by the launcher"
    return [Gap(what, f"its lines say rank {rank}", Ranks([by_launcher, rank]), source.id, odd=True)]


def _has_many_writers(one: Parsed) -> bool:
    """True for a launcher's or a merged log that happens to quote one rank only.

    Several processes write such a log: ``(EngineCore pid=404)`` beside ``(Worker pid=611)``, or lines without a label. A process that an
    exception ended gives up on no call further down.
    """
    processes = {(e.host, e.pid) for e in one.events if e.pid is not None and e.written_by is Writer.RANK}
    labels = {bool(e.actor) for e in one.events if e.written_by is Writer.RANK}
    crashes = [e for e in one.events if isinstance(e, ExceptionRaised) and e.rank is None and _is_end(e)]
    last = max((e.place.line or 0 for e in one.events if isinstance(e, CallTimeout) and e.rank is not None), default=0)
    return (
        max(len(processes), len(labels)) > 1
        or any((e.place.line or 0) < last for e in crashes)
        or any(
            (isinstance(e, ProcessExit | SchedulerEvent) and e.written_by is not Writer.RANK)
            or (e.rank is None and e.group_rank is not None)
            for e in one.events
        )
    )


def _is_end(event: ExceptionRaised) -> bool:
    """True of an exception of a program's own that passed its outermost line."""
    return event.origin == "own" and not event.logged and any(f.startswith("<module> ") for f in event.frames[-1:])


def _by_processes(parsed: Sequence[Parsed], files: _FileRanks, processes: ProcessTable) -> None:
    """Files that differ in numbers alone, each with lines of another process: ``job.0.out`` to ``job.7.out`` are of one rank each."""
    ranks: dict[str, dict[int, set[int | None]]] = defaultdict(dict)
    for one in parsed:
        if one.source.kind is SourceKind.LOG and not any(
            isinstance(e, ProcessExit | SchedulerEvent) for e in one.events
        ):
            pids = {(short_host(h) if (h := e.host or one.source.host) else None, e.pid) for e in one.events if e.pid}
            ranks[one.source.path.translate(_NO_DIGITS)][one.source.id] = {processes.rank_of(*pid) for pid in pids}
    for family in ranks.values():
        known = {
            source_id: rank
            for source_id, found in family.items()
            if len(found) == 1
            for rank in found
            if rank is not None
        }
        if len(known) > 1 and len(set(known.values())) == len(known) == len([f for f in family.values() if f]):
            files.why.update({i: "lines of its process" for i in known if files.rank[i] is None})
            files.rank.update({i: rank for i, rank in known.items() if files.rank[i] is None})


def _share_in_folders(sources: Sequence[Source], files: _FileRanks) -> None:
    """``stdout.log`` and ``stderr.log`` in the folder of one local rank are of the same rank."""
    known: dict[tuple[str, int], set[int]] = defaultdict(set)
    places = [((s.path.rpartition("/")[0], s.local_rank), s.id) for s in sources if s.local_rank is not None]
    for place, source_id in places:
        rank = files.rank[source_id]
        if rank is not None:
            known[place].add(rank)
    for place, source_id in places:
        if files.rank[source_id] is None and len(known[place]) == 1:
            (files.rank[source_id],) = known[place]
            files.why[source_id] = "lines of the other stream"


def _map_local_ranks(parsed: Sequence[Parsed], files: _FileRanks, processes: ProcessTable) -> None:
    """Local ranks become ranks by the launcher's table, else by equal blocks in the order of the hosts.

    Two hosts with local ranks 0-3: local rank 1 of the second host is rank 5, if no known rank contradicts that order.
    """
    local = [(one.source, one.source.local_rank) for one in parsed if one.source.local_rank is not None]
    for source, number in local:
        if source.host and files.rank[source.id] is None:
            files.rank[source.id] = processes.by_local.get((short_host(source.host), number))
            if files.rank[source.id] is not None:
                files.why[source.id] = "what the launcher says of the local rank"
    numbers: dict[str, set[int]] = defaultdict(set)
    for source, number in local:
        numbers[source.host or ""].add(number)
    sizes = {len(of_host) for of_host in numbers.values()}
    if len(sizes) != 1 or any(max(of_host) + 1 != len(of_host) for of_host in numbers.values()):
        return
    base = {host: i * min(sizes) for i, host in enumerate(sorted(numbers, key=host_order))}
    guess = {source.id: base[source.host or ""] + number for source, number in local}
    if all(files.rank[source_id] in (None, rank) for source_id, rank in guess.items()):
        files.why.update({i: "local ranks in the order of the hosts" for i in guess if files.rank[i] is None})
        files.rank.update(guess)


def _source_with_rank(source: Source, files: _FileRanks, processes: ProcessTable) -> Source:
    """The file with its rank, its host, and how both are known."""
    rank = files.rank[source.id]
    host = source.host or (processes.host.get(rank) if rank is not None else None)
    of_rank = "host of its rank" if host and not source.host else ""
    why = ", ".join(filter(None, (files.why.get(source.id, ""), source.why, of_rank)))
    return replace(source, rank=rank, host=host, why=why)


def _with_rank(
    event: Event, source: Source, file_rank: int | None, processes: ProcessTable, local: LocalLines
) -> Event:
    """The event with its rank and host, where they are known.

    A bar without a label is not of the only rank whose lines have one: launchers label all lines, and ranks other than 0 draw no bars.
    """
    if isinstance(event, Setting):
        return event
    printed = event.host or source.host
    host = short_host(printed) if printed else None
    rank = event.rank
    if rank is not None and event.group is not None and event.group.desc == "default_pg":
        # nearer to the record than a line's prefix
        rank = _default_group_rank(event) if event.group_rank is not None else rank
    if rank is None:
        is_anybodys = isinstance(event, Progress) and source.rank is None and source.local_rank is None
        rank = _rank_of(event, None if is_anybodys else file_rank, processes, host)
        if (
            rank is not None
            and rank == event.group_rank
            and event.group is None
            and file_rank is None
            and local.is_local(event)
        ):
            rank = None
    if event.host is not None:
        host = event.host
    elif not host and rank is not None:
        host = processes.host.get(rank)
    return event if (rank, host) == (event.rank, event.host) else replace(event, rank=rank, host=host)


def _rank_of(event: Event, file_rank: int | None, processes: ProcessTable, host: str | None) -> int | None:
    if event.pid is not None and event.written_by is not Writer.SCHEDULER:  # a scheduler's notice is about no process
        rank = processes.rank_of(host, event.pid)
        if rank is not None:
            return rank
    if isinstance(event, GpuError) and host:
        device = driver.board(event.device or "")
        return processes.rank_of_board(host, device) if device else None
    if isinstance(event, ProcessExit) and event.task is not None:
        return event.task if event.task in processes.rank_tasks else None
    if isinstance(event, ProcessExit) and event.local_rank is not None and host:
        return processes.by_local.get((host, event.local_rank))
    if event.written_by is not Writer.RANK and not _is_of_stack_tool(event):
        return None
    if file_rank is not None:
        return file_rank
    if isinstance(event, InspectorRecord):
        return None  # its rank counts inside some communicator
    rank = _default_group_rank(event)
    own_host = processes.host.get(-1 if rank is None else rank, host)
    return rank if own_host == host or host not in processes.hosts else None  # rank 2 of a group on another host


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
    """The rank of each dump by its name, checked against the members of the groups it says it is in.

    Groups dp(3,7) and tp(0-3) have only rank 3 in common: that dump is of rank 3, whatever its name.
    """
    dump_rank: list[int | None] = []
    gaps: list[Gap] = []
    paths: dict[int, str] = {}
    sets = {id(c.ranks): frozenset(c.ranks) for c in {id(c.ranks): c for d in dumps for c in d.config}.values()}
    for dump in dumps:
        members = sorted((sets[id(c.ranks)] for c in dump.config if c.ranks), key=len)
        possible = frozenset.intersection(*members) if members else None
        rank = hints.get(dump.source)
        if rank is not None and possible is not None and rank not in possible:
            what = f"{dump.path} is named for rank {rank}"
            gaps.append(Gap(what, "its process groups don't contain that rank", Ranks([rank]), dump.source, odd=True))
            rank = None
        if rank is None and possible is not None and len(possible) == 1:
            (rank,) = possible
        if dump.problem:
            pass
        elif rank is None:
            what = f"{dump.path}: rank unknown"
            why = "neither its name nor its process groups show it; try --rank-from"
            gaps.append(Gap(what, why, Ranks(), dump.source, lost=dump.entries > 0))
        elif rank in paths:
            what = f"{dump.path}: a second dump of rank {rank}"
            gaps.append(Gap(what, f"we used {paths[rank]} instead", Ranks([rank]), dump.source))
            rank = None
        else:
            paths[rank] = dump.path
        dump_rank.append(rank)
    return tuple(dump_rank), gaps
