"""Takes the end of each log that a process of the job has open for writing."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Dict, List, Tuple

from nccldoctor.collect.on_node.children import READ_SECONDS, each, reader, run_all
from nccldoctor.collect.on_node.proc_files import proc_text, state_of
from nccldoctor.collect.on_node.process import Process
from nccldoctor.collect.on_node.process_tree import ProcessTree, folder
from nccldoctor.collect.on_node.tar_answer import TarAnswer

LOG_TAIL = 5_000_000
"""Bytes of the end of each log."""


MOST_LOGS = 512
"""Logs that are taken from one node."""

ONE_PAINT = re.compile(rb"\r[^\r\n]*[0-9]/[0-9][^\r\n]*")
"""A bar of progress, painted once: tqdm's own thread does so each ten seconds, and no step has to follow."""

_LOG_NAME = re.compile(
    r"(?:\.(?:log|out|err|txt|jsonl|stdout|stderr)(?:\.\d+)?|(?:^|[._-])(?:std(?:out|err)|log))$", re.IGNORECASE
)
_NO_LOG = re.compile(
    r"^/(?:dev|proc|sys|run|memfd:|anon_inode)|\.(?:so|pyc?|pt|pth|bin|npy|safetensors|db|sqlite|lock|tfevents)\b"
)


def open_logs(pid: int) -> list[dict[str, Any]]:
    """Regular files that a process writes: its output, and files that are named like logs."""
    try:
        names = sorted(os.listdir(f"/proc/{pid}/fd"), key=int)[:4096]
    except OSError:
        return [{"error": "no permission to list /proc/PID/fd"}] if state_of(pid) else []
    return [log for log in (_log_at(pid, name) for name in names) if log is not None]


def _log_at(pid: int, name: str) -> dict[str, Any] | None:
    """The log that a process writes by this descriptor; None for any other file."""
    link = f"/proc/{pid}/fd/{name}"
    try:
        target = os.readlink(link)
        flags = re.search(r"^flags:\s*([0-7]+)", proc_text(f"/proc/{pid}/fdinfo/{name}"), re.MULTILINE)
        is_written = flags is not None and int(flags.group(1), 8) & os.O_ACCMODE != os.O_RDONLY
        path = target[: -len(" (deleted)")] if target.endswith(" (deleted)") else target
        if not path.startswith("/") or not is_written or _NO_LOG.search(path):
            return None
        if name not in ("1", "2") and not _LOG_NAME.search(os.path.basename(path)):
            return None
        found = os.stat(link)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return {"fd": name, "path": path, "file": [found.st_dev, found.st_ino], "size": found.st_size}


Writers = Dict[Tuple[int, int], List[Tuple[Process, Dict[str, Any]]]]
"""Who writes each file, by its device and number."""


def log_sizes(tree: ProcessTree) -> dict[tuple[int, int], int]:
    """The bytes that each log has now, by its device and number; without those that cannot be listed."""
    by_pid = {process.pid: process for process in (*tree.ranks, *tree.workers, *tree.launchers())}
    return {
        tuple(log["file"]): log["size"]
        for _, found in each([*by_pid], open_logs)
        for log in found or ()
        if "error" not in log
    }


def add_logs(answer: TarAnswer, tree: ProcessTree, sizes: Mapping[tuple[int, int], int]) -> None:
    """The end of each log that a rank, a worker or a launcher writes; each file once.

    ``sizes`` are those that logs had at the first look: their rows tell how much was written since.
    """
    of_ranks = {process.pid for process in (*tree.ranks, *tree.workers)}
    used: set[str] = set()
    for number, (file, rows) in enumerate(_log_writers(answer, tree).items()):
        if number == MOST_LOGS:
            answer.lacks("logs", f"more than {MOST_LOGS}: the rest was left out")
            break
        # torchrun keeps the files open that it gives its ranks for their output
        rows = [row for row in rows if row[0].pid in of_ranks] or rows
        process, log = rows[0]
        is_of_rank = process.pid in of_ranks and len({p.pid if p.of is None else p.of for p, _ in rows}) == 1
        path = _log_path(folder(process, tree) + "/logs" if is_of_rank else "node/logs", log["path"], used)
        log["job"] = process.job if len({p.job for p, _ in rows}) == 1 else None
        log["before"] = sizes.get(file)
        _add_tail(answer, path, f"/proc/{process.pid}/fd/{log['fd']}", process if is_of_rank else None, log)


def _log_writers(answer: TarAnswer, tree: ProcessTree) -> Writers:
    writers: Writers = OrderedDict()
    by_pid = {process.pid: process for process in (*tree.ranks, *tree.workers, *tree.launchers())}
    # Slurm's steps have the logs of its daemon open too, and these tell of every job of the node
    slurm = [process.pid for process in tree.all.values() if process.comm == "slurmd"]
    of_daemons = {tuple(log["file"]) for _, logs in each(slurm, open_logs) for log in logs or () if "error" not in log}
    for pid, found in each([*by_pid], open_logs):
        if found is None:
            answer.lacks(f"logs of {by_pid[pid].name}", "its file system does not answer")
        for log in found or ():
            if "error" in log:
                answer.lacks(f"logs of {by_pid[pid].name}", log["error"])
            elif tuple(log["file"]) not in of_daemons:
                writers.setdefault(tuple(log["file"]), []).append((by_pid[pid], log))
    return writers


def _log_path(top: str, source: str, used: set[str]) -> str:
    """A path below ``top`` that no log has yet."""
    name = re.sub(r"[^\w.+-]", "_", os.path.basename(source))[:80] or "log"
    paths = (f"{top}/{number}-{name}" if number else f"{top}/{name}" for number in itertools.count())
    path = next(path for path in paths if path not in used)
    used.add(path)
    return path


def _add_tail(answer: TarAnswer, path: str, link: str, process: Process | None, log: dict[str, Any]) -> None:
    want = min(LOG_TAIL, answer.left)

    def work(write: Callable[[bytes], None], /) -> None:
        with open(link, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - want))
            write(b"%d\n" % size)
            left = want
            while left > 0:
                block = file.read(min(left, 1 << 16))
                if not block:
                    break
                write(block)
                left -= len(block)

    child = reader(work, min(READ_SECONDS, answer.seconds_left), want + 32)
    run_all([lambda: child])
    head, found, data = bytes(child.data).partition(b"\n")
    if not found or child.late:
        why = answer.why_late("its file system") if child.late else "no permission to read it"
        answer.lacks(f"the log {log['path']}", why)
        return
    cut = max(0, int(head) - want)
    if cut:
        data = data.partition(b"\n")[2]
        answer.lacks(f"the first {cut:,} bytes of {log['path']}", "only the end of a log is collected")
    before = log["before"]
    grown = {}
    if before is not None and before <= int(head):
        at = max(0, len(data) + before - int(head))
        old, new = data[:at], data[at:]
        grown = {
            "grown": 0 if ONE_PAINT.fullmatch(new) else len(new),
            "lines": old.count(b"\n") + (old[-1:] not in (b"", b"\n")),
        }
    answer.add(path, "log", data, process, source=log["path"], cut=cut, job=log["job"], **grown)
