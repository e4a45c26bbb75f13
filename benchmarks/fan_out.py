"""Measures a collection from 64 hosts with 1,000 ranks: ``python benchmarks/fan_out.py [--way slurm|k8s|ssh]``.

The hosts are shims on this machine that stand in for ``srun``, ``kubectl`` and ``ssh``; the ranks are 1,000 sleeping processes with a rank
in their environment, about 16 to a host. The real collector runs 64 times, each time for the process ids of one host. Host 7 never answers
and host 13 sends garbage. The collectors share this machine, so that each gets 2 seconds: states, variables and logs come, stacks do not.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOSTS, RANKS = 64, 1000
SILENT, GARBAGE = 7, 13
NODE_S = 2
"""Seconds of one collector."""

SHIM = """#!/bin/sh
# The node: behind --nodelist= of srun, behind -- of ssh, before -- of kubectl.
here=$(dirname "$0")
case $(basename "$0") in
  squeue) echo '1|1|RUNNING|all'; exit;;
  scontrol) cat "$here/hosts"; exit;;
  kubectl) [ "$1" = get ] && { cat "$here/pods"; exit; };;
esac
node= last=
for word; do
  case $word in --nodelist=*) node=${word#--nodelist=};; esac
  [ "$last" = -- ] && [ -z "$node" ] && node=$word
  [ "$word" = -- ] && [ "$(basename "$0")" = kubectl ] && node=$last
  last=$word
done
[ "$node" = host-007 ] && exec sleep 600
[ "$node" = host-013 ] && { cat > /dev/null; echo "Welcome to $node"; exit; }
exec "$REAL_PYTHON" -I - --pid "$($CAT "$here/$node.pids")" --seconds "$SECONDS_EACH"
"""


@contextmanager
def sleeping_ranks() -> Iterator[dict[str, list[int]]]:
    """The process ids of all ranks by host."""
    by_host: dict[str, list[int]] = {}
    started = []
    sleep = "/usr/bin/sleep"
    try:
        for rank in range(RANKS):
            env = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank // HOSTS)}
            started.append(subprocess.Popen([sleep, "600"], env=env))
            by_host.setdefault(f"host-{rank % HOSTS:03}", []).append(started[-1].pid)
        yield by_host
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def write_shims(folder: Path, by_host: dict[str, list[int]]) -> None:
    """The commands and what they answer, as files of ``folder``."""
    for name in ("srun", "squeue", "scontrol", "kubectl", "ssh"):
        (folder / name).write_text(SHIM)
        (folder / name).chmod(stat.S_IRWXU)
    (folder / "hosts").write_text("".join(f"{host}\n" for host in by_host))
    items = [{"metadata": {"name": host}, "status": {"phase": "Running"}} for host in by_host]
    (folder / "pods").write_text(json.dumps({"items": items}))
    for host, pids in by_host.items():
        (folder / f"{host}.pids").write_text(",".join(map(str, pids)))


def main() -> None:
    """Run one collection and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=("slurm", "k8s", "ssh"), default="slurm")
    way = parser.parse_args().way
    with tempfile.TemporaryDirectory() as top, sleeping_ranks() as by_host:
        folder = Path(top)
        write_shims(folder, by_host)
        more = {"REAL_PYTHON": sys.executable, "CAT": "/usr/bin/cat", "SECONDS_EACH": str(NODE_S)}
        env = {**os.environ, **more, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        reach = {"slurm": ["--slurm", "1"], "k8s": ["--k8s", "-l", "app=x"], "ssh": ["--ssh", str(folder / "hosts")]}[
            way
        ]
        command = [sys.executable, "-m", "nccldoctor", "collect", *reach, "-o", str(folder / "b.tar.zst")]
        begin = time.perf_counter()
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        took = time.perf_counter() - begin
        answers = [line for line in done.stderr.splitlines() if line[:1].isdigit()]
        print(done.stdout)
        print("\n".join(answers[-4:]))
        print(f"{way}: {took:.1f} s, exit code {done.returncode}")


if __name__ == "__main__":
    main()
