"""Finds the processes of the job among all of the node: its ranks, their workers and launchers."""

from __future__ import annotations

import os
import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from functools import partial
from itertools import islice

from nccldoctor.collect.on_node.children import each
from nccldoctor.collect.on_node.proc_files import has_torch_mapped, look_at_process, state_of
from nccldoctor.collect.on_node.process import CaptureFolder, Process
from nccldoctor.collect.on_node.tar_answer import TarAnswer
from nccldoctor.collect.on_node.variables import number_in

MOST_PROCESSES, MOST_WORKERS, MOST_SECRETS = 256, 4096, 1000
"""Ranks of one node and their workers, and secrets of one job."""


class ProcessTree:
    """All processes of the node, and which of them are of the job."""

    def __init__(self, answer: TarAnswer, wanted: set[int] | None, where: dict[str, str], job: str = "") -> None:
        self.all: OrderedDict[int, Process] = OrderedDict()
        hidden = 0
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
        for pid, seen in each(pids, partial(look_at_process, asked=where)):
            if seen is None:
                if state_of(pid) == "D":
                    answer.lacks(f"pid {pid}", "reading its /proc files hangs; it is blocked in the kernel")
                continue
            process = self.all[pid] = Process(seen)
            hidden += not seen["is_readable"] and process.is_python and process.state not in "ZX"
        if hidden:
            answer.lacks(
                f"the environment of {hidden} Python processes",
                "no permission to read /proc/PID/environ: run the collector as root or as the user of the job",
            )
        self.children: dict[int, list[Process]] = {}
        for process in self.all.values():
            self.children.setdefault(process.parent, []).append(process)
        self.ranks: list[Process] = []
        self.ranks = self._wanted(wanted, answer) if wanted is not None else self._ranks(where, answer)
        if not self.ranks and wanted is None:
            self.ranks = self._unnamed(where)
        told = [(p.user, folder) for p in self.all.values() if (folder := CaptureFolder.told_by(p.words)) is not None]
        for rank in self.ranks:  # the rank's sidecar, a process of its user, knows where its files are, and its number
            own = (folder for user, folder in told if user == rank.user and folder.pid == rank.pid)
            rank.capture = next(own, None)
            rank.rank = rank.capture.rank if rank.rank is None and rank.capture is not None else rank.rank
        number_spawned(self.ranks)
        self.looked_at = of_one_job(self.ranks, job)
        workers = (worker for rank in self.ranks for worker in self._workers(rank))
        self.workers = list(islice(workers, MOST_WORKERS))
        answer.secrets = self._secrets_of_jobs()

    def below(self, process: Process) -> Iterator[Process]:
        """All descendants but other ranks, each before its own."""
        seen, waiting = {process.pid, *(rank.pid for rank in self.ranks)}, [process]
        while waiting:
            fresh = [child for child in self.children.get(waiting.pop().pid, ()) if child.pid not in seen]
            seen.update(child.pid for child in fresh)
            waiting += reversed(fresh)
            yield from fresh

    def of_job(self) -> list[Process]:
        """The ranks that are looked at, the workers of all, and whatever else those ranks have started."""
        out = [*self.looked_at, *self.workers]
        for rank in self.looked_at:
            others = [p for p in self.below(rank) if p.of is None and not p.is_beside]
            for process in others:
                process.job = rank.job
            out += others
        return out[:MOST_WORKERS]

    def above(self, process: Process) -> Iterator[Process]:
        """Its ancestors without the first process of the machine."""
        seen = set()
        while process.parent > 1 and process.parent in self.all and process.parent not in seen:
            process = self.all[process.parent]
            seen.add(process.pid)
            yield process

    def _ranks(self, where: dict[str, str], answer: TarAnswer) -> list[Process]:
        """Processes with a rank in their environment that neither start other ranks nor are workers of one."""
        named = [
            p
            for p in self.all.values()
            if p.rank is not None and p.is_python and not p.is_launcher and not p.is_collector and p.state not in "ZX"
        ]
        keys = {p.pid: p.identity for p in named}
        starters = {p.pid for p in named if any(keys.get(c.pid, p.identity) != p.identity for c in self.below(p))}
        named = [
            p for p in named if p.pid not in starters and all(p.env.get(name) == value for name, value in where.items())
        ]
        pids = {p.pid for p in named}
        ranks = [p for p in named if not any(a.pid in pids for a in self.above(p))]
        ranks += self._first_ranks(ranks)
        return sorted(self._of_its_user(ranks, answer), key=lambda p: (p.rank, p.pid))[:MOST_PROCESSES]

    def _first_ranks(self, others: list[Process]) -> Iterator[Process]:
        """The processes that started all ranks but the first: under Lightning they are it, and have no variables."""
        for pid in sorted({rank.parent for rank in others if "RANK" not in rank.env} & set(self.all)):
            first, ranks = self.all[pid], [rank for rank in others if rank.parent == pid]
            is_missing = {rank.rank for rank in ranks} == set(range(1, len(ranks) + 1))
            if is_missing and first.is_python and has_torch_mapped(pid):
                first.rank, first.local_rank, first.world_size, first.job = 0, 0, ranks[0].world_size, ranks[0].job
                yield first

    @staticmethod
    def _of_its_user(ranks: list[Process], answer: TarAnswer) -> list[Process]:
        """Without processes that say they are a rank which the user of most ranks of that job has, too.

        Anybody can start a process with the variables of a rank.
        """
        users: dict[str, Counter[int]] = {}
        for rank in ranks:
            users.setdefault(rank.job, Counter())[rank.user] += 1
        owners = {
            job: counts.most_common(1)[0][0]
            for job, counts in users.items()
            if 2 * max(counts.values()) > sum(counts.values())
        }
        own = {(rank.job, rank.rank) for rank in ranks if rank.user == owners.get(rank.job)}
        kept = [r for r in ranks if r.user == owners.get(r.job) or (r.job, r.rank) not in own]
        for stranger in (rank for rank in ranks if rank not in kept):
            answer.lacks(stranger.name, "a process of another user that says it is a rank of this job: it was left out")
        return kept

    def _unnamed(self, where: dict[str, str]) -> list[Process]:
        """Without any rank in an environment: the processes that have PyTorch's libraries in their memory."""
        meant = (p for p in self.all.values() if all(p.env.get(name) == value for name, value in where.items()))
        python = [p for p in meant if p.is_python and not p.is_launcher and p.state not in "ZX"]
        loaded = [self.all[pid] for pid, has in each([p.pid for p in python], has_torch_mapped) if has]
        pids = {p.pid for p in loaded}
        leaves = [
            p
            for p in loaded
            if not any(
                c.pid in pids and "multiprocessing" in " ".join(c.words) and "spawn" in " ".join(c.words)
                for c in self.below(p)
            )
        ]
        kept = {p.pid for p in leaves}
        return [p for p in leaves if not any(a.pid in kept for a in self.above(p))][:MOST_PROCESSES]

    def _wanted(self, wanted: set[int], answer: TarAnswer) -> list[Process]:
        for pid in sorted(wanted - set(self.all)):
            answer.lacks(f"pid {pid}", "no such process on this node")
        return [self.all[pid] for pid in sorted(wanted & set(self.all))]

    def _workers(self, rank: Process) -> list[Process]:
        """Processes that a rank has started; compilers and shells are none."""
        out = [p for p in self.below(rank) if p.is_python and not p.is_beside]
        for worker in out:
            worker.job = rank.job
            worker.of, worker.rank, worker.local_rank, worker.world_size = (
                rank.pid,
                rank.rank,
                rank.local_rank,
                rank.world_size,
            )
        return out

    def _secrets_of_jobs(self) -> dict[str, list[bytes]]:
        """The secrets that processes of each job hold, the longest first. Those of other processes concern no file of a job."""
        found: dict[str, set[bytes]] = {}
        for process in (*self.ranks, *self.of_job(), *self.launchers()):
            held = found.setdefault(process.job, set())
            held.update(secret.encode("utf-8", "backslashreplace") for secret in process.secrets)
        return {job: sorted(held, key=lambda value: (-len(value), value))[:MOST_SECRETS] for job, held in found.items()}

    def launchers(self) -> list[Process]:
        """What stands above the ranks up to the highest launcher, without one the parents alone."""
        out: OrderedDict[int, Process] = OrderedDict()
        for rank in self.ranks:
            above = list(self.above(rank))
            highest = max((at for at, process in enumerate(above) if process.is_launcher), default=0)
            for process in above[: highest + 1]:
                if process.pid not in out:
                    process.job = rank.job
                    out[process.pid] = process
        return list(out.values())


