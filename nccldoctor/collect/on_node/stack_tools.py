"""Finds the tools that show stacks, and says how each is called."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from nccldoctor.collect.on_node.proc_files import proc_text
from nccldoctor.collect.on_node.process import Process

PYTHON_TOOLS = ("py-spy", "pystack")
"""Tools that show Python frames, the best first. They pause a process for a moment; one that is stopped or blocked they don't."""

NATIVE_TOOLS = ("eu-stack", "gdb")
"""Tools that stop a process for seconds while they read symbols, and show native frames alone. ``--gdb`` asks for them."""


def stack_command(tool: str, path: str, pid: str, standing: bool, native: bool) -> list[str] | None:
    """The command of a tool; ``standing`` is a process that cannot be stopped, for which only two tools will do."""
    if tool == "py-spy":
        return [path, "dump", "--pid", pid, *(["--nonblocking"] if standing else ["--native"] if native else [])]
    if tool == "pystack":
        return [path, "remote", *(["--no-block"] if standing else ["--native"] if native else []), pid]
    if standing:
        return None
    if tool == "eu-stack":
        return [path, "-p", pid]
    quiet = ["-iex", "set auto-load off", "-iex", "set debuginfod enabled off", "-ex", "set pagination off"]
    return [path, "-nx", "-batch", *quiet, "-p", pid, "-ex", "thread apply all bt 64"]


def find_tool(name: str, processes: Iterable[Process]) -> str | None:
    """Where a tool is: on the path of this program, or on that of the job.

    A file that another user could have put there is never run.
    """
    return next((path for path in _paths_of_tool(name, processes) if _is_trusted(path)), None)


def why_no_python_stacks(processes: Iterable[Process], native: Iterable[str]) -> str:
    """Why no tool shows Python frames, and what to do; ``native`` are the tools that ``--gdb`` would run here."""
    path = next(_paths_of_tool(PYTHON_TOOLS[0], processes), None)
    if path is not None:
        why = f"{path} was not run, because another user could replace it: install py-spy in a folder of root"
    else:
        why = "py-spy is not installed (pip install py-spy)"
    names = " and ".join(native)
    return f"{why}; --gdb reads native stacks with {names}, and stops each process for seconds" if names else why


def _paths_of_tool(name: str, processes: Iterable[Process]) -> Iterator[str]:
    """Programs of this name, on the path of this program and then on those of the job."""
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), os.path.dirname(sys.executable)]
    folders += ["/usr/local/bin", "/opt/conda/bin"]
    for process in processes:
        if is_same_place(process.pid):
            folders += [
                os.path.join(process.env.get("VIRTUAL_ENV") or "/nowhere", "bin"),
                os.path.dirname(process.words[0] if process.words else ""),
            ]
            folders += process.env.get("PATH", "").split(os.pathsep)
    for place in OrderedDict.fromkeys(folders):
        path = os.path.join(place, name)
        if os.path.isabs(path) and os.access(path, os.X_OK):
            yield path


def _is_trusted(path: str) -> bool:
    """True for a file of root or of this user that nobody else can write, move or replace.

    What root runs stands in folders of root alone, up to the top. A user runs whatever stands in folders that are shared with a project.
    """
    real = os.path.realpath(path)
    folders = [os.path.dirname(real)]
    while os.geteuid() == 0 and folders[-1] != "/":
        folders.append(os.path.dirname(folders[-1]))
    try:
        places = [os.stat(place) for place in (real, *folders)]
    except OSError:
        return False
    of_others = stat.S_IWOTH | stat.S_IWGRP if os.geteuid() == 0 else stat.S_IWOTH
    return stat.S_ISREG(places[0].st_mode) and not any(
        place.st_uid not in (0, os.geteuid()) or (place.st_mode & of_others and not place.st_mode & stat.S_ISVTX)
        for place in places
    )


def is_same_place(pid: int) -> bool:
    """True where a process sees the same files as this program."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return False


def why_no_stacks(pid: int) -> str:
    """What to change where the kernel refuses to show a process."""
    advice = []
    powers = re.search(r"^CapEff:\s*([0-9a-f]+)", proc_text("/proc/self/status"), re.MULTILINE)
    if powers and not int(powers.group(1), 16) >> 19 & 1:
        advice.append(
            "this program lacks SYS_PTRACE: run it as root, or give the pod securityContext.capabilities.add: [SYS_PTRACE], "
            "or the container --cap-add=SYS_PTRACE"
        )
    scope = proc_text("/proc/sys/kernel/yama/ptrace_scope").strip()
    if scope not in ("", "0"):
        advice.append(
            f"kernel.yama.ptrace_scope is {scope}; 0 lets a user look at own processes (sysctl -w kernel.yama.ptrace_scope=0)"
        )
    tracer = re.search(r"^TracerPid:\s*([1-9]\d*)", proc_text(f"/proc/{pid}/status"), re.MULTILINE)
    if tracer:
        advice.append(f"process {tracer.group(1)} already traces it")
    return "; ".join(advice)


def last_line_of(data: bytes | bytearray) -> str:
    """What a command printed last, or its last errors; "" of nothing."""
    lines = [line.strip() for line in bytes(data).decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"rror|denied|ailed|permitted", line)]
    return " / ".join(OrderedDict.fromkeys((errors or lines)[-3:]))[:300]
