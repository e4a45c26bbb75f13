"""Reads ``/proc``: what the kernel says of processes, their threads and their variables."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container
from contextlib import suppress
from functools import lru_cache
from typing import Any

from nccldoctor.collect.on_node.masking import secrets_in
from nccldoctor.collect.on_node.variables import ALLOWED, USED


def proc_text(path: str, limit: int = 1 << 20) -> str:
    """A small file of ``/proc``; "" where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def state_of(pid: int) -> str:
    """R, S, D, T, Z and so on; "" where the process is gone."""
    return (_stat_fields(f"/proc/{pid}") or [""])[0]


def _stat_fields(place: str) -> list[str]:
    """The fields of a process or a thread from its state on; empty where it is gone."""
    return proc_text(f"{place}/stat").rpartition(")")[2].split()


WORK = ("MS", "CPU", "KERNEL", "THREADS", "CHILDREN", "WAITS", "LOST", "READ", "WRITTEN")
"""What :func:`work_of` counts: milliseconds of the clock, CPU time of the main thread, its part in the kernel, that of other threads and of
ended children; how often the main thread waited, and lost its processor; bytes that the process read and wrote."""


def work_of(pid: int) -> list[int]:
    """What a process has done so far, in the order of :data:`WORK`; empty where it is gone."""
    of_process, of_main = _stat_fields(f"/proc/{pid}"), _stat_fields(f"/proc/{pid}/task/{pid}")
    if len(of_process) < 15 or len(of_main) < 15:
        return []
    tick = 1000 // os.sysconf("SC_CLK_TCK")
    user, kernel = (tick * int(field) for field in of_main[11:13])
    threads, children = (tick * (int(of_process[at]) + int(of_process[at + 1])) for at in (11, 13))
    told = proc_text(f"/proc/{pid}/task/{pid}/status") + proc_text(f"/proc/{pid}/io")
    counts = {name: int(count) for name, count in re.findall(r"^(\w+):\s*(\d+)$", told, re.MULTILINE)}
    switches = [counts.get(f"{kind}voluntary_ctxt_switches", 0) for kind in ("", "non")]
    moved = [max(counts.get(f"{name[0]}char", 0), counts.get(f"{name}_bytes", 0)) for name in ("read", "write")]
    return [int(1000 * time.monotonic()), user + kernel, kernel, threads - user - kernel, children, *switches, *moved]


def look_at_process(pid: int, asked: Container[str] = ()) -> dict[str, Any] | None:
    """What ``/proc`` says of a process, with the variables that the user ``asked`` for by name.

    The states come first, since the rest may hang.
    """
    head, _, tail = proc_text(f"/proc/{pid}/stat").rpartition(")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    pairs = _variables_of(pid)
    words = [word for word in proc_text(f"/proc/{pid}/cmdline", 1 << 16).split("\0") if word]
    user, exe = -1, ""
    with suppress(OSError):  # the process is gone, or another user's
        user = os.stat(f"/proc/{pid}").st_uid
        exe = os.readlink(f"/proc/{pid}/exe")
    return {
        "pid": pid,
        "parent": int(fields[1]),
        "state": fields[0],
        "started": boot_time() + int(fields[19]) / os.sysconf("SC_CLK_TCK"),
        "user": user,
        "comm": head.partition("(")[2],
        "words": words,
        "exe": exe,
        "env": {name: value for name, value in pairs or () if name in USED or name in asked or ALLOWED.fullmatch(name)},
        "secrets": sorted(secrets_in(words, pairs or ())),
        "is_readable": pairs is not None,
    }


def _variables_of(pid: int) -> list[tuple[str, str]] | None:
    """The variables of a process as they were at its start; None without the right to read them."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            items = file.read(1 << 20).split(b"\0")
    except OSError:
        return None
    pairs = (item.decode("utf-8", "backslashreplace").partition("=") for item in items)
    return [(name, value) for name, _, value in pairs]


@lru_cache(maxsize=1)
def boot_time() -> float:
    """When the machine started, in seconds since the epoch."""
    hit = re.search(r"^btime (\d+)", proc_text("/proc/stat"), re.MULTILINE)
    return float(hit.group(1)) if hit else 0.0


def has_torch_mapped(pid: int) -> bool:
    """True where a process has PyTorch's or NCCL's libraries in its memory."""
    return re.search(r"/lib(?:torch|nccl)[\w.+-]*\.so", proc_text(f"/proc/{pid}/maps", 16 << 20)) is not None


def can_use_nccl(pid: int) -> bool:
    """True where a process has a library in its memory that makes NCCL process groups, or those of another device."""
    libraries = r"/lib(?:torch_(?:cuda|hip|xpu)|nccl|rccl)[\w.+-]*\.so"
    return re.search(libraries, proc_text(f"/proc/{pid}/maps", 16 << 20)) is not None


def threads_of(pid: int) -> dict[str, Any]:
    """State and wait channel of each thread of a process, and its work so far.

    Root also gets the kernel's stack of the main thread.
    """
    rows = []
    try:
        names = sorted((name for name in os.listdir(f"/proc/{pid}/task")), key=int)
    except OSError:
        names = []
    for name in names[:1024]:
        task = f"/proc/{pid}/task/{name}"
        head, _, tail = proc_text(f"{task}/stat").rpartition(")")
        if tail:
            rows.append([int(name), tail.split()[0], proc_text(f"{task}/wchan").strip() or "-", head.partition("(")[2]])
    return {"threads": rows, "kernel": proc_text(f"/proc/{pid}/stack"), "work": work_of(pid)}