def number_spawned(ranks: list[Process]) -> None:
    """Number what one ``mp.spawn`` has started, by the pipes that it opens in turn; a gap shows one that ended."""
    hits = [(re.search(r"pipe_handle=([0-9]{1,9})", " ".join(rank.words)), rank) for rank in ranks if rank.rank is None]
    pipes = {int(hit.group(1)): rank for hit, rank in hits if hit}
    order = sorted(pipes)
    is_whole = len({after - before for before, after in zip(order, order[1:])}) == 1 and len(order) == len(ranks)
    for place, pipe in enumerate(order if is_whole and len({rank.parent for rank in ranks}) == 1 else ()):
        pipes[pipe].rank = pipes[pipe].local_rank = place
        pipes[pipe].world_size = len(order)


def of_one_job(ranks: list[Process], name: str = "") -> list[Process]:
    """The ranks of the job with this name, without one those of the job that has most of them here.

    Of equal ones it is the first by name, as the analysis chooses among several jobs.
    A process that says of no job that it is its rank stays.
    """
    jobs: dict[str, set[int]] = {}
    for rank in ranks:
        if rank.job and rank.rank is not None:
            jobs.setdefault(rank.job, set()).add(rank.rank)
    chosen = name or min(jobs, key=lambda job: (-len(jobs[job]), job), default="")
    return [rank for rank in ranks if rank.job not in jobs or rank.job == chosen]


