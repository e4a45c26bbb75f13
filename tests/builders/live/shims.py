"""Commands of clusters that run here: ``srun``, ``kubectl`` and ``ssh`` that start the collector on this machine.

Each shim finds the node in its own arguments as the real command does, then runs what stands behind them with ``SHIM_NODE`` set. What a
node does instead is told by :func:`misbehave`.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

_SHIM = """#!{python}
import os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
here = os.path.dirname(os.path.abspath(sys.argv[0]))
with open(os.path.join(here, "asked"), "a") as log:
    log.write("\\x1f".join([name, *words]) + "\\n")
answer = os.path.join(here, name + ".answer")
if name in ("squeue", "scontrol") or words[:2] == ["get", "pods"]:
    with open(answer) as text:
        sys.stdout.write(text.read())
    sys.exit(0)
at = words.index("--")
if name == "ssh":
    node, command = words[at + 1], ["/bin/sh", "-c", words[at + 2]]
elif name == "kubectl":
    node, command = words[at - 1], words[at + 1 :]
else:
    node, command = next(w for w in words if w.startswith("--nodelist=")).partition("=")[2], words[at + 1 :]
os.environ["SHIM_NODE"] = node
other = os.path.join(here, node + ".sh")
if os.path.exists(other):
    command = ["/bin/sh", other, *command]
try:
    os.execvp(command[0], command)
except FileNotFoundError:
    print(f"slurmstepd: error: execve(): {{command[0]}}: No such file or directory", file=sys.stderr)
    sys.exit(2)
"""

COLLECTOR = """
import io, json, os, sys, tarfile
rank, node = 0, os.environ.get("SHIM_NODE", "here")
described = {"version": 1, "host": node, "started": "2026-01-11T10:05:00+00:00", "ended": "2026-01-11T10:05:01+00:00",
             "files": [], "processes": [], "missing": []}
log = f"2026-01-11 10:05:00 rank 0 on {node}: step 7\\n".encode()
described["files"].append({"path": "rank-0/train.log", "kind": "log", "rank": 0, "local_rank": 0, "pid": 11,
                           "time": "2026-01-11T10:05:00+00:00", "look": 1})
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
    for name, data in (("rank-0/train.log", log), ("node.json", json.dumps(described).encode())):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
"""
"""A collector that sends one log, whichever node it runs on."""

SILENT = "echo $$ > {pid}; exec sleep 3600"
GARBAGE = "cat > /dev/null; printf 'Welcome to node %s!\\n' $SHIM_NODE"
CUT = '"$@" | head -c 600'
REFUSED = "echo 'kex_exchange: Connection refused by peer: Connection refused' >&2; exit 255"


class Cluster:
    """A folder of shims, first in ``PATH``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("srun", "squeue", "scontrol", "kubectl", "ssh"):
            (folder / name).write_text(_SHIM.format(python=sys.executable))
            (folder / name).chmod(0o755)
        python = folder / "python3"
        python.symlink_to(sys.executable)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def misbehave(self, node: str, script: str) -> None:
        """Let a node run a shell script in place of what it is asked to run (``"$@"``)."""
        (self.folder / f"{node}.sh").write_text(script)

    def answers(self, command: str, text: str) -> None:
        """What ``squeue``, ``scontrol`` or ``kubectl get pods`` prints."""
        (self.folder / f"{command}.answer").write_text(text)

    def has_pods(self, phases: dict[str, str]) -> None:
        """The pods that ``kubectl get pods`` lists."""
        items = [{"metadata": {"name": name}, "status": {"phase": phase}} for name, phase in phases.items()]
        self.answers("kubectl", json.dumps({"items": items}))

    def asked(self) -> list[tuple[str, ...]]:
        """Every command that ran, in order of start."""
        log = self.folder / "asked"
        return [tuple(row.split("\x1f")) for row in log.read_text().splitlines()] if log.exists() else []


def has_ended(pid: int) -> bool:
    """True when a process is gone, or goes within a minute: SIGKILL works at the next moment that the process runs."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 60.0)[0])
    finally:
        os.close(watched)


def words(*parts: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a command, written as one text or several."""
    return tuple(word for part in parts for word in (part.split() if isinstance(part, str) else part))
