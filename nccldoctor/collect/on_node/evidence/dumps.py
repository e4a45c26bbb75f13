"""Takes the flight recorder dumps of this run, and asks PyTorch for new ones."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from nccldoctor.collect.on_node.children import MOST_REPORT, READ_SECONDS, Child, each, reader, run_all
from nccldoctor.collect.on_node.inside import NotItsOwn, open_inside
from nccldoctor.collect.on_node.proc_files import can_use_nccl
from nccldoctor.collect.on_node.process import Process
from nccldoctor.collect.on_node.process_tree import ProcessTree, folder
from nccldoctor.collect.on_node.tar_answer import TarAnswer

DUMP_SECONDS = 8.0
"""Seconds until a dump that was asked for must be there."""


def dump_paths(rank: Process) -> list[str]:
    """Where PyTorch writes the recorder dump of a rank: by its variables and by capture, else in its default places.

    Source: pytorch ``torch/csrc/distributed/c10d/FlightRecorder.cpp`` 2.2 to 2.13, ``DebugInfoWriter::getWriter``.
    """
    named = [rank.env.get(name, "") for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")]
    named += [os.path.join(rank.capture.top, "dumps", "nccl_trace_rank_")] if rank.capture is not None else []
    caches = [rank.env.get("XDG_CACHE_HOME") or "", os.path.join(rank.env.get("HOME") or "/nowhere", ".cache")]
    usual = [
        os.path.join(cache, "torch", name)
        for cache in caches
        if cache
        for name in ("comm_lib_trace_rank_", "nccl_trace_rank_")
    ]
    prefixes = [prefix for prefix in (*named, *usual, "/tmp/nccl_trace_rank_") if os.path.isabs(prefix)]
    return [f"{prefix}{rank.rank}" for prefix in OrderedDict.fromkeys(prefixes)]


def open_pipes(pid: int, rank: int | None) -> list[str]:
    """Pipes of that kind that a process has open.

    A program may set the variable after its start, where nobody sees it.
    """
    try:
        links = [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []
    return [link for link in links if _target(link).endswith(f"{rank}.pipe")]


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _read_dumps(pid: int, paths: list[str], since: float, write: Callable[[bytes], None], /) -> None:
    """Write the first good dump. For each: path, NUL, why it is left out, NUL; behind those of the good one its bytes."""
    for path in paths:
        name = path.encode("utf-8", "surrogateescape")
        try:
            descriptor = open_inside(pid, path, os.O_RDONLY | os.O_NONBLOCK)
        except NotItsOwn:
            write(name + b"\0its process may not read it\0")
            continue
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not found.st_size:
                continue
            if found.st_mtime < since:
                write(name + b"\0older than the process: of another run\0")
            elif found.st_size > MOST_REPORT:
                write(name + b"\0larger than 64 MB\0")
            else:
                write(name + b"\0\0")
                for block in iter(lambda: file.read(1 << 16), b""):
                    write(block)
                return


def _told_dumps(data: bytes) -> tuple[list[tuple[str, str]], str, bytes]:
    """What :func:`_read_dumps` wrote: paths that were left out and why, and the dump with its path, "" without one."""
    left_out: list[tuple[str, str]] = []
    while data:
        path, _, data = data.partition(b"\0")
        why, _, data = data.partition(b"\0")
        source = path.decode("utf-8", "backslashreplace")
        if not why:
            return left_out, source, data
        left_out.append((source, why.decode()))
    return left_out, "", b""


def add_dumps(answer: TarAnswer, tree: ProcessTree, name: str, since: dict[int, float] | None = None) -> set[int]:
    """Recorder dumps that exist, of this run only; the pids that have one. ``since`` asks for dumps written after a moment."""
    have: set[int] = set()
    ranks = [rank for rank in tree.ranks if rank.rank is not None and (since is None or rank.pid in since)]

    def start(rank: Process) -> Child:
        begin = rank.started if since is None else since[rank.pid]
        read = partial(_read_dumps, rank.pid, dump_paths(rank), begin)
        child = reader(read, min(READ_SECONDS, answer.seconds_left), MOST_REPORT + 4096)
        child.then = lambda child: end(child, rank)
        return child

    def end(child: Child, rank: Process) -> None:
        left_out, source, dump = _told_dumps(bytes(child.data))
        for path, why in left_out if since is None else ():
            answer.lacks(f"flight recorder dump {path} of {rank.name}", why)
        if source:
            answer.add(f"{folder(rank, tree)}/{name}_{rank.rank}", "dump", dump, rank, source=source)
            have.add(rank.pid)

    run_all([partial(start, rank) for rank in ranks], 1)
    return have


def trigger_dumps(answer: TarAnswer, tree: ProcessTree) -> dict[int, float]:
    """Ask each rank of the job that has a pipe for a dump; the pids that were asked, and when."""
    ranks = {rank.pid: rank for rank in tree.looked_at if rank.rank is not None}
    asked: dict[int, float] = {}
    refused: dict[int, str] = {}
    for pid, why in each([*ranks], lambda pid: _why_not_asked(ranks[pid])):
        if why == "":
            asked[pid] = time.time() - 1.0
        else:
            refused[pid] = why or "its file system does not answer"
    if tree.ranks and not asked and all(why in (NO_PIPE, NOT_OPENED) for why in refused.values()):
        answer.lacks("new flight recorder dumps", _why_no_pipe(tree))
        return asked
    for pid, why in refused.items():
        if why != NO_PIPE:
            answer.lacks(f"a new flight recorder dump of {ranks[pid].name}", why)
    return asked


def _why_no_pipe(tree: ProcessTree) -> str:
    """Why no rank has a pipe, with what brings dumps next time: the variable on NCCL, capture on gloo."""
    if all(rank.capture is not None for rank in tree.ranks):
        return CAPTURE_DUMPED
    has_nccl = any(is_loaded or is_loaded is None for _, is_loaded in each([r.pid for r in tree.ranks], can_use_nccl))
    return NOT_OPENED_BY_ANY if has_nccl else NOT_NCCL


NOT_OPENED_BY_ANY = (
    "no rank has a pipe open. An NCCL process group opens one where TORCH_NCCL_DEBUG_INFO_PIPE_FILE names it: set it with "
    "TORCH_FR_BUFFER_SIZE=2000 next time. On gloo only nccldoctor.capture takes dumps"
)
NOT_NCCL = "no rank has NCCL loaded, and gloo dumps on request only under nccldoctor.capture"
CAPTURE_DUMPED = "only NCCL process groups dump on request; what capture dumped by itself is under capture/dumps"
NOT_OPENED = "it does not have its pipe open; only NCCL process groups open it"
"""What :func:`_why_not_asked` says of a rank whose variable names a pipe that is not there, or that nobody reads."""

NO_PIPE = "no pipe"
"""What it says of a rank without any."""


def _why_not_asked(rank: Process) -> str:
    """Write a byte into the first pipe of a rank; why that was not possible, or ""."""
    why = NO_PIPE
    # the pipe that makes PyTorch write a dump (DumpPipe of ProcessGroupNCCL.hpp); XCCL has its own name for it
    names = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DEBUG_INFO_PIPE_FILE")
    paths = [f"{rank.env[name]}{rank.rank}.pipe" for name in names if os.path.isabs(rank.env.get(name, ""))]
    named = [(path, partial(open_inside, rank.pid, path)) for path in paths]
    already_open = [(link, partial(os.open, link)) for link in open_pipes(rank.pid, rank.rank)]
    for path, opened in (*named, *already_open):
        try:
            descriptor = opened(os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            is_closed = error.errno in (errno.ENXIO, errno.ENOENT)
            why = NOT_OPENED if is_closed else f"its pipe {path}: {error.strerror}"
            continue
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"1")
                return ""
            why = "its pipe is no pipe"
        finally:
            os.close(descriptor)
    return why


def add_triggered_dumps(answer: TarAnswer, tree: ProcessTree, asked: dict[int, float]) -> None:
    """Wait for the dumps that were asked for; PyTorch looks at its pipe once a second."""
    until = time.monotonic() + min(DUMP_SECONDS, answer.seconds_left)
    while asked:
        for pid in add_dumps(answer, tree, "dump-1-triggered", asked):
            del asked[pid]
        if not asked or time.monotonic() >= until:
            break
        time.sleep(0.5)
    for rank in tree.ranks:
        if rank.pid in asked:
            answer.lacks(
                f"a new flight recorder dump of {rank.name}",
                f"none was written within {DUMP_SECONDS:.0f} s after the byte in its pipe",
            )
