"""Looks at the processes of the job: their states, wait channels and variables."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

from nccldoctor.collect.on_node.children import each
from nccldoctor.collect.on_node.masking import masked_command
from nccldoctor.collect.on_node.proc_files import WORK, state_of, threads_of, work_of
from nccldoctor.collect.on_node.process import Process
from nccldoctor.collect.on_node.process_tree import ProcessTree, folder
from nccldoctor.collect.on_node.tar_answer import TarAnswer, now, text_of
from nccldoctor.collect.on_node.variables import ALLOWED
from nccldoctor.words.kernel_waits import telling_function
from nccldoctor.words.secrets import MASK, is_secret

HEADS = ("PID", "PPID", "STAT", "WCHAN", "ELAPSED", "COMMAND")
"""The columns of the table of processes; that of a second look has those of :data:`WORK` before the command."""


def note_work(tree: ProcessTree) -> None:
    """Note what the processes of the job have done so far."""
    by_pid = {process.pid: process for process in tree.of_job()}
    for pid, work in _with_children(tree, dict(each([*by_pid], work_of))).items():
        by_pid[pid].work = work


def _with_children(tree: ProcessTree, seen: dict[int, list[int] | None]) -> dict[int, list[int]]:
    """The work of each process, with the CPU time and the bytes of all that runs below it."""
    out = {pid: [*work] for pid, work in seen.items() if work}
    for pid, row in out.items():
        for _, cpu, _, threads, ended, _, _, read, written in (
            seen.get(p.pid) or [0] * 9 for p in tree.below(tree.all[pid])
        ):
            row[4], row[-2], row[-1] = row[4] + cpu + threads + ended, row[-2] + read, row[-1] + written
    return out


def look_at_states(answer: TarAnswer, tree: ProcessTree, look: int) -> None:
    """One table of the processes of each job as ``ps`` prints it, and one of the threads of each rank."""
    tables: OrderedDict[str, list[tuple[str, ...]]] = OrderedDict()
    by_pid = {process.pid: process for process in (*tree.launchers(), *tree.ranks, *tree.of_job())}
    of_ranks = {rank.pid for rank in tree.ranks}
    moment = now()
    seen_by_pid = dict(each([*by_pid], threads_of))
    done = _with_children(tree, {pid: seen["work"] for pid, seen in seen_by_pid.items() if seen is not None})
    for pid, seen in seen_by_pid.items():
        process = by_pid[pid]
        _note_state(process, seen, look, moment)
        if process.state == "X":
            answer.lacks(process.name, "the process ended while it was looked at")
            continue
        did = [str(max(0, new - old)) for old, new in zip(process.work, done.get(pid, ()))]
        work = [*did, *["-"] * (len(WORK) - len(did))] if look > 1 else []
        tables.setdefault(process.job, [(*HEADS[:-1], *WORK[: len(work)], HEADS[-1])]).append(_row_of(process, work))
        if seen is not None and pid in of_ranks:
            answer.add(f"{folder(process, tree)}/threads-{look}.txt", "threads", _thread_table(seen), process, look)
    for number, (job, rows) in enumerate(tables.items(), 1):
        path = f"node/processes-{look}.txt" if number == 1 else f"node/job-{number}-processes-{look}.txt"
        answer.add(path, "processes", text_of(" ".join(row) for row in rows), look=look, time=moment, job=job)


def _note_state(process: Process, seen: dict[str, Any] | None, look: int, moment: str) -> None:
    """Give a process its state, X where it is gone, and the kernel function that it waits in."""
    process.state = state_of(process.pid) or "X"
    main = next((row for row in (seen or {}).get("threads", ()) if row[0] == process.pid), None)
    telling = telling_function(seen["kernel"].splitlines()) if seen is not None else None
    process.wchan = telling or (main[2] if main is not None else None)
    process.looks.append({"look": look, "time": moment, "state": process.state, "wchan": process.wchan})


def _row_of(process: Process, work: list[str]) -> tuple[str, ...]:
    command = masked_command(process.words) or f"[{process.comm}]"
    hours, rest = divmod(max(0, int(time.time() - process.started)), 3600)
    elapsed = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return str(process.pid), str(process.parent), process.state, process.wchan or "-", elapsed, *work, command


def _thread_table(seen: dict[str, Any]) -> bytes:
    lines = [f"TID S WCHAN{'':<24} NAME"]
    lines += [f"{tid} {state} {wchan:<29} {name}" for tid, state, wchan, name in seen["threads"]]
    if seen["kernel"].strip():
        lines += ["", "kernel stack of the main thread:", *("  " + line for line in seen["kernel"].splitlines())]
    return text_of(lines)


def add_environments(answer: TarAnswer, tree: ProcessTree) -> None:
    """The allowed variables of each rank, as they were when it started."""
    for rank in tree.ranks:
        rows = []
        for name, value in sorted(rank.env.items()):
            if ALLOWED.fullmatch(name):
                rows.append(f"{name}={MASK if is_secret(name) else ' '.join(value.split())[:2000]}")
        if rows:
            answer.add(f"{folder(rank, tree)}/environment.txt", "environment", text_of(rows), rank)