def folder(process: Process, tree: ProcessTree) -> str:
    """``rank-3``; two processes that say they are rank 3 get their pids too."""
    rank = process.pid if process.of is None else process.of
    if process.rank is None:
        return f"pid-{rank}"
    is_only = sum(other.rank == process.rank for other in tree.ranks) == 1
    return f"rank-{process.rank}" if is_only else f"rank-{process.rank}-pid-{rank}"


def tell_missing_ranks(answer: TarAnswer, tree: ProcessTree) -> None:
    """Local ranks that should run here and do not, and ranks that are there twice."""
    counts: dict[tuple[str, int], list[int]] = {}
    for rank in tree.ranks:
        if rank.rank is not None:
            counts.setdefault((rank.job, rank.rank), []).append(rank.pid)
    for (_, number), pids in counts.items():
        if len(pids) > 1:
            answer.lacks(
                f"the process of rank {number}",
                f"pids {', '.join(map(str, pids))} all say that they are it; name one with --pid or --where",
            )
    sizes = {rank.env.get("LOCAL_WORLD_SIZE", "") for rank in tree.ranks}
    size = number_in(sizes.pop()) if len(sizes) == 1 else None
    here = {rank.local_rank for rank in tree.ranks}
    for number in range(min(size or 0, MOST_PROCESSES)):
        if number not in here:
            answer.lacks(f"the process with local rank {number}", f"it does not run here; LOCAL_WORLD_SIZE is {size}")


def note_ends(tree: ProcessTree) -> None:
    """See which ranks are gone by now: a job whose ranks all are is not the one that hangs."""
    for rank in tree.ranks:
        rank.has_ended = state_of(rank.pid) in ("", "Z", "X")
