"""Looks at the machine: the kernel's log, GPUs, memory, load, mounts, and versions of libraries."""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial

from nccldoctor.collect.on_node.children import TOOL_SECONDS, Child, command, each, run_all
from nccldoctor.collect.on_node.inside import open_inside
from nccldoctor.collect.on_node.proc_files import boot_time, proc_text
from nccldoctor.collect.on_node.process_tree import ProcessTree
from nccldoctor.collect.on_node.stack_tools import find_tool, last_line_of
from nccldoctor.collect.on_node.tar_answer import TarAnswer, text_of

NETWORK_FILE_SYSTEMS = re.compile(
    r"^(?:nfs\d?|lustre|gpfs|ceph|cifs|smb\w*|beegfs|glusterfs|wekafs|9p|virtiofs|fuse\.\w+|orangefs|panfs)$"
)
_DISTRIBUTION = re.compile(
    r"(torch|nvidia_nccl_cu\d+|pytorch_lightning|transformers|accelerate|deepspeed)-([\w.+]+)\.dist-info$"
)

NODE_COMMANDS = (
    ("node/dmesg.log", "kernel log", ["dmesg"]),
    ("node/nvidia-smi.txt", "gpu", ["nvidia-smi"]),
    ("node/nvidia-smi-q.txt", "gpu", ["nvidia-smi", "-q"]),
)


def add_node(answer: TarAnswer, tree: ProcessTree) -> None:
    """The kernel's log, the state of GPUs, memory, load, mounts, and versions of libraries."""
    since = min((process.started for process in (*tree.ranks, *tree.launchers())), default=time.time() - 3600)
    run_all([partial(_start_node_command, answer, since, *row) for row in NODE_COMMANDS])
    answer.add("node/machine.txt", "node", text_of(_machine_rows()))
    looks = each([rank.pid for rank in tree.ranks[:8]], versions_of)
    found = OrderedDict((line, None) for _, lines in looks for line in lines or ())
    if found:
        answer.add("node/versions.txt", "versions", text_of(found))


def _machine_rows() -> Iterator[str]:
    yield f"load: {proc_text('/proc/loadavg').strip()}"
    yield f"kernel: {' '.join(os.uname()[:3])}"
    yield f"cores: {os.cpu_count()}"
    for line in proc_text("/proc/meminfo").splitlines():
        if line.startswith(("MemTotal", "MemAvailable", "SwapFree", "Shmem:")):
            yield line
    for line in proc_text("/proc/self/mounts").splitlines():
        what, where, kind = [*line.split(), "", "", ""][:3]
        if NETWORK_FILE_SYSTEMS.match(kind):
            yield f"mount: {where} is {kind} from {what}"


def kernel_lines(data: bytes, since: float, booted: float) -> bytes:
    """The kernel's messages since a moment, with times as ``dmesg -T`` prints them; the kernel counts from its start, ``booted``.

    What is older than the job is not of it: a process that was killed an hour before must not be accused.
    """
    out = []
    is_late = False
    for line in data.splitlines():
        hit = re.match(rb"(?:<\d+>)?\[ *(\d+\.\d+)\] ?", line)
        if hit is not None:
            at = booted + float(hit.group(1))
            is_late = at >= since
            line = f"[{time.strftime('%a %b %d %H:%M:%S %Y', time.localtime(at))}] ".encode() + line[hit.end() :]
        if is_late:
            out.append(line)
    return b"\n".join(out) + b"\n" if out else b""


def _start_node_command(answer: TarAnswer, since: float, path: str, kind: str, words: list[str]) -> Child | None:
    tool = find_tool(words[0], ())
    if tool is None:
        answer.lacks(words[0], "not on this node")
        return None

    def end(child: Child) -> None:
        if child.status != 0 or child.late:
            answer.lacks(" ".join(words), answer.why_late("it") if child.late else last_line_of(child.data) or "failed")
        else:
            data = kernel_lines(bytes(child.data), since, boot_time()) if kind == "kernel log" else bytes(child.data)
            answer.add(path, kind, data[-(512 << 10) :])

    try:
        child = command([tool, *words[1:]], min(TOOL_SECONDS, answer.seconds_left))
    except OSError as error:
        answer.lacks(" ".join(words), f"cannot be started: {error.strerror}")
        return None
    child.then = end
    return child


def versions_of(pid: int) -> list[str]:
    """Versions of PyTorch and NCCL by the files that a process has mapped; nothing is imported."""
    maps = proc_text(f"/proc/{pid}/maps", 16 << 20)
    out = []
    for site in OrderedDict.fromkeys(re.findall(r"(/\S*/(?:site|dist)-packages)/torch/lib/", maps)):
        try:
            place = open_inside(pid, site, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        names = sorted(os.listdir(place))
        os.close(place)
        for hit in filter(None, map(_DISTRIBUTION.match, names)):
            label = "NCCL version " if "nccl" in hit.group(1) else f"{hit.group(1)}=="
            out.append(("PyTorch version: " if hit.group(1) == "torch" else label) + hit.group(2))
    out += [f"mapped: {path}" for path in OrderedDict.fromkeys(re.findall(r"/\S*/libnccl\S*", maps))]
    return out
