"""Reads from lines which host, process, local rank and GPU each rank has."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.events import (
    CommInit,
    Events,
    InspectorRecord,
    Note,
    Phase,
    ProcessExit,
    ProcessId,
    RasStatus,
    Writer,
)
from nccldoctor.identify.group_members import gpus_by_ras
from nccldoctor.identify.pods import Pods
from nccldoctor.model.hosts import short_host
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import local_rank, own_host
from nccldoctor.parsers.kernel import driver


class ProcessTable(Struct):
    """The host, process id and GPU of each rank, and the way back from them to the rank.

    It grows while :func:`nccldoctor.identify.attribution.attribute` runs and is read-only afterwards. ``by_pid`` has keys (host,
    pid) and (None, pid); ``shared_pids`` occur on several hosts. ``hosts`` run at least one rank.
    ``rank_tasks`` are Slurm task ids that are global ranks.
    """

    host: dict[int, str] = {}
    pid: dict[int, int] = {}
    device: dict[int, str] = {}
    by_pid: dict[tuple[str | None, int], int] = {}
    by_local: dict[tuple[str, int], int] = {}
    by_device: dict[tuple[str, str], int] = {}
    rank_tasks: set[int] = set()
    shared_pids: set[int] = set()
    hosts: set[str] = set()
    pods: Pods = Pods()

    def rank_of(self, host: str | None, pid: int) -> int | None:
        """The rank of a process: by host and id, else by the id alone where only one rank has it."""
        rank = self.by_pid.get((host, pid)) if host is not None else None
        if rank is None and pid not in self.shared_pids:
            rank = self.by_pid.get((None, pid))
        return rank

    def rank_of_board(self, host: str, device: str) -> int | None:
        """The rank of a GPU of a host or of a pod on it.

        A kernel log of a node that no rank names is that of the only pod, where all ranks are in one pod and no line names its node.
        """
        names = [host, *self.pods.on(host)]
        if host not in self.hosts and len(self.hosts) == 1:
            names += [only for only in self.hosts if self.pods.is_pod(only) and self.pods.machine(only) is None]
        return next((rank for name in names if (rank := self.by_device.get((name, device))) is not None), None)

    def learn(self, rank: int, host: str | None, pid: int | None, local: int | None, device: str | None) -> None:
        """Add what one line says of one rank; what an earlier line said is kept."""
        if host:
            host = short_host(host)
            self.hosts.add(self.host.setdefault(rank, host))
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


def read_processes(events: Events, processes: ProcessTable) -> None:
    """Read the lines that tie a rank to a host, a process or a GPU."""
    inits: list[CommInit | InspectorRecord] = []
    for event in events:
        if isinstance(event, ProcessExit) and event.rank is not None:
            processes.learn(event.rank, event.host, event.pid, event.local_rank, None)
        elif isinstance(event, CommInit | InspectorRecord) and event.nranks:
            inits.append(event)
        elif event.rank is not None and (
            isinstance(event, ProcessId)
            or (isinstance(event, Note) and event.what == "world-size")
            or (isinstance(event, Phase) and event.what == "starting")
        ):  # a rank names itself and its place
            processes.learn(event.rank, event.host or own_host(event.text), event.pid, local_rank(event.text), None)
        elif event.rank is not None and (event.pid is not None or event.host) and event.written_by is Writer.RANK:
            processes.learn(event.rank, event.host, event.pid, None, None)
    table = [e for e in events.of_kind(Note) if e.what == "tasks-on-host"]
    placed = {rank: note.host for note in table for rank in Ranks.parse(note.detail)}
    if len(placed) > len({note.host for note in table}):  # tasks are ranks where a host has several
        for rank, host in placed.items():
            processes.learn(rank, host, None, None, None)
    _read_slurm_tasks(events, processes)
    _read_dead_actor([e for e in events.of_kind(ProcessExit) if e.reporter == "ray"], processes)
    _read_ras(events.of_kind(RasStatus), processes)
    biggest = max((e.nranks or 0 for e in inits), default=0)
    sees_all = {e.host for e in inits if isinstance(e, CommInit) and e.cuda_dev}
    for event in inits:
        if event.nranks == biggest and event.group_rank is not None:
            rank = event.rank if event.rank is not None else event.group_rank
            local, board = None, None
            if isinstance(event, CommInit):
                # a process sees all GPUs of its host, in the order of CUDA_VISIBLE_DEVICES, or one that it calls 0
                local = event.cuda_dev if event.host in sees_all else event.nvml_dev
                board = driver.board(event.bus_id or "")
            processes.learn(rank, event.host, event.pid, local, board)


def _read_ras(events: Sequence[RasStatus], processes: ProcessTable) -> None:
    """RAS lists processes by rank in a communicator: global ranks where it holds all GPUs."""
    total = gpus_by_ras(events)
    sizes = {(e.place.source, e.table): e.nranks for e in events if e.comm_id is None}
    for event in events if total else ():
        size = event.nranks or sizes.get((event.place.source, event.table))
        if event.comm_id is not None and size == total:
            for rank, host, pid in event.processes:
                processes.learn(rank, host, pid, None, None)


def _read_dead_actor(exits: Sequence[ProcessExit], processes: ProcessTable) -> None:
    """Ray names the process of a dead worker, and Ray Train its rank: one of each is one worker."""
    ranks = {e.rank for e in exits if e.rank is not None and e.pid is None}
    nameless = {(e.host, e.pid) for e in exits if e.rank is None and e.pid is not None}
    if len(ranks) == len(nameless) == 1:
        (rank,), ((host, pid),) = ranks, nameless
        if rank is not None and rank not in processes.pid:
            processes.learn(rank, host, pid, None, None)


def _read_slurm_tasks(events: Events, processes: ProcessTable) -> None:
    """Slurm's task ids are global ranks where each task is one rank.

    That is so where as many ranks were seen as there are tasks, or where a host has several tasks. A launcher that starts the
    ranks of its node is one task for each host: task 1 of two torchrun launchers is no rank.
    """
    exits = [e for e in events.of_kind(ProcessExit) if e.task is not None and e.rank is None]
    ranks = {e.rank for e in events if e.rank is not None}
    hosts = {e.host for e in exits}
    tasks = {e.task for e in exits}
    elastic = any(e.reporter == "torchrun" for e in events.of_kind(ProcessExit))
    if not tasks or (elastic and len(tasks) == len(hosts)):  # each task is a launcher, whose own table names the ranks
        return
    several = all(h is not None and "[" not in h and "," not in h for h in hosts) and len(tasks) > len(hosts)
    if not several and max(t for t in tasks if t is not None) > max(ranks, default=-1):
        return
    by_node = len(tasks) <= len(hosts) < len(ranks)  # then a task may be a launcher that started the ranks of its node
    if by_node and not all(
        e.host and e.task is not None and processes.host.get(e.task) == short_host(e.host) for e in exits
    ):
        return
    for event in exits:
        if event.task is not None:
            processes.rank_tasks.add(event.task)
            processes.learn(event.task, event.host, event.pid, None, None)
